//! The status of policies. Root and replica share the type; each fills its own half.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::any_object;

/// What became of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// `Compliant`, `NonCompliant` or `Pending`; absent while it is not known. On a root policy over all clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// How far the rollout is. On a root policy `Progressing`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_status: Option<String>,

    /// Root policies: the bindings that place the policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PolicyPlacement>,

    /// Root policies: the clusters, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<ClusterCompliance>,

    /// Replicas: one entry for each template, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DetailsPerTemplate>,

    /// Replicas: the rollout step of the copy that this status was computed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_step: Option<String>,

    /// Replicas: when the rollout status last changed, by the clock of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_last_transition_time: Option<String>,
}

/// One binding that places a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyPlacement {
    /// The binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_binding: Option<String>,

    /// Its Placement, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// Its PlacementRule, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_rule: Option<String>,

    /// The set through which it places the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_set: Option<String>,

    /// Clusters that the set keeps the policy away from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<ClusterExclusion>,

    /// No longer written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<PlacementDecision>,
}

/// A cluster that is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterExclusion {
    /// The cluster.
    pub cluster_name: String,
}

/// A cluster that is selected, in the words of older releases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementDecision {
    /// The cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,

    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
}

/// One cluster of a root policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCompliance {
    /// The cluster.
    #[serde(rename = "clustername", skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,

    /// Its namespace on the hub.
    #[serde(rename = "clusternamespace", skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,

    /// What the cluster reports; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// How far the cluster is in the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_status: Option<String>,

    /// Bindings that still place the policy here although a set excludes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remaining_bindings: Vec<RemainingBinding>,
}

/// A binding that still places a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemainingBinding {
    /// The binding.
    pub placement_binding: String,
}

/// One template of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DetailsPerTemplate {
    /// Which template. Older releases wrote the whole metadata of the object.
    #[schemars(schema_with = "any_object")]
    pub template_meta: TemplateMeta,

    /// What its newest report says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Its reports, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ComplianceHistory>,
}

/// The name of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// The name.
    pub name: String,

    /// Always null, and always written.
    pub creation_timestamp: Option<String>,
}

/// One report of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComplianceHistory {
    /// The event it came by.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event_name: String,

    /// When, to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<String>,

    /// What was reported.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
