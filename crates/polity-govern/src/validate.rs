//! Validation at admission. Plans accept invalid objects all the same, because webhooks can be disabled.

use std::collections::BTreeMap;

use crate::objects::{Policy, PolicySet, PolicyTemplate};
use polity_core::cluster::names::{CLUSTER_SET, DEFAULT_SET};
use polity_core::governance::names;

/// The operation of an admission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
}

/// Why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    #[error(
        "the combined length of the policy namespace and name cannot exceed {} characters",
        names::ROOT_NAME_MAX
    )]
    NameTooLong,
    #[error("RemediationAction field of the policy and policy template cannot both be unset")]
    NoAction,
    #[error("{0}")]
    Strategy(String),
}

/// Checks a policy, root or replica.
pub fn policy(policy: &Policy, operation: Operation) -> Result<(), PolicyRefusal> {
    let is_root = !policy.labels.contains_key(names::ROOT_POLICY);
    let length = policy.namespace.chars().count() + policy.name.chars().count();
    if is_root && operation == Operation::Create && length > names::ROOT_NAME_MAX {
        return Err(PolicyRefusal::NameTooLong);
    }
    if policy.spec.action.is_none() && policy.spec.templates.iter().any(lacks_action) {
        return Err(PolicyRefusal::NoAction);
    }
    match &policy.spec.rollout_strategy {
        Some(Err(error)) if is_root => Err(PolicyRefusal::Strategy(error.to_string())),
        _ => Ok(()),
    }
}

fn lacks_action(template: &PolicyTemplate) -> bool {
    let action = template
        .definition
        .pointer("/spec/remediationAction")
        .and_then(|action| action.as_str());
    template.kind() == "ConfigurationPolicy" && action.is_none_or(str::is_empty)
}

/// Why a policy set is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicySetRefusal {
    #[error("policy in spec.exclusions is not listed in spec.policies: {}", .0.join(", "))]
    NotListed(Vec<String>),
    #[error("policy in spec.exclusions has a duplicate entry: {}", .0.join(", "))]
    Duplicate(Vec<String>),
}

/// Checks a policy set.
pub fn policy_set(set: &PolicySet) -> Result<(), PolicySetRefusal> {
    let names = || set.exclusions.iter().map(|exclusion| &exclusion.policy);
    let missing: Vec<String> = names()
        .filter(|name| !set.policies.contains(name))
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(PolicySetRefusal::NotListed(missing));
    }
    let mut twice: Vec<String> = names()
        .filter(|name| names().filter(|other| other == name).count() > 1)
        .cloned()
        .collect();
    twice.sort();
    twice.dedup();
    if twice.is_empty() {
        Ok(())
    } else {
        Err(PolicySetRefusal::Duplicate(twice))
    }
}

/// Why the binding of a cluster set is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet")]
pub struct ClusterSetBindingRefusal;

/// Checks a ManagedClusterSetBinding: its name, and the set it binds.
pub fn cluster_set_binding(name: &str, cluster_set: &str) -> Result<(), ClusterSetBindingRefusal> {
    (name == cluster_set)
        .then_some(())
        .ok_or(ClusterSetBindingRefusal)
}

/// Puts a ManagedCluster that names no set into the default one, as it is written.
pub fn default_cluster_set(labels: &mut BTreeMap<String, String>) {
    let set = labels.entry(CLUSTER_SET.to_owned()).or_default();
    if set.is_empty() {
        DEFAULT_SET.clone_into(set);
    }
}

#[cfg(test)]
mod tests {
    use crate::objects::Exclusion;
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    #[test]
    fn the_name_of_a_root_is_limited() {
        let mut root = fixtures::policy(json!({"remediationAction": "inform"}));
        root.namespace = "é".repeat(30);
        root.name = "x".repeat(32);
        assert_eq!(policy(&root, Operation::Create), Ok(()));
        root.name.push('x');
        let refusal = policy(&root, Operation::Create).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the combined length of the policy namespace and name cannot exceed 62 characters"
        );
        assert_eq!(
            policy(&root, Operation::Update),
            Ok(()),
            "only when created"
        );
        root.labels
            .insert(names::ROOT_POLICY.to_owned(), "a.b".to_owned());
        assert_eq!(policy(&root, Operation::Create), Ok(()), "a replica");
    }

    #[test]
    fn the_policy_or_its_templates_set_an_action() {
        let template = |kind: &str, spec: serde_json::Value| json!([{"objectDefinition": {"apiVersion": "v1", "kind": kind, "metadata": {"name": "t"}, "spec": spec}}]);
        for (spec, fine) in [
            (
                json!({"policy-templates": template("ConfigurationPolicy", json!({}))}),
                false,
            ),
            (
                json!({"policy-templates": template("ConfigurationPolicy", json!({"remediationAction": "inform"}))}),
                true,
            ),
            (
                json!({"policy-templates": template("OperatorPolicy", json!({}))}),
                true,
            ),
            (
                json!({"remediationAction": "inform", "policy-templates": template("ConfigurationPolicy", json!({}))}),
                true,
            ),
        ] {
            let found = policy(&fixtures::policy(spec.clone()), Operation::Update);
            assert_eq!(found == Ok(()), fine, "{spec}: {found:?}");
        }
        assert_eq!(
            PolicyRefusal::NoAction.to_string(),
            "RemediationAction field of the policy and policy template cannot both be unset"
        );
    }

    #[test]
    fn a_strategy_that_the_engine_refuses_is_refused() {
        let strategy = json!({"type": "Progressive", "progressive": {"maxFailures": "3"}});
        let root =
            fixtures::policy(json!({"remediationAction": "enforce", "rolloutStrategy": strategy}));
        assert_eq!(
            policy(&root, Operation::Update).unwrap_err().to_string(),
            "'3' is an invalid maximum threshold value: string is not a percentage"
        );
    }

    #[test]
    fn exclusions_name_members_and_each_member_once() {
        let set = |policies: &[&str], excluded: &[&str]| PolicySet {
            policies: policies.iter().map(ToString::to_string).collect(),
            exclusions: excluded
                .iter()
                .map(|policy| Exclusion {
                    policy: policy.to_string(),
                    clusters: vec![],
                })
                .collect(),
            ..PolicySet::default()
        };
        for (set, expected) in [
            (set(&["a", "b"], &["a", "b"]), ""),
            (
                set(&["a"], &["b", "a", "c"]),
                "policy in spec.exclusions is not listed in spec.policies: b, c",
            ),
            (
                set(&["a", "b"], &["b", "a", "b", "a"]),
                "policy in spec.exclusions has a duplicate entry: a, b",
            ),
        ] {
            let found = policy_set(&set).err().map(|refusal| refusal.to_string());
            assert_eq!(found.unwrap_or_default(), expected);
        }
    }
    #[test]
    fn a_set_binding_has_the_name_of_its_set_and_clusters_have_a_default_set() {
        assert_eq!(cluster_set_binding("edge", "edge"), Ok(()));
        assert_eq!(
            cluster_set_binding("edge", "global")
                .unwrap_err()
                .to_string(),
            "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
        );
        for (before, after) in [
            (None, "default"),
            (Some(""), "default"),
            (Some("edge"), "edge"),
        ] {
            let mut labels = BTreeMap::new();
            labels.extend(before.map(|set| (CLUSTER_SET.to_owned(), set.to_owned())));
            default_cluster_set(&mut labels);
            assert_eq!(labels[CLUSTER_SET], after, "{before:?}");
        }
    }
}
