//! What the agent of a cluster may do on the hub: everything in this list, in the namespace of its cluster, and nothing
//! else. See docs/spec/governance.md#10-9.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_core::governance::names as governance;

use crate::names;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects that give an agent its rights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentRights {
    pub(crate) account: ServiceAccount,
    pub(crate) role: Role,
    pub(crate) binding: RoleBinding,
}

/// The namespace of a cluster.
pub(crate) fn namespace(cluster: &str) -> Namespace {
    let mut labels = managed_labels();
    labels.insert(names::MANAGED_CLUSTER.to_owned(), cluster.to_owned());
    Namespace {
        metadata: ObjectMeta {
            name: Some(cluster.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// The rights of the agent of a cluster.
pub(crate) fn agent_rights(cluster: &str) -> AgentRights {
    let metadata = || ObjectMeta {
        name: Some(names::AGENT.to_owned()),
        namespace: Some(cluster.to_owned()),
        labels: Some(managed_labels()),
        ..ObjectMeta::default()
    };
    AgentRights {
        account: ServiceAccount {
            metadata: metadata(),
            ..ServiceAccount::default()
        },
        role: Role {
            metadata: metadata(),
            rules: Some(rules()),
        },
        binding: RoleBinding {
            metadata: metadata(),
            role_ref: RoleRef {
                api_group: Some(RBAC.to_owned()),
                kind: "Role".to_owned(),
                name: names::AGENT.to_owned(),
            },
            subjects: Some(vec![
                Subject {
                    kind: "ServiceAccount".to_owned(),
                    name: names::AGENT.to_owned(),
                    namespace: Some(cluster.to_owned()),
                    api_group: None,
                },
                Subject {
                    kind: "Group".to_owned(),
                    name: names::agent_group(cluster),
                    namespace: None,
                    api_group: Some(RBAC.to_owned()),
                },
            ]),
        },
    }
}

fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, named: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: (!named.is_empty()).then(|| owned(named)),
        verbs: owned(verbs),
        non_resource_urls: None,
    };
    let lease = "leases";
    let leases = "coordination.k8s.io";
    vec![
        rule(
            governance::GROUP,
            "policies",
            &[],
            &["get", "list", "watch"],
        ),
        rule(
            governance::GROUP,
            "policies/status",
            &[],
            &["get", "update", "patch"],
        ),
        rule("", "events", &[], &["create", "patch"]),
        rule(
            "",
            "secrets",
            &[governance::ENCRYPTION_SECRET],
            &["get", "list", "watch"],
        ),
        // A create request has no name that a rule could be limited to.
        rule(leases, lease, &[], &["create"]),
        rule(
            leases,
            lease,
            &[names::CLUSTER_LEASE],
            &["get", "update", "patch"],
        ),
    ]
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn managed_labels() -> BTreeMap<String, String> {
    [(names::MANAGED_BY.to_owned(), names::HUB.to_owned())].into()
}

/// Selects the objects that hub controllers create for clusters.
pub(crate) fn managed_selector() -> String {
    format!("{}={}", names::MANAGED_BY, names::HUB)
}
