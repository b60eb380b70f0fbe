//! The status that a managed cluster reports for its replica: compliance and rollout status, from its templates.

use crate::objects::Policy;
use polity_core::governance::Compliance;
use polity_core::rollout_strategy::RolloutStatus;

use crate::mark::{Mark, Phase, Stage};

/// One template as status sync finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateReport {
    /// What its newest message says.
    pub compliant: Option<Compliance>,
    /// Whether template sync has finished a pass over the generation that the policy has now.
    pub synced: bool,
    pub evidence: Evidence,
}

/// Why a verdict is about the template as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The generation of the object, and the one its controller has evaluated.
    Generation {
        current: i64,
        evaluated: Option<i64>,
    },
    /// A kind that says nothing about generations: whether it has reported since it was last written.
    ReportedSinceWrite(bool),
    /// Template sync could not apply it; that is a verdict.
    TemplateError,
    /// It waits for something and counts as compliant meanwhile; that is a verdict.
    IgnoredPending,
    /// It waits for something.
    Pending,
}

impl TemplateReport {
    /// Whether its state is about what the policy says now. Without the pass of template sync, an old object that is
    /// fully evaluated would pass for the new one.
    pub fn is_up_to_date(&self) -> bool {
        self.synced
            && match self.evidence {
                Evidence::Generation { current, evaluated } => evaluated == Some(current),
                Evidence::ReportedSinceWrite(has) => has,
                Evidence::TemplateError | Evidence::IgnoredPending => true,
                Evidence::Pending => false,
            }
    }
}

/// The compliance that the newest message of a template means.
pub fn compliance_of_message(message: &str) -> Compliance {
    let text = message.trim_start().to_ascii_lowercase();
    if text.starts_with("compliant") {
        Compliance::Compliant
    } else if text.starts_with("pending") {
        Compliance::Pending
    } else {
        Compliance::NonCompliant
    }
}

/// The compliance of a policy on its cluster; unknown while a template is and none is worse.
pub fn compliance(templates: &[TemplateReport]) -> Option<Compliance> {
    crate::plan::compliance(templates.iter().map(|template| template.compliant))
}

/// The rollout status of a policy on its cluster.
pub fn rollout_status(policy: &Policy, templates: &[TemplateReport]) -> RolloutStatus {
    let mark = Mark::read(&policy.annotations);
    if mark
        .as_ref()
        .is_some_and(|mark| mark.step.stage == Stage::Wait)
    {
        return RolloutStatus::ToApply;
    }
    let is_up_to_date =
        !templates.is_empty() && templates.iter().all(TemplateReport::is_up_to_date);
    match compliance(templates) {
        Some(Compliance::Compliant) if is_up_to_date => RolloutStatus::Succeeded,
        Some(Compliance::NonCompliant) if is_up_to_date => RolloutStatus::Failed,
        _ if mark.is_some_and(|mark| mark.phase == Phase::TimeOut) => RolloutStatus::TimeOut,
        _ => RolloutStatus::Progressing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    fn template(compliant: Option<Compliance>, evidence: Evidence) -> TemplateReport {
        TemplateReport {
            compliant,
            synced: true,
            evidence,
        }
    }

    #[test]
    fn the_rollout_status_of_a_cluster_needs_current_evidence() {
        let (good, bad, pending) = (
            Compliance::Compliant,
            Compliance::NonCompliant,
            Compliance::Pending,
        );
        let seen = Evidence::Generation {
            current: 2,
            evaluated: Some(2),
        };
        let behind = Evidence::Generation {
            current: 2,
            evaluated: Some(1),
        };
        let step = "0123456789abcdef";
        let mut not_synced = template(Some(good), seen);
        not_synced.synced = false;
        for (stage, phase, templates, expected) in [
            (
                "wait",
                "ToApply",
                vec![template(Some(good), seen)],
                RolloutStatus::ToApply,
            ),
            ("final", "Progressing", vec![], RolloutStatus::Progressing),
            (
                "final",
                "Progressing",
                vec![template(Some(good), behind)],
                RolloutStatus::Progressing,
            ),
            (
                "final",
                "Progressing",
                vec![not_synced],
                RolloutStatus::Progressing,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(good), seen)],
                RolloutStatus::Succeeded,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(bad), seen)],
                RolloutStatus::Failed,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(good), seen), template(Some(bad), behind)],
                RolloutStatus::Progressing,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(bad), Evidence::TemplateError)],
                RolloutStatus::Failed,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(good), Evidence::IgnoredPending)],
                RolloutStatus::Succeeded,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(pending), Evidence::Pending)],
                RolloutStatus::Progressing,
            ),
            (
                "final",
                "TimeOut",
                vec![template(Some(good), behind)],
                RolloutStatus::TimeOut,
            ),
            (
                "final",
                "TimeOut",
                vec![template(Some(bad), seen)],
                RolloutStatus::Failed,
            ),
            (
                "final",
                "Progressing",
                vec![template(Some(good), Evidence::ReportedSinceWrite(false))],
                RolloutStatus::Progressing,
            ),
        ] {
            let mut policy = fixtures::policy(json!({}));
            Mark {
                step: crate::mark::Step::parse(&format!("{step}-{stage}")).unwrap(),
                phase: match phase {
                    "ToApply" => Phase::ToApply,
                    "TimeOut" => Phase::TimeOut,
                    _ => Phase::Progressing,
                },
                since: fixtures::START.parse().unwrap(),
            }
            .write(&mut policy.annotations);
            assert_eq!(
                rollout_status(&policy, &templates),
                expected,
                "{stage} {phase} {templates:?}"
            );
        }
    }

    #[test]
    fn the_start_of_a_message_gives_the_compliance() {
        for (message, expected) in [
            (" compliant; fine", Compliance::Compliant),
            ("Pending; waits", Compliance::Pending),
            ("NonCompliant; violation", Compliance::NonCompliant),
            ("anything", Compliance::NonCompliant),
            ("", Compliance::NonCompliant),
        ] {
            assert_eq!(compliance_of_message(message), expected, "{message}");
        }
    }
}
