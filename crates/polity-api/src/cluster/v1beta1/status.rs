//! What becomes of a placement.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// Observed state of a Placement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// Number of selected clusters.
    #[serde(default)]
    pub number_of_selected_clusters: i32,

    /// Groups of selected clusters, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decision_groups: Vec<DecisionGroupStatus>,

    /// Conditions `PlacementSatisfied` and `PlacementMisconfigured`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Time when scores were last updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_score_update_time: Option<Time>,
}

/// A group of selected clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// Index of the group, from 0.
    #[serde(default)]
    pub decision_group_index: i32,

    /// Name of the group. Empty for clusters that match no named group.
    #[serde(default)]
    pub decision_group_name: String,

    /// Names of the PlacementDecisions with the clusters of the group.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decisions: Vec<String>,

    /// Number of clusters in the group.
    #[serde(default)]
    pub cluster_count: i32,
}

vocabulary! {
    /// Condition types of a Placement.
    PlacementConditionType {
        /// Whether as many clusters were selected as requested.
        PlacementSatisfied,
        /// Whether the specification of the Placement is invalid.
        PlacementMisconfigured,
    }
}

vocabulary! {
    /// The reasons of `PlacementSatisfied`.
    PlacementSatisfiedReason {
        /// No ManagedClusterSet is bound to the namespace of the Placement.
        NoManagedClusterSetBindings,
        /// None of the ManagedClusterSets that the Placement lists is bound to its namespace.
        NoIntersection,
        /// The bound ManagedClusterSets have no clusters.
        AllManagedClusterSetsEmpty,
        /// No cluster matches the predicates.
        NoManagedClusterMatched,
        /// Fewer clusters were selected than requested, or the specification is invalid.
        NotAllDecisionsScheduled,
        /// As many clusters were selected as requested.
        AllDecisionsScheduled,
    }
}

vocabulary! {
    /// The reasons of `PlacementMisconfigured`.
    PlacementMisconfiguredReason {
        /// The specification is invalid; the message names the field.
        Misconfigured,
        /// The specification is valid.
        Succeedconfigured,
    }
}
