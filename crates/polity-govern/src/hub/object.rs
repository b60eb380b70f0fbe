//! The objects that a rollout depends on.

use crate::objects::{Binding, Policy, PolicySet};
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster};
use polity_core::placement::{Placement, PlacementDecision};
use polity_rollout::placement::{ClusterExpressions, NoExpressions};
use serde_json::Value;

use crate::place::Decisions;

/// An object of a hub, as the value that the engines work on.
#[derive(Debug, Clone)]
pub enum HubObject {
    Policy(Box<Policy>),
    Binding(Binding),
    PolicySet(PolicySet),
    Placement(Box<Placement>),
    /// Decisions of a scheduler, which are used instead of scheduling.
    Decision(PlacementDecision),
    /// A PlacementRule with what it decided.
    PlacementRule(Decisions),
    Cluster(Box<ManagedCluster>),
    ClusterSet(ClusterSet),
    ClusterSetBinding(ClusterSetBinding),
    Scores(AddOnScores),
    /// A kind that no rollout depends on.
    Other,
}

/// Lowers objects. The engine knows neither the wire types nor an expression language.
pub trait Lower {
    /// Lowers one object, or says why it does not fit its kind.
    fn lower(&self, object: &Value) -> Result<HubObject, String>;

    /// What evaluates the expressions of placements. Without it, a placement that has any is misconfigured.
    fn expressions(&self) -> &dyn ClusterExpressions {
        &NoExpressions
    }
}

impl<F: Fn(&Value) -> Result<HubObject, String>> Lower for F {
    fn lower(&self, object: &Value) -> Result<HubObject, String> {
        self(object)
    }
}
