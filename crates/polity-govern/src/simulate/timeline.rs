//! What happened, moment by moment.

use jiff::Timestamp;
use polity_core::ClusterName;
use serde::Serialize;

/// A whole simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    pub start: Timestamp,
    pub end: Timestamp,
    /// Only moments at which something changed.
    pub moments: Vec<Moment>,
    /// The first expectation that did not hold, if one did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// How many expectations there were.
    pub n_expectations: usize,
    /// How often the planner was asked.
    pub n_plans: usize,
}

/// Everything that changed at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    pub at: Timestamp,
    /// What the script did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<RootChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterChange>,
    /// What the hub warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Moment {
    pub(super) fn new(at: Timestamp) -> Self {
        Self {
            at,
            events: Vec::new(),
            roots: Vec::new(),
            clusters: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.roots.is_empty()
            && self.clusters.is_empty()
            && self.warnings.is_empty()
    }
}

/// The new state of a root policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RootChange {
    pub policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,
    pub breach: bool,
}

/// The new state of a policy on a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterChange {
    pub policy: String,
    pub cluster: ClusterName,
    pub placement: String,
    pub group_index: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// The rollout status; none when the policy left the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub enforcing: bool,
    /// Complies, but not for long enough.
    pub soaking: bool,
}

/// An expectation that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    pub at: Timestamp,
    /// Its place in the list, from 0.
    pub index: usize,
    /// What was expected, and what was found.
    pub message: String,
}
