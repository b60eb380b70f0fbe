//! From an evaluation to an entry: the verdict of a policy, the process that asked for it, and the result that is
//! reported. See docs/spec/reports.md#10.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::ReportingKind;
use crate::entry::{Entry, Outcome, TEXT_MAX, cut};
use crate::source::ReportingPolicy;

/// How an object came to be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    Admission,
    Background,
}

impl Process {
    /// The value of `properties.process`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission review",
            Self::Background => "background scan",
        }
    }
}

/// What a policy does about a violation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Protect,
    Monitor,
}

/// A policy at the time of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluator {
    pub policy: ReportingPolicy,
    pub uid: String,
    /// The version of [`crate::version`].
    pub version: String,
    pub mode: Mode,
    pub mutating: bool,
    pub context_aware: bool,
}

/// The verdict of a policy or group itself, before mode, message and mutation rules are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestVerdict {
    Allowed {
        /// As the guest gave it; empty for a plain yes.
        message: String,
        mutated: bool,
        warnings: Vec<String>,
    },
    Denied {
        message: String,
    },
    /// Trap, time-out, code 500, module not loaded.
    Failed {
        message: String,
    },
    Exempted {
        exceptions: Vec<String>,
    },
    /// The match conditions say that this object is none of its business.
    NotMatched,
}

impl GuestVerdict {
    pub fn allowed() -> Self {
        Self::Allowed {
            message: String::new(),
            mutated: false,
            warnings: Vec::new(),
        }
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied {
            message: message.into(),
        }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
        }
    }
}

/// What a member of a group said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    Allowed,
    Denied,
    NotRun,
}

impl Member {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NotRun => "not-run",
        }
    }
}

/// An answer, with those of its members for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub answer: GuestVerdict,
    pub members: BTreeMap<String, Member>,
}

impl From<GuestVerdict> for Verdict {
    fn from(answer: GuestVerdict) -> Self {
        Self {
            answer,
            members: BTreeMap::new(),
        }
    }
}

/// What an agent says of an object or a template of a configuration policy; the worst comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compliance {
    /// Not evaluated yet.
    NotEvaluated,
    Terminating,
    Compliant,
    Pending,
    /// Evaluated, with nothing said.
    Unknown,
    NonCompliant,
}

/// The entry of an admission policy or group, if there is one to write.
pub fn to_entry(
    evaluator: &Evaluator,
    verdict: &Verdict,
    process: Process,
    now: Timestamp,
) -> Option<Entry> {
    // What a mutating policy sees at admission is not what is stored: its hash would never match.
    if process == Process::Admission && evaluator.mutating {
        return None;
    }
    let mut properties = properties(evaluator, process);
    for (name, member) in &verdict.members {
        properties.insert(format!("member.{name}"), member.as_str().to_owned());
    }
    let (result, message) = match &verdict.answer {
        GuestVerdict::NotMatched => return None,
        GuestVerdict::Allowed { mutated: true, .. } if !evaluator.mutating => {
            (Outcome::Fail, attempted_to_mutate(&evaluator.policy))
        }
        GuestVerdict::Allowed {
            message,
            mutated,
            warnings,
        } => {
            if *mutated {
                properties.insert("mutated".to_owned(), "true".to_owned());
            }
            if process == Process::Admission && !warnings.is_empty() {
                properties.insert("warnings".to_owned(), cut(warnings.join("; "), TEXT_MAX));
            }
            (Outcome::Pass, message.clone())
        }
        GuestVerdict::Denied { message } => (Outcome::Fail, message.clone()),
        GuestVerdict::Failed { message } => (Outcome::Error, message.clone()),
        GuestVerdict::Exempted { exceptions } => {
            properties.insert("exceptions".to_owned(), cut(exceptions.join(","), TEXT_MAX));
            (Outcome::Skip, String::new())
        }
    };
    // The request is blocked: what is stored, if anything, is what was there before.
    let is_blocked =
        process == Process::Admission && evaluator.mode == Mode::Protect && result == Outcome::Fail;
    (!is_blocked).then(|| Entry {
        policy: evaluator.policy.key(),
        rule: String::new(),
        result,
        message: cut(message, TEXT_MAX),
        timestamp: now.into(),
        properties,
    })
}

/// The entry of a configuration policy about a related object (no rule), or about one of its templates that has none
/// (the rule is its index).
pub fn compliance_to_entry(
    evaluator: &Evaluator,
    rule: &str,
    compliance: Compliance,
    message: &str,
    now: Timestamp,
) -> Option<Entry> {
    let result = match compliance {
        Compliance::NotEvaluated | Compliance::Terminating => return None,
        Compliance::Compliant => Outcome::Pass,
        Compliance::Pending => Outcome::Skip,
        Compliance::Unknown => Outcome::Error,
        Compliance::NonCompliant => Outcome::Fail,
    };
    Some(Entry {
        policy: evaluator.policy.key(),
        rule: rule.to_owned(),
        result,
        message: cut(message.to_owned(), TEXT_MAX),
        timestamp: now.into(),
        properties: properties(evaluator, Process::Background),
    })
}

/// The sentence of admission 8.4.
fn attempted_to_mutate(policy: &ReportingPolicy) -> String {
    format!(
        "Request rejected by policy {}. The policy attempted to mutate the request, but it is currently configured \
         to not allow mutations.",
        policy.unique_name()
    )
}

/// None of these moves without a change of the verdict or of the policy.
fn properties(evaluator: &Evaluator, process: Process) -> BTreeMap<String, String> {
    let Evaluator {
        policy,
        uid,
        version,
        mode: _,
        mutating,
        context_aware,
    } = evaluator;
    let is_admission = policy.kind() != ReportingKind::Configuration;
    let marks = [
        ("validating", is_admission && !mutating),
        ("mutating", is_admission && *mutating),
        ("context-aware", *context_aware),
    ];
    let facts = [
        ("process", process.as_str()),
        ("policy-kind", policy.kind().as_str()),
        ("policy-name", policy.name()),
        ("policy-namespace", policy.namespace().unwrap_or_default()),
        ("policy-uid", uid),
        ("policy-resource-version", version),
    ];
    facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .chain(
            marks
                .into_iter()
                .filter(|(_, is_so)| *is_so)
                .map(|(name, _)| (name, "true")),
        )
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;

    fn evaluator(mode: Mode, mutating: bool) -> Evaluator {
        Evaluator {
            policy: ReportingPolicy::new(PolicyKind::ClusterAdmissionPolicy, None, "p").unwrap(),
            uid: "u".to_owned(),
            version: "v".to_owned(),
            mode,
            mutating,
            context_aware: false,
        }
    }

    fn now() -> Timestamp {
        "2026-11-15T00:00:00.5Z".parse().unwrap()
    }

    /// What is said at admission and in the background: result, message, and one property where it matters.
    fn check(
        name: &str,
        (mode, mutating): (Mode, bool),
        answer: GuestVerdict,
        expected: [Option<(Outcome, &str, &str)>; 2],
    ) {
        let ways = [Process::Admission, Process::Background];
        for (process, expected) in ways.into_iter().zip(expected) {
            let verdict = answer.clone().into();
            let entry = to_entry(&evaluator(mode, mutating), &verdict, process, now());
            match (&entry, expected) {
                (None, None) => {}
                (Some(entry), Some((result, message, property))) => {
                    assert_eq!(entry.result, result, "{name}");
                    assert!(
                        entry.message.starts_with(message),
                        "{name}: {}",
                        entry.message
                    );
                    assert_eq!(message.is_empty(), entry.message.is_empty(), "{name}");
                    assert_eq!(entry.properties["process"], process.as_str());
                    assert!(
                        property.is_empty() || entry.properties.contains_key(property),
                        "{name}: {:?}",
                        entry.properties
                    );
                    assert_eq!(entry.timestamp.nanos, 0);
                }
                _ => panic!("{name} by {process:?}: {entry:?}"),
            }
        }
    }

    #[test]
    fn verdicts_become_results() {
        use Mode::{Monitor, Protect};
        use Outcome::{Error, Fail, Pass, Skip};
        let mutated = GuestVerdict::Allowed {
            message: String::new(),
            mutated: true,
            warnings: Vec::new(),
        };
        let warned = GuestVerdict::Allowed {
            message: String::new(),
            mutated: false,
            warnings: vec!["soon gone".to_owned()],
        };
        let exempted = GuestVerdict::Exempted {
            exceptions: vec!["x".to_owned()],
        };
        let may_not = "Request rejected by policy clusterwide-p. The policy attempted";
        check(
            "allowed",
            (Protect, false),
            GuestVerdict::allowed(),
            [Some((Pass, "", "validating")); 2],
        );
        check(
            "allowed with mutation, mutating",
            (Protect, true),
            mutated.clone(),
            [None, Some((Pass, "", "mutated"))],
        );
        check(
            "allowed with mutation, not mutating, protect",
            (Protect, false),
            mutated.clone(),
            [None, Some((Fail, may_not, ""))],
        );
        check(
            "allowed with mutation, not mutating, monitor",
            (Monitor, false),
            mutated,
            [Some((Fail, may_not, "")); 2],
        );
        check(
            "allowed with warnings",
            (Protect, false),
            warned,
            [Some((Pass, "", "warnings")), Some((Pass, "", ""))],
        );
        check(
            "denied, protect",
            (Protect, false),
            GuestVerdict::denied("no"),
            [None, Some((Fail, "no", ""))],
        );
        check(
            "denied, monitor",
            (Monitor, false),
            GuestVerdict::denied("no"),
            [Some((Fail, "no", "")); 2],
        );
        check(
            "trap or time-out",
            (Protect, false),
            GuestVerdict::failed("trap"),
            [Some((Error, "trap", "")); 2],
        );
        check(
            "exempted",
            (Protect, false),
            exempted,
            [Some((Skip, "", "exceptions")); 2],
        );
        check(
            "does not match",
            (Protect, false),
            GuestVerdict::NotMatched,
            [None; 2],
        );
        check(
            "mutating, plain yes",
            (Protect, true),
            GuestVerdict::allowed(),
            [None, Some((Pass, "", "mutating"))],
        );
    }

    #[test]
    fn a_group_is_one_entry_that_tells_its_members() {
        let verdict = Verdict {
            answer: GuestVerdict::denied("the group says no"),
            members: BTreeMap::from([
                ("a".to_owned(), Member::Allowed),
                ("b".to_owned(), Member::Denied),
                ("c".to_owned(), Member::NotRun),
            ]),
        };
        let evaluator = Evaluator {
            policy: ReportingPolicy::new(PolicyKind::AdmissionPolicyGroup, Some("n"), "g").unwrap(),
            ..evaluator(Mode::Protect, false)
        };
        let entry = to_entry(&evaluator, &verdict, Process::Background, now()).unwrap();
        let members: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| entry.properties[&format!("member.{name}")].as_str())
            .collect();
        assert_eq!(members, ["allowed", "denied", "not-run"]);
        assert_eq!(entry.properties["policy-namespace"], "n");
        assert_eq!(entry.message, "the group says no");
    }

    #[test]
    fn compliance_becomes_a_result() {
        use Compliance::*;
        let evaluator = Evaluator {
            policy: ReportingPolicy::new(ReportingKind::Configuration, Some("n"), "c").unwrap(),
            ..evaluator(Mode::Protect, false)
        };
        for (compliance, expected) in [
            (Compliant, Some(Outcome::Pass)),
            (NonCompliant, Some(Outcome::Fail)),
            (Pending, Some(Outcome::Skip)),
            (Unknown, Some(Outcome::Error)),
            (Terminating, None),
            (NotEvaluated, None),
        ] {
            let entry = compliance_to_entry(&evaluator, "0", compliance, "why", now());
            assert_eq!(entry.as_ref().map(|entry| entry.result), expected);
            if let Some(entry) = entry {
                assert_eq!(entry.policy.entry_key(&entry.rule), "cfgpol/n.c/0");
                assert!(!entry.properties.contains_key("validating"));
            }
        }
        let listed_twice = [Compliant, NonCompliant, Pending].into_iter().max();
        assert_eq!(
            listed_twice,
            Some(NonCompliant),
            "an object listed twice gets the worse verdict"
        );
    }

    #[test]
    fn long_messages_are_cut() {
        let verdict = GuestVerdict::denied("é".repeat(2000)).into();
        let entry = to_entry(
            &evaluator(Mode::Monitor, false),
            &verdict,
            Process::Admission,
            now(),
        );
        let message = entry.unwrap().message;
        assert!(message.len() <= TEXT_MAX && message.ends_with('…'));
    }
}
