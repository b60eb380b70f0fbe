//! `cluster.open-cluster-management.io/v1beta1`: placements and what they decide.

mod decision;
mod placement;
mod status;

pub use decision::{
    ClusterDecision, PlacementDecision, PlacementDecisionFields, PlacementDecisionStatus,
};
pub use placement::{
    AddOnScore, ClusterCelSelector, ClusterClaimSelector, ClusterPredicate, ClusterSelector,
    DecisionGroup, DecisionStrategy, GroupClusterSelector, GroupStrategy, Placement, PlacementSpec,
    PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate, SortBy, SpreadConstraintsTerm,
    SpreadPolicy, Toleration, TolerationOperator, TopologyKeyType, UnsatisfiableMaxSkewAction,
};
pub use status::{
    DecisionGroupStatus, PlacementConditionType, PlacementMisconfiguredReason,
    PlacementSatisfiedReason, PlacementStatus,
};
