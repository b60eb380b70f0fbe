//! PlacementDecision: the clusters that a placement chose, at most 100 in an object.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Clusters that a placement chose; labels say which placement and which group. It has a status only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "PlacementDecision",
    plural = "placementdecisions",
    namespaced,
    no_spec,
    status = "PlacementDecisionStatus",
    derive = "PartialEq",
    doc = "Clusters that a placement chose; labels say which placement and which group."
)]
pub struct PlacementDecisionFields {}

/// The choice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDecisionStatus {
    /// The chosen clusters, at most 100.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decisions: Vec<ClusterDecision>,
}

/// One chosen cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The name of the cluster.
    pub cluster_name: String,

    /// Why it was chosen; always empty at present.
    #[serde(default)]
    pub reason: String,

    /// Its score, where the placement sorts by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
}
