//! Bindings and policy sets, which connect policies with clusters.

use polity_api::policy::v1::RemediationAction;
use polity_core::ClusterName;
use polity_core::governance::Action;

/// A PlacementBinding: the clusters of one placement for some policies and policy sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub namespace: String,
    pub name: String,
    /// None when group and kind do not go together; such a binding selects nothing.
    pub placement: Option<PlacementRef>,
    pub subjects: Vec<Subject>,
    /// The action that replaces the action of the root policy.
    pub override_action: Option<RemediationAction>,
    /// `subFilter: restricted`: selects only among clusters that another binding places.
    pub restricted: bool,
}

impl Binding {
    /// Whether the override of this binding asks for enforcement.
    pub fn enforces(&self) -> bool {
        self.override_action.map(RemediationAction::action) == Some(Action::Enforce)
    }
}

/// The kind of object that selects clusters. A Placement takes precedence over a PlacementRule of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementKind {
    Placement,
    PlacementRule,
}

/// The Placement or PlacementRule of a binding, in the namespace of the binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementRef {
    pub name: String,
    pub kind: PlacementKind,
}

/// A policy or policy set that a binding places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    pub kind: SubjectKind,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    Policy,
    PolicySet,
}

/// A PolicySet: policies of one namespace that are placed and judged together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    pub namespace: String,
    pub name: String,
    pub policies: Vec<String>,
    pub exclusions: Vec<Exclusion>,
}

impl PolicySet {
    /// Whether the set keeps a policy away from a cluster.
    pub fn excludes(&self, policy: &str, cluster: &str) -> bool {
        self.exclusions.iter().any(|exclusion| {
            exclusion.policy == policy
                && exclusion
                    .clusters
                    .iter()
                    .any(|name| name.as_str() == cluster)
        })
    }
}

/// Clusters that a member of a set stays away from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclusion {
    pub policy: String,
    pub clusters: Vec<ClusterName>,
}
