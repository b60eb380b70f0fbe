//! What the copy of a policy on the managed cluster should be. See docs/spec/governance.md#10-1.

use polity_core::governance::names;
use polity_govern::objects::{Policy, PolicyStatus};

/// What to do about one policy.
#[derive(Debug, Clone, PartialEq)]
pub enum SpecSync {
    /// The copy is as the hub wants it.
    UpToDate,
    Create(Box<Policy>),
    /// Annotations or spec differ.
    Update(Box<Policy>),
    /// The hub has no such policy.
    Delete,
}

/// Compares a replica on the hub with its copy in a namespace of the managed cluster. Labels are not compared: other
/// controllers add theirs.
pub fn plan(hub: Option<&Policy>, managed: Option<&Policy>, namespace: &str) -> SpecSync {
    match (hub, managed) {
        (None, None) => SpecSync::UpToDate,
        (None, Some(_)) => SpecSync::Delete,
        (Some(replica), None) => {
            let mut labels = replica.labels.clone();
            labels.insert(names::CLUSTER_NAMESPACE.to_owned(), namespace.to_owned());
            SpecSync::Create(Box::new(Policy {
                namespace: namespace.to_owned(),
                uid: String::new(),
                resource_version: String::new(),
                labels,
                status: PolicyStatus::default(),
                ..replica.clone()
            }))
        }
        (Some(replica), Some(copy)) => {
            let is_same = replica.annotations == copy.annotations && replica.spec == copy.spec;
            match is_same {
                true => SpecSync::UpToDate,
                false => SpecSync::Update(Box::new(Policy {
                    annotations: replica.annotations.clone(),
                    spec: replica.spec.clone(),
                    ..copy.clone()
                })),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use polity_api::policy::v1;
    use serde_json::json;

    use super::*;

    fn policy(namespace: &str, action: &str, step: &str) -> Policy {
        let wire: v1::Policy = serde_json::from_value(json!({
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
            "metadata": {
                "name": "policies.p", "namespace": namespace, "uid": "u", "resourceVersion": "7",
                "labels": {names::ROOT_POLICY: "policies.p", names::CLUSTER_NAMESPACE: namespace},
                "annotations": {names::ROLLOUT_STEP: step},
            },
            "spec": {"disabled": false, "remediationAction": action, "policy-templates": []},
            "status": {"compliant": "Compliant"},
        }))
        .unwrap();
        Policy::from(&wire)
    }

    #[test]
    fn a_new_replica_is_copied_without_its_status() {
        let SpecSync::Create(copy) = plan(Some(&policy("c1", "inform", "v")), None, "managed")
        else {
            panic!("it is created");
        };
        assert_eq!(copy.namespace, "managed");
        assert_eq!(copy.labels[names::CLUSTER_NAMESPACE], "managed");
        assert_eq!(copy.labels[names::ROOT_POLICY], "policies.p");
        assert_eq!(
            (copy.uid.as_str(), copy.resource_version.as_str()),
            ("", "")
        );
        assert_eq!(copy.status, PolicyStatus::default());
    }

    #[test]
    fn spec_and_annotations_follow_the_hub_and_labels_stay() {
        let mut copy = policy("managed", "inform", "v-wait");
        copy.labels.insert("team".to_owned(), "a".to_owned());
        let same = policy("c1", "inform", "v-wait");
        assert_eq!(
            plan(Some(&same), Some(&copy), "managed"),
            SpecSync::UpToDate
        );
        let next = policy("c1", "enforce", "v-final");
        let SpecSync::Update(updated) = plan(Some(&next), Some(&copy), "managed") else {
            panic!("it is updated");
        };
        assert_eq!(updated.annotations[names::ROLLOUT_STEP], "v-final");
        assert_eq!(
            updated.spec.action,
            Some(polity_core::governance::Action::Enforce)
        );
        assert_eq!(updated.labels["team"], "a");
        assert_eq!(updated.namespace, "managed");
    }

    #[test]
    fn a_copy_without_a_replica_is_deleted() {
        let copy = policy("managed", "inform", "v");
        assert_eq!(plan(None, Some(&copy), "managed"), SpecSync::Delete);
        assert_eq!(plan(None, None, "managed"), SpecSync::UpToDate);
    }
}
