//! AdmissionPolicyGroup and ClusterAdmissionPolicyGroup: several modules and an expression over their verdicts.

use std::collections::BTreeMap;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::{ClusterScope, ContextAwareResource, Enforcement, Module};
use super::status::PolicyStatus;

/// AdmissionPolicyGroup evaluates several policies together for admission requests in its own namespace.
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
    doc = "AdmissionPolicyGroup evaluates several policies together for admission requests in its own namespace."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = member_names())]
#[x_kube(validation = member_timeouts())]
pub struct AdmissionPolicyGroupSpec {
    #[serde(flatten)]
    pub enforcement: Enforcement,

    /// CEL expression that is true for requests to allow. It consists of `&&`, `||`, `!`, `==`, `!=`, `true`, `false`
    /// and one call for each member, such as `signed_by_alice() || (signed_by_bob() && from_our_registry())`.
    pub expression: String,

    /// Message returned to the user when a request is denied. The messages of the members are appended.
    #[schemars(length(min = 1))]
    pub message: String,

    /// Members of the group by the name that the expression calls. A name consists of letters, digits and underscores
    /// and does not start with a digit.
    #[schemars(extend("minProperties" = 1))]
    pub policies: BTreeMap<String, Module>,
}

/// ClusterAdmissionPolicyGroup evaluates several policies together for admission requests in the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "ClusterAdmissionPolicyGroup",
    plural = "clusteradmissionpolicygroups",
    shortname = "capg",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "ClusterAdmissionPolicyGroup evaluates several policies together for admission requests in the whole cluster."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = member_names())]
#[x_kube(validation = member_timeouts())]
pub struct ClusterAdmissionPolicyGroupSpec {
    #[serde(flatten)]
    pub enforcement: Enforcement,

    #[serde(flatten)]
    pub cluster: ClusterScope,

    /// CEL expression that is true for requests to allow. It consists of `&&`, `||`, `!`, `==`, `!=`, `true`, `false`
    /// and one call for each member, such as `signed_by_alice() || (signed_by_bob() && from_our_registry())`.
    pub expression: String,

    /// Message returned to the user when a request is denied. The messages of the members are appended.
    #[schemars(length(min = 1))]
    pub message: String,

    /// Members of the group by the name that the expression calls. A name consists of letters, digits and underscores
    /// and does not start with a digit.
    #[schemars(extend("minProperties" = 1))]
    pub policies: BTreeMap<String, ClusterGroupMember>,
}

/// A member of a ClusterAdmissionPolicyGroup: a module that may also read objects from the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterGroupMember {
    #[serde(flatten)]
    pub module: Module,

    /// Kinds of objects that this member may read from the cluster.
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
