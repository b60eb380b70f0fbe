//! The two ways of going through clusters: one by one (7.3) and group by group (7.4).

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use polity_core::ClusterName;
use polity_core::rollout_strategy::{GroupKey, Pace, RolloutStatus, Threshold};

use super::classify::{Class, classify};
use super::{ClusterState, Entry, Plan};
use crate::groups::DecisionGroup;

/// What one call of the engine works with. Every phase sees the clusters of all groups, in order of their names.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) current: &'a [(&'a ClusterName, &'a GroupKey, ClusterState)],
    pub(super) pace: &'a Pace,
    pub(super) now: Timestamp,
}

impl Round<'_> {
    /// The mandatory groups, which tolerate no failure; `None` when none of their clusters is busy or waits.
    ///
    /// The library that others use also stops here while only clusters of other groups are busy, so that one tolerated
    /// failure among them ends the rollout (cases 49 to 51); that is mended here.
    pub(super) fn mandatory(&self, groups: &[&DecisionGroup]) -> Option<Plan> {
        if groups.is_empty() {
            return None;
        }
        let plan = self.by_group(groups, Threshold::ZERO);
        let keys: HashSet<_> = groups.iter().map(|group| &group.key).collect();
        let mut busy = plan.to_rollout.iter().chain(&plan.timed_out);
        busy.any(|entry| keys.contains(&entry.group))
            .then_some(plan)
    }

    /// Everyone at once: nobody soaks, and no number of failures is too many.
    pub(super) fn without_soak(&self, groups: &[&DecisionGroup], n_clusters: usize) -> Plan {
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
        groups: &[&DecisionGroup],
        size: usize,
        max_failures: usize,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut n_failures = 0;
        for (cluster, group, state) in self.current {
            let mut status = state.status;
            if !(plan.breach && status == RolloutStatus::ToApply) {
                status = self.take(&mut plan, cluster, group, *state);
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
        for (cluster, group) in self.unseen(groups) {
            plan.to_rollout.push(to_apply(cluster, group));
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
    /// never (cases 39 and 48), and hands out to clusters that join a group with too many failures; both are mended
    /// here.
    pub(super) fn by_group(&self, groups: &[&DecisionGroup], max_failures: Threshold) -> Plan {
        let mut plan = Plan::default();
        let mut seen = HashMap::with_capacity(self.current.len());
        for (cluster, group, state) in self.current {
            if state.status != RolloutStatus::ToApply {
                seen.insert(*cluster, self.take(&mut plan, cluster, group, *state));
            }
        }
        let keys: HashSet<_> = groups.iter().map(|group| &group.key).collect();
        let in_flight = plan.to_rollout.iter();
        let mut is_busy = in_flight
            .filter(|entry| keys.contains(&entry.group))
            .any(|entry| entry.status != RolloutStatus::Failed);
        for group in groups {
            let limit = max_failures.of(group.clusters.len(), 0);
            let (known, waiting): (Vec<_>, Vec<_>) = group
                .clusters
                .iter()
                .partition(|cluster| seen.contains_key(cluster));
            let n_failures = known.iter().filter(|c| seen[**c].is_failure()).count();
            plan.breach = n_failures > limit;
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
        group: &GroupKey,
        state: ClusterState,
    ) -> RolloutStatus {
        let entry = |status, recheck_at| Entry {
            cluster: cluster.clone(),
            status,
            since: state.since,
            group: group.clone(),
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

    /// The clusters of these groups that nothing is known of, in order of their names whatever their group.
    fn unseen<'g>(&self, groups: &[&'g DecisionGroup]) -> Vec<(&'g ClusterName, &'g GroupKey)> {
        let seen: HashSet<_> = self.current.iter().map(|(cluster, ..)| *cluster).collect();
        let all = groups
            .iter()
            .flat_map(|group| group.clusters.iter().map(|cluster| (cluster, &group.key)));
        let mut unseen: Vec<_> = all.filter(|(cluster, _)| !seen.contains(cluster)).collect();
        unseen.sort_unstable();
        unseen
    }
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
