//! PolicySet: policies that are placed and judged together.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Policies that are placed and judged together.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema,
)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1beta1",
    kind = "PolicySet",
    plural = "policysets",
    shortname = "plcset",
    namespaced,
    status = "PolicySetStatus",
    derive = "PartialEq",
    doc = "Policies that are placed and judged together."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetSpec {
    /// What the set is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Names of policies of the same namespace.
    #[schemars(inner(length(min = 1)))]
    pub policies: Vec<String>,

    /// Members that stay away from some clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<PolicySetExclusion>,
}

/// A member that stays away from some clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetExclusion {
    /// The member.
    #[schemars(length(min = 1))]
    pub policy_name: String,

    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// The clusters.
    #[schemars(length(min = 1))]
    pub cluster_names: Vec<String>,
}

/// What became of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySetStatus {
    /// The state of all members together; absent while some do not report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// What is worth knowing besides, in sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,

    /// The bindings that place the set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PolicySetPlacement>,

    /// Clusters that members stay away from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<ExcludedClusters>,
}

/// A binding that places a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySetPlacement {
    /// The binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_binding: Option<String>,

    /// Its Placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// Its PlacementRule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_rule: Option<String>,
}

/// Clusters that a member stays away from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExcludedClusters {
    /// The member.
    pub policy_name: String,

    /// The clusters.
    pub clusters: Vec<String>,
}
