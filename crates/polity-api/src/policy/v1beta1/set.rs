//! PolicySet: policies that are placed and judged together.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PolicySet groups policies that are placed and evaluated together.
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
    doc = "PolicySet groups policies that are placed and evaluated together."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetSpec {
    /// Purpose of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Names of the policies, in the same namespace.
    #[schemars(inner(length(min = 1)))]
    pub policies: Vec<String>,

    /// Policies that are not placed on some clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<PolicySetExclusion>,
}

/// A policy of the set that is not placed on some clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetExclusion {
    /// Name of the policy.
    #[schemars(length(min = 1))]
    pub policy_name: String,

    /// Reason for the exclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Names of the excluded clusters.
    #[schemars(length(min = 1))]
    pub cluster_names: Vec<String>,
}

/// Observed state of a PolicySet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySetStatus {
    /// Compliance state of all policies of the set together. Not set while some of them have not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Additional information about the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,

    /// Bindings that place the set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PolicySetPlacement>,

    /// Clusters that are excluded, by policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<ExcludedClusters>,
}

/// A binding that places a PolicySet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySetPlacement {
    /// Name of the PlacementBinding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_binding: Option<String>,

    /// Name of the Placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// Name of the PlacementRule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_rule: Option<String>,
}

/// Clusters that are excluded for one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExcludedClusters {
    /// Name of the policy.
    pub policy_name: String,

    /// Names of the excluded clusters.
    pub clusters: Vec<String>,
}
