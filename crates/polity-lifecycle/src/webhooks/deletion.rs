//! The warning with which the deletion of a PolicyServer is answered: what is no longer enforced after it.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use serde_json::Value;

/// The policies that a policy server serves, as far as they could be counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServedPolicies {
    /// Those that reject requests.
    pub n_protecting: usize,
    /// Those that only report what they would reject.
    pub n_monitoring: usize,
    /// Whether there are more than these.
    pub has_more: bool,
}

impl ServedPolicies {
    /// Counts the policies of these revisions, which are all of one server. A policy whose update drains has two serving
    /// revisions; the newer one counts.
    pub fn of(revisions: &[PolicyRevision], has_more: bool) -> Self {
        let serving = revisions.iter().filter(|revision| {
            let mark = revision.annotations().get(names::SERVING);
            revision.spec.enabled && mark.is_some_and(|mark| mark == "true")
        });
        let mut by_policy: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
        for revision in serving {
            let uid = revision.labels().get(names::POLICY_UID);
            let generation = revision.spec.policy_generation;
            let policy = by_policy
                .entry(uid.map(String::as_str).unwrap_or_default())
                .or_default();
            *policy = (*policy).max((generation, is_monitoring(revision)));
        }
        let n_monitoring = by_policy.values().filter(|(_, monitors)| *monitors).count();
        Self {
            n_protecting: by_policy.len() - n_monitoring,
            n_monitoring,
            has_more,
        }
    }

    /// The warning, if anything is lost.
    pub fn warning(&self, server: &str) -> Option<String> {
        let n_policies = self.n_protecting + self.n_monitoring;
        if n_policies == 0 && !self.has_more {
            return None;
        }
        let at_least = if self.has_more { "at least " } else { "" };
        let noun = if n_policies == 1 {
            "policy is"
        } else {
            "policies are"
        };
        Some(format!(
            "{at_least}{n_policies} {noun} no longer enforced without PolicyServer {server} \
             ({} in protect mode, {} in monitor mode)",
            self.n_protecting, self.n_monitoring
        ))
    }
}

/// The warning when nothing could be counted.
pub(super) fn uncounted(server: &str) -> String {
    format!(
        "the policies of PolicyServer {server} are no longer enforced without it; they could not be counted"
    )
}

fn is_monitoring(revision: &PolicyRevision) -> bool {
    let spec = revision.spec.data.get("spec");
    spec.and_then(|spec| spec.get("mode"))
        .and_then(Value::as_str)
        == Some("monitor")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn revision(policy: &str, generation: i64, mode: &str, is_serving: bool) -> PolicyRevision {
        let annotations = if is_serving {
            json!({"kubewarden.io/serving": "true"})
        } else {
            json!({})
        };
        serde_json::from_value(json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
            "metadata": {
                "name": format!("{policy}-{generation}"), "annotations": annotations,
                "labels": {"kubewarden.io/policy-uid": policy},
            },
            "spec": {
                "objectReference": {
                    "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "name": policy,
                },
                "policyGeneration": generation, "enabled": true, "data": {"spec": {"mode": mode}},
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_warning_counts_each_policy_that_is_served_once() {
        let check = |revisions: &[PolicyRevision], has_more, expected: Option<&str>| {
            let warning = ServedPolicies::of(revisions, has_more).warning("default");
            assert_eq!(warning.as_deref(), expected);
        };
        check(&[], false, None);
        check(&[revision("a", 1, "protect", false)], false, None);
        check(
            &[revision("a", 1, "protect", true)],
            false,
            Some(
                "1 policy is no longer enforced without PolicyServer default (1 in protect mode, 0 in monitor mode)",
            ),
        );
        // The update of `b` to protect mode is done, and its older generation drains.
        let all = [
            revision("a", 4, "protect", true),
            revision("b", 1, "monitor", true),
            revision("b", 2, "protect", true),
            revision("c", 1, "monitor", true),
        ];
        check(
            &all,
            false,
            Some(
                "3 policies are no longer enforced without PolicyServer default (2 in protect mode, 1 in monitor mode)",
            ),
        );
        check(
            &all,
            true,
            Some(
                "at least 3 policies are no longer enforced without PolicyServer default (2 in protect mode, 1 in monitor mode)",
            ),
        );
    }
}
