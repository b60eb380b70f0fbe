//! The status of a policy: of a root over its clusters, of a replica over its templates.

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::governance::Compliance;
use polity_core::rollout_strategy::RolloutStatus;

/// The status of a policy. A root has `placement` and `clusters`, a replica `details` and `rollout_step`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyStatus {
    pub compliant: Option<Compliance>,
    pub rollout_status: Option<RolloutStatus>,
    pub placement: Vec<PlacementStatus>,
    pub clusters: Vec<ClusterStatus>,
    pub details: Vec<TemplateStatus>,
    /// The step of the copy that this status was computed for.
    pub rollout_step: Option<String>,
}

/// One binding of a root policy, with the set it goes through if it does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementStatus {
    pub binding: String,
    pub placement: Option<String>,
    pub placement_rule: Option<String>,
    pub policy_set: Option<String>,
    pub exclusions: Vec<ClusterName>,
}

/// One cluster of a root policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterStatus {
    pub cluster: ClusterName,
    pub compliant: Option<Compliance>,
    pub rollout_status: Option<RolloutStatus>,
    /// Bindings that still place the policy here although a set excludes it.
    pub remaining_bindings: Vec<String>,
}

/// One template of a replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateStatus {
    pub name: String,
    pub compliant: Option<Compliance>,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
}

/// What a template reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub event_name: String,
    pub at: Option<Timestamp>,
    pub message: String,
}

impl PolicyStatus {
    /// When the newest entry of any template was made, by the clock of its cluster.
    pub fn newest_report(&self) -> Option<Timestamp> {
        let entries = self.details.iter().flat_map(|detail| &detail.history);
        entries.filter_map(|entry| entry.at).max()
    }
}
