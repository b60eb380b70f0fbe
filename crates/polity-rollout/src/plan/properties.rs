//! What holds of every fleet, by property test. The caller's duties (see [`super`]) are kept: nobody who waits is
//! observed, and no `TimeOut` is fed back.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use polity_core::ClusterName;
use polity_core::rollout_strategy::{
    GroupKey, GroupReference, Pace, Progressive, ProgressivePerGroup, RolloutStatus,
    RolloutStrategy, Threshold,
};
use proptest::prelude::*;

use super::tests::now;
use super::{Class, ClusterState, Observed, Plan, classify, plan};
use crate::groups::DecisionGroups;

/// The size of each group; clusters are called `g<group>-<number>`.
type Sizes = Vec<usize>;

#[derive(Debug, Clone)]
struct Fleet {
    groups: DecisionGroups,
    observed: Observed,
}

fn fleet() -> impl Strategy<Value = Fleet> {
    let status = prop_oneof![
        2 => Just(None),
        2 => Just(Some(RolloutStatus::Succeeded)),
        1 => Just(Some(RolloutStatus::Progressing)),
        1 => Just(Some(RolloutStatus::Failed)),
        1 => Just(Some(RolloutStatus::Skip)),
    ];
    let sizes: proptest::collection::SizeRange = (0..5).into();
    proptest::collection::vec(0_usize..6, sizes).prop_flat_map(move |sizes: Sizes| {
        let n = sizes.iter().sum::<usize>();
        let states =
            proptest::collection::vec((status.clone(), proptest::option::of(0_i64..200)), n);
        states.prop_map(move |states| {
            let mut states = states.into_iter();
            let mut observed = Observed::new();
            let mut groups = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                let clusters: Vec<ClusterName> = (0..*size)
                    .map(|number| format!("g{index}-{number}").into())
                    .collect();
                for cluster in &clusters {
                    let (status, ago) = states.next().unwrap();
                    let since = ago.map(|ago| now() - SignedDuration::from_secs(ago));
                    if let Some(status) = status {
                        observed.insert(cluster.clone(), ClusterState { status, since });
                    }
                }
                // Every second group has a name.
                let name = if index % 2 == 0 { "named" } else { "" };
                groups.push((GroupKey::new(index as u32, name), clusters));
            }
            Fleet {
                groups: DecisionGroups::gather(groups),
                observed,
            }
        })
    })
}

fn threshold() -> impl Strategy<Value = Threshold> {
    prop_oneof![
        (-1_i64..12).prop_map(Threshold::Count),
        (0_u32..120).prop_map(Threshold::Percent)
    ]
}

fn pace() -> impl Strategy<Value = Pace> {
    (0_i64..150, proptest::option::of(0_i64..150), threshold()).prop_map(
        |(soak, deadline, max_failures)| Pace {
            min_success_time: SignedDuration::from_secs(soak),
            progress_deadline: deadline.map(SignedDuration::from_secs),
            max_failures,
        },
    )
}

fn mandatory() -> impl Strategy<Value = Vec<GroupReference>> {
    let reference = prop_oneof![
        Just(GroupReference::Name("named".to_owned())),
        (-1_i32..6).prop_map(GroupReference::Index)
    ];
    proptest::collection::vec(reference, 0..3)
}

fn progressive() -> impl Strategy<Value = Progressive> {
    (pace(), proptest::option::of(threshold()), mandatory()).prop_map(
        |(pace, max_concurrency, mandatory_groups)| Progressive {
            pace,
            max_concurrency,
            mandatory_groups,
        },
    )
}

fn per_group() -> impl Strategy<Value = ProgressivePerGroup> {
    (pace(), mandatory()).prop_map(|(pace, mandatory_groups)| ProgressivePerGroup {
        pace,
        mandatory_groups,
    })
}

fn any_strategy() -> impl Strategy<Value = RolloutStrategy> {
    prop_oneof![
        pace().prop_map(RolloutStrategy::All),
        progressive().prop_map(RolloutStrategy::Progressive),
        per_group().prop_map(RolloutStrategy::ProgressivePerGroup),
    ]
}

fn hand_out(plan: &Plan) -> BTreeSet<&ClusterName> {
    plan.hand_out().map(|entry| &entry.cluster).collect()
}

/// Observed clusters that hold a slot: in flight or soaking.
fn n_busy(fleet: &Fleet, pace: &Pace) -> usize {
    let states = fleet.observed.values();
    states
        .filter(|state| matches!(classify(**state, pace, now()), Class::Rollout { .. }))
        .count()
}

proptest! {
    #[test]
    fn handing_out_never_lifts_those_in_flight_above_max_concurrency(fleet in fleet(), progressive in progressive()) {
        let progressive = Progressive { mandatory_groups: Vec::new(), ..progressive };
        let n = fleet.groups.n_clusters();
        let size = progressive.max_concurrency.unwrap_or(Threshold::ZERO).of(n, n);
        let before = n_busy(&fleet, &progressive.pace);
        let plan = plan(&RolloutStrategy::Progressive(progressive), &fleet.groups, &fleet.observed, now());
        let handed_out = hand_out(&plan).len();
        prop_assert!(handed_out == 0 || before + handed_out <= size, "{before} + {handed_out} > {size}");
    }

    #[test]
    fn no_group_starts_before_the_last_one_is_done_and_soaked(fleet in fleet(), per_group in per_group()) {
        let pace = per_group.pace.clone();
        let is_mandatory = |key: &GroupKey| per_group.mandatory_groups.iter().any(|r| key.is_meant_by(r));
        let strategy = RolloutStrategy::ProgressivePerGroup(per_group.clone());
        let plan = plan(&strategy, &fleet.groups, &fleet.observed, now());
        let handed_out = hand_out(&plan);
        let Some(first) = plan.hand_out().next() else { return Ok(()) };
        prop_assert!(plan.hand_out().all(|entry| entry.group == first.group), "one group at a time");
        let comes_before = |key: &GroupKey| match (is_mandatory(key), is_mandatory(&first.group)) {
            (true, false) => true,
            (false, true) => false,
            _ => key.index < first.group.index,
        };
        for group in fleet.groups.iter().filter(|group| comes_before(&group.key)) {
            let mut n_failures = 0;
            for cluster in &group.clusters {
                prop_assert!(!handed_out.contains(cluster));
                let state = fleet.observed.get(cluster);
                prop_assert!(state.is_some(), "{cluster} still waits");
                let state = *state.unwrap();
                match classify(state, &pace, now()) {
                    Class::Finished => {}
                    Class::TimedOut { .. } => n_failures += 1,
                    Class::Rollout { .. } => {
                        prop_assert_eq!(state.status, RolloutStatus::Failed, "{} is busy", cluster);
                        n_failures += 1;
                    }
                }
            }
            let tolerated = if is_mandatory(&group.key) { Threshold::ZERO } else { pace.max_failures };
            prop_assert!(n_failures <= tolerated.of(group.clusters.len(), 0));
        }
    }

    #[test]
    fn after_a_breach_nobody_is_handed_out(fleet in fleet(), strategy in any_strategy()) {
        let plan = plan(&strategy, &fleet.groups, &fleet.observed, now());
        prop_assert!(!plan.breach || hand_out(&plan).is_empty());
    }

    #[test]
    fn everyone_is_in_at_most_one_list_and_once(fleet in fleet(), strategy in any_strategy()) {
        let plan = plan(&strategy, &fleet.groups, &fleet.observed, now());
        let names = plan.to_rollout.iter().chain(&plan.timed_out).map(|entry| &entry.cluster);
        let names: Vec<_> = names.chain(plan.removed.iter().map(|(cluster, _)| cluster)).collect();
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for entry in plan.to_rollout.iter().chain(&plan.timed_out) {
            prop_assert_eq!(fleet.groups.group_of(&entry.cluster), Some(&entry.group));
        }
    }

    #[test]
    fn the_order_of_groups_and_clusters_does_not_matter(fleet in fleet(), strategy in any_strategy()) {
        let reversed = DecisionGroups::gather(
            fleet.groups.iter().rev().map(|group| (group.key.clone(), group.clusters.iter().rev().cloned())),
        );
        prop_assert_eq!(
            plan(&strategy, &fleet.groups, &fleet.observed, now()),
            plan(&strategy, &reversed, &fleet.observed, now())
        );
    }

    #[test]
    fn looking_again_at_the_recheck_time_changes_something(fleet in fleet(), strategy in any_strategy()) {
        let first = plan(&strategy, &fleet.groups, &fleet.observed, now());
        if let Some(after) = first.recheck_after {
            // Unknown times start anew at every look.
            let mut observed = fleet.observed.clone();
            for state in observed.values_mut() {
                state.since.get_or_insert(now());
            }
            prop_assert!(after.is_positive());
            let second = plan(&strategy, &fleet.groups, &observed, now() + after);
            prop_assert_ne!(first, second);
        }
    }

    #[test]
    fn a_rollout_without_failures_reaches_everyone(fleet in fleet(), strategy in any_strategy()) {
        let mut observed = Observed::new();
        let mut time = now();
        // Each look hands out at least one cluster or waits for a soak of at most 150 seconds.
        for _ in 0..=2 * fleet.groups.n_clusters() {
            let plan = plan(&strategy, &fleet.groups, &observed, time);
            prop_assert!(!plan.breach);
            for entry in plan.hand_out() {
                let state = ClusterState { status: RolloutStatus::Succeeded, since: Some(time) };
                observed.insert(entry.cluster.clone(), state);
            }
            time += plan.recheck_after.unwrap_or(SignedDuration::from_secs(1));
        }
        prop_assert_eq!(observed.len(), fleet.groups.n_clusters());
    }
}
