//! AdmissionPolicyGroup and ClusterAdmissionPolicyGroup: several modules and an expression over their verdicts.

use std::collections::BTreeMap;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::{ClusterScope, ContextAwareResource, Enforcement, Module};
use super::status::PolicyStatus;

/// A group of policies for the requests of one namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "AdmissionPolicyGroup",
    plural = "admissionpolicygroups",
    shortname = "apg",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "A group of policies for the requests of one namespace."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = member_names())]
#[x_kube(validation = member_timeouts())]
pub struct AdmissionPolicyGroupSpec {
    #[serde(flatten)]
    pub enforcement: Enforcement,

    /// Which verdicts let a request pass: a CEL expression of `&&`, `||`, `!`, `==`, `!=`, `true`, `false` and one
    /// call per member, as in `signed_by_alice() || (signed_by_bob() && from_our_registry())`.
    pub expression: String,

    /// What the user is told when a request is refused. The verdicts of the members are added to it.
    #[schemars(length(min = 1))]
    pub message: String,

    /// The members, by the name that the expression calls them. A name is made of letters, digits and underscores
    /// and does not start with a digit.
    #[schemars(extend("minProperties" = 1))]
    pub policies: BTreeMap<String, Module>,
}

/// A group of policies for the requests of the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "ClusterAdmissionPolicyGroup",
    plural = "clusteradmissionpolicygroups",
    shortname = "capg",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "A group of policies for the requests of the whole cluster."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = member_names())]
#[x_kube(validation = member_timeouts())]
pub struct ClusterAdmissionPolicyGroupSpec {
    #[serde(flatten)]
    pub enforcement: Enforcement,

    #[serde(flatten)]
    pub cluster: ClusterScope,

    /// Which verdicts let a request pass: a CEL expression of `&&`, `||`, `!`, `==`, `!=`, `true`, `false` and one
    /// call per member, as in `signed_by_alice() || (signed_by_bob() && from_our_registry())`.
    pub expression: String,

    /// What the user is told when a request is refused. The verdicts of the members are added to it.
    #[schemars(length(min = 1))]
    pub message: String,

    /// The members, by the name that the expression calls them. A name is made of letters, digits and underscores
    /// and does not start with a digit.
    #[schemars(extend("minProperties" = 1))]
    pub policies: BTreeMap<String, ClusterGroupMember>,
}

/// A member of a cluster-wide group: a module that may also read from the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterGroupMember {
    #[serde(flatten)]
    pub module: Module,

    /// The kinds of objects that this member may read from the cluster. Nothing else is shown to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub context_aware_resources: Option<Vec<ContextAwareResource>>,
}

fn member_names() -> Rule {
    Rule::new("self.policies.all(name, name.matches('^[_a-zA-Z][_a-zA-Z0-9]*$'))")
        .message("the name of a member is made of letters, digits and underscores and does not start with a digit")
        .field_path(".policies")
}

fn member_timeouts() -> Rule {
    Rule::new(
        "self.policies.map(name, has(self.policies[name].timeoutEvalSeconds) \
         ? self.policies[name].timeoutEvalSeconds : 0).sum() <= self.timeoutSeconds",
    )
    .message("timeoutEvalSeconds of all members together cannot be more than timeoutSeconds of the group")
    .field_path(".policies")
}
