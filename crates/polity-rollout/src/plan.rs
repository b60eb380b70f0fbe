//! Plans one step of a rollout: which clusters get the new version now, which are in flight, which timed out.
//!
//! # Duties of the caller
//!
//! The engine is compatible with the placement library of Open Cluster Management, including its oddities
//! (docs/spec/governance.md#7-6). The caller must:
//!
//! 1. never pass a `TimeOut`, but the status below it (`Progressing` or `Failed`, with its original time): a stored
//!    `TimeOut` in a mandatory group would no longer block the groups after it;
//! 2. leave out waiting clusters (`ToApply`): one that sorts before a cluster in flight would be handed out first, and
//!    concurrency would be exceeded;
//! 3. keep the time of a transition: without a time, the deadline starts again on every call;
//! 4. warn when failed clusters hold every slot and there is neither a deadline nor a breach: such a rollout stops
//!    with any `maxFailures`;
//! 5. document that `maxFailures` above the number of clusters counts as 0.

mod classify;
#[cfg(test)]
mod properties;
mod round;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use polity_core::ClusterName;
use polity_core::rollout_strategy::{
    GroupKey, GroupReference, RolloutStatus, RolloutStrategy, Threshold,
};

use crate::groups::{DecisionGroup, DecisionGroups};

pub use classify::{Class, classify};
use round::Round;

/// What is known of the clusters, by name: so the answer cannot depend on an order.
pub type Observed = BTreeMap<ClusterName, ClusterState>;

/// What is known of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterState {
    /// An unknown status counts as `Progressing`.
    pub status: RolloutStatus,
    /// When it came into that state.
    pub since: Option<Timestamp>,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Everyone who should have the new version and is not finished: those in flight or soaking, and those to hand it
    /// to now, which have the status `ToApply`. Who is neither here nor in `timed_out` is finished or waits.
    pub to_rollout: Vec<Entry>,
    /// Who took longer than the deadline.
    pub timed_out: Vec<Entry>,
    /// Who was observed and is in no group any more, as it was observed.
    pub removed: Vec<(ClusterName, ClusterState)>,
    /// More clusters failed than are tolerated: no further cluster is handed out.
    pub breach: bool,
    /// The next time at which a deadline or a soak of `to_rollout` ends.
    pub recheck_after: Option<SignedDuration>,
}

/// A cluster in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub cluster: ClusterName,
    pub status: RolloutStatus,
    pub since: Option<Timestamp>,
    pub group: GroupKey,
    /// When its deadline or its soak ends, or has ended.
    pub recheck_at: Option<Timestamp>,
}

impl Plan {
    /// The clusters to hand the new version to now.
    pub fn hand_out(&self) -> impl Iterator<Item = &Entry> {
        self.with_status(|status| status == RolloutStatus::ToApply)
    }

    /// The clusters that have it and are not done: `Progressing` or `Failed`.
    pub fn in_flight(&self) -> impl Iterator<Item = &Entry> {
        self.with_status(|status| {
            !matches!(status, RolloutStatus::ToApply | RolloutStatus::Succeeded)
        })
    }

    /// The clusters that have succeeded, but not for long enough.
    pub fn soaking(&self) -> impl Iterator<Item = &Entry> {
        self.with_status(|status| status == RolloutStatus::Succeeded)
    }

    fn with_status(&self, wanted: impl Fn(RolloutStatus) -> bool) -> impl Iterator<Item = &Entry> {
        self.to_rollout
            .iter()
            .filter(move |entry| wanted(entry.status))
    }
}

/// Plans the next step of a rollout.
///
/// Names sort by bytes, everything else follows from the arguments: the same arguments always give the same plan. See
/// the [module](self) for what the caller owes.
pub fn plan(
    strategy: &RolloutStrategy,
    groups: &DecisionGroups,
    observed: &Observed,
    now: Timestamp,
) -> Plan {
    let mut current = Vec::with_capacity(observed.len());
    let mut unseen = Vec::new();
    let mut removed = Vec::new();
    // Names are in the same order on both sides, so one walk finds who is on which.
    let mut known = observed.iter().peekable();
    for (cluster, position) in groups.by_name() {
        while let Some((gone, state)) = known.next_if(|(name, _)| *name < cluster) {
            removed.push((gone.clone(), *state));
        }
        match known.next_if(|(name, _)| *name == cluster) {
            Some((_, state)) => current.push((cluster, *position, *state)),
            None => unseen.push((cluster, *position)),
        }
    }
    removed.extend(known.map(|(gone, state)| (gone.clone(), *state)));
    let round = Round {
        groups,
        current: &current,
        unseen: &unseen,
        pace: strategy.pace(),
        now,
    };
    let (mandatory, rest): (Vec<_>, Vec<_>) = (0..)
        .zip(groups)
        .partition(|(_, group)| is_meant(group, strategy.mandatory_groups()));
    let n_clusters = groups.n_clusters();
    let plan = match strategy {
        RolloutStrategy::All(_) => round.without_soak(&rest, n_clusters),
        RolloutStrategy::Progressive(progressive) => {
            round.mandatory(&mandatory).unwrap_or_else(|| {
                let n_rest = rest.iter().map(|(_, group)| group.clusters.len()).sum();
                let wanted = progressive.max_concurrency.unwrap_or(Threshold::ZERO);
                let max_failures = progressive.pace.max_failures.of(n_clusters, 0);
                round.by_cluster(&rest, wanted.of(n_rest, n_rest), max_failures)
            })
        }
        RolloutStrategy::ProgressivePerGroup(per_group) => round
            .mandatory(&mandatory)
            .unwrap_or_else(|| round.by_group(&rest, per_group.pace.max_failures)),
    };
    let recheck_after = plan
        .to_rollout
        .iter()
        .filter_map(|entry| Some(entry.recheck_at?.duration_since(now)))
        .filter(SignedDuration::is_positive)
        .min();
    Plan {
        removed,
        recheck_after,
        ..plan
    }
}

fn is_meant(group: &DecisionGroup, references: &[GroupReference]) -> bool {
    references
        .iter()
        .any(|reference| group.key.is_meant_by(reference))
}
