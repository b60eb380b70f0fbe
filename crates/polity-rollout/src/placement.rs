//! Scheduling: from a placement and a fleet to chosen clusters in groups.
//!
//! The stages are those of the scheduler that others use, in its order: bound sets, predicates, taints, scores, spread,
//! choice, groups. Each is a module here. An invalid placement selects no cluster and has a condition with the reason;
//! whether decisions that stand are then emptied is up to the caller.

mod condition;
mod decide;
mod explain;
mod expression;
mod filter;
mod fleet;
mod group;
mod label_index;
#[cfg(test)]
mod properties;
mod score;
mod spread;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::placement::Placement;
use polity_core::rollout_strategy::GroupKey;

use crate::groups::DecisionGroups;

pub use condition::{Condition, ConditionKind};
pub use explain::{ClusterFate, Explanation, Fate, Miss, ScorePart, Scores, explain};
pub use expression::{ClusterExpression, ClusterExpressions, NoExpressions};
pub use fleet::{Fleet, FleetParts};
pub use group::CLUSTERS_PER_DECISION;

/// What a placement comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The chosen clusters by group; one empty group when there are none.
    pub groups: Vec<ScheduledGroup>,
    /// `PlacementSatisfied`.
    pub satisfied: Condition,
    /// `PlacementMisconfigured`.
    pub misconfigured: Condition,
    /// What the owner of the placement should know, such as scores that have expired.
    pub warnings: Vec<String>,
    /// When a toleration or a score that counted runs out.
    pub look_again_at: Option<Timestamp>,
}

/// A decision group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledGroup {
    pub key: GroupKey,
    pub clusters: Vec<Decision>,
}

/// A chosen cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub cluster: ClusterName,
    /// Where the placement sorts by it.
    pub score: Option<i32>,
}

/// A PlacementDecision to be written: at most [`CLUSTERS_PER_DECISION`] clusters of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionObject<'a> {
    /// `<placement>-decision-<n>`; n counts from 1 across groups.
    pub name: String,
    pub group: &'a GroupKey,
    pub clusters: &'a [Decision],
}

impl Schedule {
    /// How many clusters are chosen.
    pub fn n_selected(&self) -> usize {
        self.groups.iter().map(|group| group.clusters.len()).sum()
    }

    /// The objects that hold the decisions; those beyond them are to be deleted.
    pub fn decision_objects(&self, placement_name: &str) -> Vec<DecisionObject<'_>> {
        group::decision_objects(&self.groups, placement_name)
    }

    /// The groups as a rollout takes them.
    pub fn decision_groups(&self) -> DecisionGroups {
        DecisionGroups::gather(self.groups.iter().map(|group| {
            let clusters = group.clusters.iter();
            (
                group.key.clone(),
                clusters.map(|decision| decision.cluster.clone()),
            )
        }))
    }
}

/// Chooses clusters for a placement.
pub fn schedule(
    placement: &Placement,
    fleet: &Fleet,
    expressions: &dyn ClusterExpressions,
    now: Timestamp,
) -> Schedule {
    decide::decide(placement, fleet, expressions, now).schedule
}
