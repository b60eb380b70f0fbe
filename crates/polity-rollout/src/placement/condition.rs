//! The conditions of a Placement with their exact messages. See docs/spec/governance.md#6-7.

use polity_core::placement::{Misconfigured, Placement};

/// Which condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConditionKind {
    PlacementSatisfied,
    PlacementMisconfigured,
}

impl ConditionKind {
    /// The `type` of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlacementSatisfied => "PlacementSatisfied",
            Self::PlacementMisconfigured => "PlacementMisconfigured",
        }
    }
}

/// A condition of a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionKind,
    pub is_true: bool,
    pub reason: &'static str,
    pub message: String,
}

/// What the condition `PlacementSatisfied` is made from.
pub(super) struct Outcome<'a> {
    pub(super) n_bindings: usize,
    pub(super) eligible_sets: &'a [&'a str],
    pub(super) n_available: usize,
    pub(super) error: Option<&'a Misconfigured>,
    pub(super) n_selected: usize,
    /// How many more were asked for than could be chosen.
    pub(super) n_missing: usize,
}

pub(super) fn satisfied(placement: &Placement, outcome: &Outcome) -> Condition {
    let unsatisfied = |reason, message: String| Condition {
        kind: ConditionKind::PlacementSatisfied,
        is_true: false,
        reason,
        message,
    };
    if outcome.n_bindings == 0 {
        let message = "No valid ManagedClusterSetBindings found in placement namespace";
        return unsatisfied("NoManagedClusterSetBindings", message.to_owned());
    }
    if outcome.eligible_sets.is_empty() {
        let sets = placement.cluster_sets.join(",");
        let message =
            format!("None of ManagedClusterSets [{sets}] is bound to placement namespace");
        return unsatisfied("NoIntersection", message);
    }
    if outcome.n_available == 0 {
        let sets = outcome.eligible_sets.join(",");
        let message = format!("All ManagedClusterSets [{sets}] have no member ManagedCluster");
        return unsatisfied("AllManagedClusterSetsEmpty", message);
    }
    if let Some(error) = outcome.error {
        return unsatisfied("NotAllDecisionsScheduled", error.message.clone());
    }
    if outcome.n_selected == 0 {
        let message = "No ManagedCluster matches any of the cluster predicate";
        return unsatisfied("NoManagedClusterMatched", message.to_owned());
    }
    if outcome.n_missing > 0 {
        let message = format!("{} cluster decisions unscheduled", outcome.n_missing);
        return unsatisfied("NotAllDecisionsScheduled", message);
    }
    Condition {
        kind: ConditionKind::PlacementSatisfied,
        is_true: true,
        reason: "AllDecisionsScheduled",
        message: "All cluster decisions scheduled".to_owned(),
    }
}

pub(super) fn misconfigured(error: Option<&Misconfigured>) -> Condition {
    let (reason, message) = match error {
        Some(error) => ("Misconfigured", error.to_string()),
        None => (
            "Succeedconfigured",
            "Placement configurations check pass".to_owned(),
        ),
    };
    Condition {
        kind: ConditionKind::PlacementMisconfigured,
        is_true: error.is_some(),
        reason,
        message,
    }
}
