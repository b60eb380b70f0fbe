//! The two ways of going through clusters: one by one and group by group. See
//! docs/spec/governance.md#7-3.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use polity_core::ClusterName;
use polity_core::rollout_strategy::{GroupKey, Pace, RolloutStatus, Threshold};

use super::classify::{Class, classify};
use super::{ClusterState, Entry, Plan};
use crate::groups::{DecisionGroup, DecisionGroups};

/// What one call of the engine works with. Every phase sees the clusters of all groups, in order of their names, each
/// with the position of its group.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) groups: &'a DecisionGroups,
    /// Who is known.
    pub(super) current: &'a [(&'a ClusterName, usize, ClusterState)],
    /// Whom nothing is known of.
    pub(super) unseen: &'a [(&'a ClusterName, usize)],
    pub(super) pace: &'a Pace,
    pub(super) now: Timestamp,
}

/// A group with its position.
type Numbered<'a> = (usize, &'a DecisionGroup);

impl Round<'_> {
    /// The mandatory groups, which tolerate no failure; `None` when none of their clusters is busy or waits.
    ///
    /// The library that others use also stops here while only clusters of other groups are busy, so that one tolerated
    /// failure among them ends the rollout; this is corrected here.
    pub(super) fn mandatory(&self, groups: &[Numbered<'_>]) -> Option<Plan> {
        if groups.is_empty() {
            return None;
        }
        let plan = self.by_group(groups, Threshold::ZERO);
        let keys: HashSet<_> = groups.iter().map(|(_, group)| &group.key).collect();
        let mut busy = plan.to_rollout.iter().chain(&plan.timed_out);
        busy.any(|entry| keys.contains(&entry.group))
            .then_some(plan)
    }

    /// All clusters at once: none soaks, and any number of failures is tolerated.
    pub(super) fn without_soak(&self, groups: &[Numbered<'_>], n_clusters: usize) -> Plan {
        let pace = Pace {
            min_success_time: SignedDuration::ZERO,
            ..self.pace.clone()
        };
        let round = Round {
            pace: &pace,
            ..*self
        };
        round.by_cluster(groups, n_clusters, n_clusters)
    }

    /// At most `size` clusters at a time.
    ///
    /// Clusters that soak, and failed ones that have not timed out, hold a slot. The walk over what is known ends as
    /// soon as all slots are taken, so failures behind that point are not seen in this call.
    pub(super) fn by_cluster(
        &self,
        groups: &[Numbered<'_>],
        size: usize,
        max_failures: usize,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut n_failures = 0;
        for (cluster, position, state) in self.current {
            let mut status = state.status;
            if !(plan.breach && status == RolloutStatus::ToApply) {
                status = self.take(&mut plan, cluster, *position, *state);
            }
            if status.is_failure() {
                n_failures += 1;
                plan.breach = n_failures > max_failures;
            }
            if plan.to_rollout.len() >= size {
                return plan;
            }
        }
        if plan.breach {
            return plan;
        }
        let is_asked = self.positions(groups);
        for (cluster, position) in self.unseen {
            if !is_asked[*position] {
                continue;
            }
            plan.to_rollout.push(to_apply(cluster, self.key(*position)));
            if plan.to_rollout.len() >= size {
                break;
            }
        }
        plan
    }

    /// One group at a time: the next one when everyone in the last has succeeded and soaked, or failed within
    /// `max_failures` of that group.
    ///
    /// Clusters in flight come first, of whatever group they are; only those of `groups` hold up the next group. The
    /// library that others use subtracts failures from clusters in flight instead, so that a group can start early or
    /// never, and hands out to clusters that join a group with too many failures; both are corrected
    /// here.
    pub(super) fn by_group(&self, groups: &[Numbered<'_>], max_failures: Threshold) -> Plan {
        let mut plan = Plan::default();
        let is_asked = self.positions(groups);
        let mut is_busy = false;
        let mut seen: Vec<Seen<'_>> = self.groups.iter().map(|_| Seen::default()).collect();
        for (cluster, position, state) in self.current {
            if state.status == RolloutStatus::ToApply {
                continue;
            }
            let n_in_flight = plan.to_rollout.len();
            let status = self.take(&mut plan, cluster, *position, *state);
            let is_in_flight = plan.to_rollout.len() > n_in_flight;
            is_busy |= is_in_flight && is_asked[*position] && status != RolloutStatus::Failed;
            let seen = &mut seen[*position];
            seen.clusters.push(cluster);
            seen.n_failures += usize::from(status.is_failure());
        }
        for (position, group) in groups {
            let limit = max_failures.of(group.clusters.len(), 0);
            let Seen {
                clusters,
                n_failures,
            } = &seen[*position];
            let mut known = clusters.iter().peekable();
            let waiting: Vec<_> = group
                .clusters
                .iter()
                .filter(|cluster| known.next_if(|known| **known == *cluster).is_none())
                .collect();
            plan.breach = *n_failures > limit;
            if plan.breach {
                break;
            }
            is_busy |= !waiting.is_empty();
            let handed_out = waiting.iter().map(|cluster| to_apply(cluster, &group.key));
            plan.to_rollout.extend(handed_out);
            if is_busy {
                break;
            }
        }
        plan
    }

    /// Puts a known cluster where it belongs, and says what its status is by now.
    fn take(
        &self,
        plan: &mut Plan,
        cluster: &ClusterName,
        position: usize,
        state: ClusterState,
    ) -> RolloutStatus {
        let entry = |status, recheck_at| Entry {
            cluster: cluster.clone(),
            status,
            since: state.since,
            group: self.key(position).clone(),
            recheck_at,
        };
        match classify(state, self.pace, self.now) {
            Class::Rollout { recheck_at } => {
                plan.to_rollout.push(entry(state.status, recheck_at));
                state.status
            }
            Class::TimedOut { deadline } => {
                let status = RolloutStatus::TimeOut;
                plan.timed_out.push(entry(status, Some(deadline)));
                status
            }
            Class::Finished => state.status,
        }
    }

    fn key(&self, position: usize) -> &GroupKey {
        &self.groups.at(position).key
    }

    /// For each position whether it is that of one of these groups.
    fn positions(&self, groups: &[Numbered<'_>]) -> Vec<bool> {
        let mut positions = vec![false; self.groups.len()];
        for (position, _) in groups {
            positions[*position] = true;
        }
        positions
    }
}

/// What is known of the clusters of a group.
#[derive(Default)]
struct Seen<'a> {
    /// In order of their names.
    clusters: Vec<&'a ClusterName>,
    n_failures: usize,
}

fn to_apply(cluster: &ClusterName, group: &GroupKey) -> Entry {
    Entry {
        cluster: cluster.clone(),
        status: RolloutStatus::ToApply,
        since: None,
        group: group.clone(),
        recheck_at: None,
    }
}
