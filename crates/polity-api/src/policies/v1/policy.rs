//! AdmissionPolicy and ClusterAdmissionPolicy: one module, asked about requests.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::{ClusterScope, ContextAwareResource, Enforcement, Module};
use super::status::PolicyStatus;

/// AdmissionPolicy evaluates admission requests for objects in its own namespace.
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
    doc = "AdmissionPolicy evaluates admission requests for objects in its own namespace."
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

    /// Whether the policy may modify the objects that it evaluates.
    pub mutating: bool,

    /// Message returned to the user when a request is denied. Replaces the message of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// ClusterAdmissionPolicy evaluates admission requests in the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "ClusterAdmissionPolicy",
    plural = "clusteradmissionpolicies",
    shortname = "cap",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "ClusterAdmissionPolicy evaluates admission requests in the whole cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAdmissionPolicySpec {
    #[serde(flatten)]
    pub policy: AdmissionPolicySpec,

    #[serde(flatten)]
    pub cluster: ClusterScope,

    /// Kinds of objects that the policy may read from the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub context_aware_resources: Option<Vec<ContextAwareResource>>,
}
