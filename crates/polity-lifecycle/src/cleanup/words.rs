//! How far it is, and what is left and why, for people.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::{Left, Observed, Stage, Step};
use crate::kinds::OwnedKey;

/// How many are named.
const MOST_NAMED: usize = 5;

/// How far it is, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// `policies`, `policy servers`.
    pub what: &'static str,
    /// How many there were at most.
    pub n_all: usize,
    /// What is left of them.
    pub left: Vec<OwnedKey>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.left.iter().map(ToString::to_string).collect();
        let named = names.len().min(MOST_NAMED);
        write!(
            f,
            "{} of {} {} left: {}",
            names.len(),
            self.n_all,
            self.what,
            names[..named].join(", ")
        )?;
        match names.len() - named {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// What is left and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains(Vec<(String, String)>);

impl fmt::Display for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self
            .0
            .iter()
            .map(|(what, why)| format!("  {what}: {why}"))
            .collect();
        f.write_str(&lines.join("\n"))
    }
}

/// What a step is about.
pub(super) fn subject(step: &Step<'_>, deployment: &str) -> String {
    match step {
        Step::Delete(left) | Step::Release(left, _) => left.key.to_string(),
        Step::DeleteWebhook(webhook) => format!("{} {}", webhook.kind.as_str(), webhook.name),
        Step::DeleteRevision(name, _) => format!("PolicyRevision {name}"),
        Step::StopController => format!("Deployment {deployment}"),
    }
}

/// How far it is, unless there is nothing to count.
pub(super) fn progress(observed: &Observed, stage: Stage, most: [usize; 2]) -> Option<Progress> {
    let (what, n_all, left) = match stage {
        Stage::Policies => ("policies", most[0], &observed.policies),
        Stage::Servers => ("policy servers", most[1], &observed.servers),
        Stage::Controller | Stage::Done => return None,
    };
    let left: Vec<_> = left.iter().map(|one| one.key.clone()).collect();
    (!left.is_empty()).then_some(Progress { what, n_all, left })
}

/// What is left and why, as far as was seen; what was tried last tells the rest.
pub(super) fn remains(
    observed: &Observed,
    steps: &[Step<'_>],
    mut refusals: BTreeMap<String, String>,
    deployment: &str,
) -> Remains {
    let left = observed.policies.iter().chain(&observed.servers);
    let mut lines: Vec<_> = left
        .map(|left| {
            let name = left.key.to_string();
            let refusal = refusals.remove(&name);
            (name, why(left, refusal.as_deref()))
        })
        .collect();
    for step in steps {
        let still = match step {
            Step::Delete(_) | Step::Release(..) => continue,
            Step::DeleteWebhook(_) | Step::DeleteRevision(..) => "deleted, and still there",
            Step::StopController => "not scaled to zero yet",
        };
        let name = subject(step, deployment);
        let refusal = refusals.remove(&name);
        lines.push((name, refusal.unwrap_or_else(|| still.to_owned())));
    }
    if steps.is_empty() && lines.is_empty() && observed.n_controller_pods > 0 {
        let n_pods = observed.n_controller_pods;
        lines.push((
            format!("Deployment {deployment}"),
            format!("scaled to zero; pods that have not ended yet: {n_pods}"),
        ));
    }
    lines.extend(refusals);
    Remains(lines)
}

fn why(left: &Left, refusal: Option<&str>) -> String {
    let state = match left.deleted_at {
        None => "not deleted yet".to_owned(),
        Some(since) if left.finalizers.is_empty() => format!("being deleted since {since}"),
        Some(since) => format!(
            "being deleted since {since}, and waits for its finalizers {}",
            left.finalizers.join(", ")
        ),
    };
    match refusal {
        Some(refusal) => format!("{state}: {refusal}"),
        None => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::OwnedKind;
    use crate::lifecycle::PolicyKind;

    fn key(name: &str) -> OwnedKey {
        OwnedKey {
            kind: OwnedKind::Policy(PolicyKind::AdmissionPolicy),
            namespace: Some("team".to_owned()),
            name: name.to_owned(),
        }
    }

    #[test]
    fn progress_names_a_few() {
        let progress = |names: &[&str]| {
            let left = names.iter().map(|name| key(name)).collect();
            let what = "policies";
            Progress {
                what,
                n_all: 12,
                left,
            }
            .to_string()
        };
        assert_eq!(
            progress(&["a", "b"]),
            "2 of 12 policies left: AdmissionPolicy team/a, AdmissionPolicy team/b"
        );
        let many = progress(&["a", "b", "c", "d", "e", "f", "g"]);
        assert!(many.starts_with("7 of 12 policies left: "), "{many}");
        assert!(
            many.ends_with("AdmissionPolicy team/e and 2 more"),
            "{many}"
        );
    }

    #[test]
    fn what_is_left_says_why() {
        let left = |name: &str, since: Option<&str>, finalizers: &[&str]| Left {
            key: key(name),
            uid: String::new(),
            resource_version: String::new(),
            deleted_at: since.map(|since| since.parse().unwrap()),
            finalizers: finalizers.iter().map(|&one| one.to_owned()).collect(),
        };
        let since = Some("2026-11-16T12:00:00Z");
        let observed = Observed {
            policies: vec![
                left("denied", None, &[]),
                left("held", since, &["a/b", "c/d"]),
                left("going", since, &[]),
            ],
            ..Observed::default()
        };
        let refusals = BTreeMap::from([
            (
                "AdmissionPolicy team/denied".to_owned(),
                "admission webhook said no".to_owned(),
            ),
            ("PolicyRevision r".to_owned(), "no".to_owned()),
        ]);
        assert_eq!(
            remains(&observed, &[], refusals, "c").to_string(),
            "  AdmissionPolicy team/denied: not deleted yet: admission webhook said no
  AdmissionPolicy team/held: being deleted since 2026-11-16T12:00:00Z, and waits for its finalizers a/b, c/d
  AdmissionPolicy team/going: being deleted since 2026-11-16T12:00:00Z
  PolicyRevision r: no"
        );
        let steps = [Step::DeleteRevision("r", "uid"), Step::StopController];
        assert_eq!(
            remains(&Observed::default(), &steps, BTreeMap::new(), "c").to_string(),
            "  PolicyRevision r: deleted, and still there\n  Deployment c: not scaled to zero yet"
        );
    }
}
