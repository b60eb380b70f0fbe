//! AdmissionPolicy and ClusterAdmissionPolicy: one module, asked about requests.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::{ClusterScope, ContextAwareResource, Enforcement, Module};
use super::status::PolicyStatus;

/// A policy for the requests of one namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "AdmissionPolicy",
    plural = "admissionpolicies",
    shortname = "ap",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "A policy for the requests of one namespace."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.timeoutEvalSeconds) || self.timeoutEvalSeconds <= self.timeoutSeconds")
    .message("timeoutEvalSeconds cannot be more than timeoutSeconds")
    .field_path(".timeoutEvalSeconds"))]
pub struct AdmissionPolicySpec {
    #[serde(flatten)]
    pub module: Module,

    #[serde(flatten)]
    pub enforcement: Enforcement,

    /// Whether the policy may change the objects it is asked about.
    pub mutating: bool,

    /// What the user is told when a request is refused, instead of the policy's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A policy for the requests of the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "ClusterAdmissionPolicy",
    plural = "clusteradmissionpolicies",
    shortname = "cap",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "A policy for the requests of the whole cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAdmissionPolicySpec {
    #[serde(flatten)]
    pub policy: AdmissionPolicySpec,

    #[serde(flatten)]
    pub cluster: ClusterScope,

    /// The kinds of objects that the policy may read from the cluster. Nothing else is shown to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub context_aware_resources: Option<Vec<ContextAwareResource>>,
}
