//! What a policy found somewhere on the hub is: a root, a replica, or something to be removed.

use crate::objects::Policy;
use polity_core::governance::names;

/// What a policy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Written by a user.
    Root,
    /// A copy for the cluster whose namespace it is in.
    Replica {
        root_namespace: String,
        root_name: String,
    },
    /// A replica of a hub above this one: left alone.
    Foreign,
    /// In the namespace of a cluster without being a copy of anything: deleted.
    Illegal,
}

/// The role of a policy. `in_cluster_namespace`: a ManagedCluster has the name of its namespace.
pub fn role(policy: &Policy, in_cluster_namespace: bool) -> Role {
    let root = policy.labels.get(names::ROOT_POLICY);
    match (root, in_cluster_namespace) {
        (None, false) => Role::Root,
        (None, true) => Role::Illegal,
        (Some(_), false) => Role::Foreign,
        (Some(label), true) => match (label.contains('.'), names::root_of(&policy.name)) {
            (true, Some((namespace, name))) => Role::Replica {
                root_namespace: namespace.to_owned(),
                root_name: name.to_owned(),
            },
            _ => Role::Illegal,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    #[test]
    fn labels_and_namespaces_decide_the_role_of_a_policy() {
        let replica = Role::Replica {
            root_namespace: "policies".to_owned(),
            root_name: "p.q".to_owned(),
        };
        for (name, label, in_cluster_namespace, expected) in [
            ("p", None, false, Role::Root),
            ("p", None, true, Role::Illegal),
            ("policies.p.q", Some("policies.p.q"), true, replica),
            ("policies.p", Some("policies.p"), false, Role::Foreign),
            ("p", Some("policies.p"), true, Role::Illegal),
            ("policies.p", Some("p"), true, Role::Illegal),
        ] {
            let mut policy = fixtures::policy(json!({}));
            policy.name = name.to_owned();
            if let Some(label) = label {
                policy
                    .labels
                    .insert(names::ROOT_POLICY.to_owned(), label.to_owned());
            }
            assert_eq!(
                role(&policy, in_cluster_namespace),
                expected,
                "{name} {label:?}"
            );
        }
    }
}
