//! Managed clusters, the sets they are in, and who may choose from a set.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::quantity::Quantity;
use crate::selector::LabelSelector;

/// Names, labels and annotations of the group `cluster.open-cluster-management.io` that others match on.
pub mod names {
    /// The API group.
    pub const GROUP: &str = "cluster.open-cluster-management.io";
    /// Label on a PlacementDecision: the name of its placement.
    pub const PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
    /// Label on a PlacementDecision: the index of its group, a decimal number.
    pub const DECISION_GROUP_INDEX: &str =
        "cluster.open-cluster-management.io/decision-group-index";
    /// Label on a PlacementDecision: the name of its group; present and empty for a group without one.
    pub const DECISION_GROUP_NAME: &str = "cluster.open-cluster-management.io/decision-group-name";
    /// Label on a ManagedCluster: the exclusive set it is in.
    pub const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
    /// Annotation on a Placement: `"true"` makes the scheduler leave it alone.
    pub const SCHEDULING_DISABLED: &str =
        "cluster.open-cluster-management.io/experimental-scheduling-disable";
    /// Finalizer on a ManagedCluster: what a cluster leaves behind is cleaned up first.
    pub const CLUSTER_FINALIZER: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
    /// Taint of a cluster that has not been heard of.
    pub const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";
    /// Taint of a cluster that says it is not available.
    pub const UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";
    /// The set that clusters without a set label are in.
    pub const DEFAULT_SET: &str = "default";
    /// The set of all clusters.
    pub const GLOBAL_SET: &str = "global";
}

/// The name of a managed cluster, also that of its namespace on the hub. Cheap to copy; ordered by bytes, so
/// `cluster10` comes before `cluster2`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Takes any text: names come from objects that were checked when they were written, and one that was not only
    /// matches nothing.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for ClusterName {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl Deref for ClusterName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for ClusterName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A cluster as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCluster {
    pub name: ClusterName,
    pub labels: BTreeMap<String, String>,
    /// `status.clusterClaims`, what the cluster says of itself.
    pub claims: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// What workloads may use, by resource.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What the cluster has, by resource.
    pub capacity: BTreeMap<String, Quantity>,
    /// A cluster on its way out is never chosen.
    pub is_deleting: bool,
}

impl ManagedCluster {
    /// A cluster that has a name and nothing else.
    pub fn named(name: impl Into<ClusterName>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            claims: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: BTreeMap::new(),
            capacity: BTreeMap::new(),
            is_deleting: false,
        }
    }

    /// The exclusive set this cluster is in: that of its label, `default` without one.
    pub fn exclusive_set(&self) -> &str {
        match self.labels.get(names::CLUSTER_SET).map(String::as_str) {
            None | Some("") => names::DEFAULT_SET,
            Some(set) => set,
        }
    }
}

/// A mark on a cluster that keeps placements away which do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: TaintEffect,
    /// When the taint was set. A toleration with a time counts from here; without it, its time is over.
    pub time_added: Option<Timestamp>,
}

/// What a taint does to placements that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// Such a placement does not choose the cluster, and drops it if it had.
    NoSelect,
    /// A wish, without effect.
    PreferNoSelect,
    /// Such a placement keeps the cluster if it had it already.
    NoSelectIfNew,
}

impl TaintEffect {
    /// The word in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSelect => "NoSelect",
            Self::PreferNoSelect => "PreferNoSelect",
            Self::NoSelectIfNew => "NoSelectIfNew",
        }
    }
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the condition `ManagedClusterConditionAvailable` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Availability {
    Available,
    Unavailable,
    /// Unknown, or no condition at all.
    Unknown,
}

impl Availability {
    /// The key of the taint, with effect `NoSelect`, that a cluster in this state carries.
    pub const fn taint_key(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::Unavailable => Some(names::UNAVAILABLE),
            Self::Unknown => Some(names::UNREACHABLE),
        }
    }
}

/// A named set of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSet {
    pub name: String,
    pub members: SetMembers,
}

/// How a set says who is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetMembers {
    /// The clusters whose set label names this set; a cluster is in one such set only.
    Exclusive,
    /// The clusters with these labels.
    Labels(LabelSelector),
}

impl ClusterSet {
    /// The two sets that exist in every fleet, written down or not.
    pub fn built_in() -> [Self; 2] {
        [
            Self {
                name: names::DEFAULT_SET.to_owned(),
                members: SetMembers::Exclusive,
            },
            Self {
                name: names::GLOBAL_SET.to_owned(),
                members: SetMembers::Labels(LabelSelector::everything()),
            },
        ]
    }

    /// Whether a cluster is in this set.
    pub fn contains(&self, cluster: &ManagedCluster) -> bool {
        match &self.members {
            SetMembers::Exclusive => cluster.exclusive_set() == self.name,
            SetMembers::Labels(selector) => selector.matches(&cluster.labels),
        }
    }
}

/// Lets the placements of a namespace choose from a set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterSetBinding {
    pub namespace: String,
    pub cluster_set: String,
}

/// Scores that an add-on gives a cluster, under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddOnScores {
    /// The cluster, in whose namespace the scores are.
    pub cluster: ClusterName,
    pub resource_name: String,
    pub scores: BTreeMap<String, i32>,
    /// From here on the scores count 0.
    pub valid_until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_a_set_label_is_in_the_default_set() {
        let [default, global] = ClusterSet::built_in();
        for (label, in_default) in [
            (None, true),
            (Some(""), true),
            (Some("default"), true),
            (Some("edge"), false),
        ] {
            let mut cluster = ManagedCluster::named("c1");
            if let Some(label) = label {
                cluster
                    .labels
                    .insert(names::CLUSTER_SET.to_owned(), label.to_owned());
            }
            assert_eq!(default.contains(&cluster), in_default, "{label:?}");
            assert!(global.contains(&cluster), "{label:?}");
        }
    }

    #[test]
    fn taints_follow_from_availability() {
        assert_eq!(Availability::Available.taint_key(), None);
        assert_eq!(
            Availability::Unavailable.taint_key(),
            Some(names::UNAVAILABLE)
        );
        assert_eq!(Availability::Unknown.taint_key(), Some(names::UNREACHABLE));
    }

    #[test]
    fn names_sort_by_bytes() {
        let mut names = ["cluster2", "cluster10", "Cluster3"].map(ClusterName::from);
        names.sort();
        assert_eq!(
            names.each_ref().map(ClusterName::as_str),
            ["Cluster3", "cluster10", "cluster2"]
        );
    }
}
