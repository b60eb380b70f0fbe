//! PlacementDecision: the clusters that a placement chose, at most 100 in an object.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PlacementDecision lists clusters that a Placement selected. Its labels name the Placement and the decision group. It
/// has only a status.
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
    doc = "PlacementDecision lists clusters that a Placement selected. Its labels name the Placement and the decision group."
)]
pub struct PlacementDecisionFields {}

/// Clusters that a Placement selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDecisionStatus {
    /// Selected clusters, at most 100.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decisions: Vec<ClusterDecision>,
}

/// A selected cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,

    /// Reason for the selection. Always empty at present.
    #[serde(default)]
    pub reason: String,

    /// Score of the cluster, if the Placement sorts by score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
}
