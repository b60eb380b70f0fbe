//! The status of policies. Root and replica share the type; each fills its own half.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::any_object;

/// Observed state of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// Compliance state: `Compliant`, `NonCompliant` or `Pending`. Not set while the state is unknown. For a root
    /// policy it summarizes all clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// State of the rollout. For a root policy: `Progressing`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_status: Option<String>,

    /// Root policies: bindings that place the policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PolicyPlacement>,

    /// Root policies: compliance of each cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<ClusterCompliance>,

    /// Replicated policies: status of each template, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DetailsPerTemplate>,

    /// Replicated policies: rollout step that the status was computed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_step: Option<String>,

    /// Replicated policies: time when the rollout status last changed, by the clock of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_last_transition_time: Option<String>,
}

/// A binding that places a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyPlacement {
    /// Name of the PlacementBinding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_binding: Option<String>,

    /// Name of the Placement, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// Name of the PlacementRule, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_rule: Option<String>,

    /// Name of the PolicySet through which the policy is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_set: Option<String>,

    /// Clusters that the PolicySet excludes for this policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<ClusterExclusion>,

    /// Deprecated and no longer written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<PlacementDecision>,
}

/// A cluster that is excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterExclusion {
    /// Name of the cluster.
    pub cluster_name: String,
}

/// A selected cluster, as written by older releases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementDecision {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,

    /// Namespace of the cluster on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
}

/// Compliance of one cluster with a root policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCompliance {
    /// Name of the cluster.
    #[serde(rename = "clustername", skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,

    /// Namespace of the cluster on the hub.
    #[serde(rename = "clusternamespace", skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,

    /// Compliance state that the cluster reports. Not set while the state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// State of the rollout on the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_status: Option<String>,

    /// Bindings that still place the policy on the cluster although a PolicySet excludes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remaining_bindings: Vec<RemainingBinding>,
}

/// A binding that still places a policy on an excluded cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemainingBinding {
    /// Name of the PlacementBinding.
    pub placement_binding: String,
}

/// Status of one template of a replicated policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DetailsPerTemplate {
    /// Name of the template. Older releases wrote the complete metadata of the object.
    #[schemars(schema_with = "any_object")]
    pub template_meta: TemplateMeta,

    /// Compliance state in the most recent message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Most recent compliance messages, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ComplianceHistory>,
}

/// Name of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMeta {
    /// Name of the object in the template.
    pub name: String,

    /// Always null. Written for compatibility.
    pub creation_timestamp: Option<String>,
}

/// A compliance message of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComplianceHistory {
    /// Name of the Event that carried the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event_name: String,

    /// Time of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<String>,

    /// Compliance state and details.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
