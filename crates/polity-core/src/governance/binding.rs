//! What joins policies to clusters: bindings and policy sets.

use super::policy::Action;
use crate::cluster::ClusterName;

/// A PlacementBinding: the clusters of one placement for some policies and policy sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub namespace: String,
    pub name: String,
    /// None when group and kind do not go together; such a binding selects nothing.
    pub placement: Option<PlacementRef>,
    pub subjects: Vec<Subject>,
    /// The action that replaces the root's, spelled as it was written.
    pub override_action: Option<String>,
    /// `subFilter: restricted`: selects only among clusters that another binding places.
    pub restricted: bool,
}

impl Binding {
    /// Whether the override of this binding asks for enforcement.
    pub fn enforces(&self) -> bool {
        self.override_action
            .as_deref()
            .and_then(Action::parse)
            .is_some_and(|action| action == Action::Enforce)
    }
}

/// The kind of thing that decides about clusters. Of one name, a Placement comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementKind {
    Placement,
    PlacementRule,
}

/// What a binding takes its clusters from, in its own namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementRef {
    pub name: String,
    pub kind: PlacementKind,
}

/// What a binding places.
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
