//! What becomes of a placement.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// What a placement came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// How many clusters were chosen.
    #[serde(default)]
    pub number_of_selected_clusters: i32,

    /// The groups of the chosen clusters, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decision_groups: Vec<DecisionGroupStatus>,

    /// `PlacementSatisfied` and `PlacementMisconfigured`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// When scores were last published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_score_update_time: Option<Time>,
}

/// A group of chosen clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// The position of the group, from 0.
    #[serde(default)]
    pub decision_group_index: i32,

    /// The name of the group; empty for the clusters that no named group took.
    #[serde(default)]
    pub decision_group_name: String,

    /// The names of the PlacementDecisions that hold its clusters.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub decisions: Vec<String>,

    /// How many clusters it has.
    #[serde(default)]
    pub cluster_count: i32,
}

vocabulary! {
    /// The types of a placement's conditions.
    PlacementConditionType {
        /// Whether as many clusters were chosen as were asked for.
        PlacementSatisfied,
        /// Whether the placement makes no sense.
        PlacementMisconfigured,
    }
}

vocabulary! {
    /// The reasons of `PlacementSatisfied`.
    PlacementSatisfiedReason {
        /// No set is bound to the namespace of the placement.
        NoManagedClusterSetBindings,
        /// None of the sets that the placement names is bound.
        NoIntersection,
        /// The sets have no members.
        AllManagedClusterSetsEmpty,
        /// No cluster qualifies.
        NoManagedClusterMatched,
        /// Fewer than were asked for, or the placement makes no sense.
        NotAllDecisionsScheduled,
        /// As many as were asked for.
        AllDecisionsScheduled,
    }
}

vocabulary! {
    /// The reasons of `PlacementMisconfigured`.
    PlacementMisconfiguredReason {
        /// The placement makes no sense; the message says where.
        Misconfigured,
        /// All is well.
        Succeedconfigured,
    }
}
