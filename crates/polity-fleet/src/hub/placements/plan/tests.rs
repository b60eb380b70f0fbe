//! Decisions of placements, written in an order that loses no cluster.

use std::collections::HashMap;

use polity_rollout::placement::{Condition, ConditionKind, ScheduledGroup};
use proptest::prelude::*;

use super::*;

fn decision(cluster: &str) -> Decision {
    Decision {
        cluster: cluster.into(),
        score: None,
    }
}

fn group(index: u32, name: &str) -> GroupKey {
    GroupKey::new(index, name)
}

fn schedule(groups: &[(&str, Vec<String>)]) -> Schedule {
    let condition = |kind| Condition {
        kind,
        is_true: true,
        reason: "",
        message: String::new(),
    };
    Schedule {
        groups: (0..)
            .zip(groups)
            .map(|(index, (name, clusters))| ScheduledGroup {
                key: group(index, name),
                clusters: clusters.iter().map(|cluster| decision(cluster)).collect(),
            })
            .collect(),
        satisfied: condition(ConditionKind::PlacementSatisfied),
        misconfigured: condition(ConditionKind::PlacementMisconfigured),
        warnings: Vec::new(),
        look_again_at: None,
    }
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("c{n:04}")).collect()
}

/// The decisions after some writes.
fn carry_out(existing: &[ExistingDecision], writes: &[DecisionWrite]) -> Vec<ExistingDecision> {
    let mut state = existing.to_vec();
    for write in writes {
        let at = |state: &[ExistingDecision], name: &str| {
            state
                .iter()
                .position(|it| it.name == name)
                .expect("the object exists")
        };
        match write.clone() {
            DecisionWrite::Create { name, group } => state.push(ExistingDecision {
                name,
                group: Some(group),
                clusters: Vec::new(),
            }),
            DecisionWrite::Relabel { name, group } => {
                let at = at(&state, &name);
                assert!(
                    state[at].clusters.is_empty(),
                    "{name} takes its clusters along"
                );
                state[at].group = Some(group);
            }
            DecisionWrite::SetClusters { name, clusters } => {
                let at = at(&state, &name);
                state[at].clusters = clusters;
            }
            DecisionWrite::Delete { name } => {
                let at = at(&state, &name);
                state.remove(at);
            }
        }
    }
    state
}

fn placed(state: &[ExistingDecision]) -> BTreeSet<String> {
    let clusters = state.iter().flat_map(|decision| &decision.clusters);
    clusters
        .map(|decision| decision.cluster.to_string())
        .collect()
}

/// What a schedule comes to when nothing exists yet.
fn written(schedule: &Schedule) -> Vec<ExistingDecision> {
    carry_out(&[], &decision_writes("p", schedule, &[]))
}

#[test]
fn a_schedule_without_clusters_has_one_empty_object() {
    let writes = decision_writes("p", &schedule(&[("", Vec::new())]), &[]);
    let expected = [DecisionWrite::Create {
        name: "p-decision-1".to_owned(),
        group: group(0, ""),
    }];
    assert_eq!(writes, expected);
}

#[test]
fn objects_of_more_than_a_hundred_clusters_are_cut() {
    let state = written(&schedule(&[("canary", names(0, 3)), ("", names(3, 153))]));
    let sizes: Vec<(String, usize)> = state
        .iter()
        .map(|it| (it.name.clone(), it.clusters.len()))
        .collect();
    let expected = [
        ("p-decision-1".to_owned(), 3),
        ("p-decision-2".to_owned(), 100),
        ("p-decision-3".to_owned(), 50),
    ];
    assert_eq!(sizes, expected);
    assert_eq!(state[0].group, Some(group(0, "canary")));
    assert_eq!(state[2].group, Some(group(1, "")));
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let same = schedule(&[("canary", names(0, 3)), ("", names(3, 153))]);
    assert_eq!(decision_writes("p", &same, &written(&same)), []);
}

#[test]
fn a_cluster_that_shifts_to_the_next_object_is_added_there_first() {
    let before = schedule(&[("", names(1, 251))]);
    let after = schedule(&[("", names(0, 251))]);
    let writes = decision_writes("p", &after, &written(&before));
    let order: Vec<&str> = writes
        .iter()
        .map(|write| match write {
            DecisionWrite::SetClusters { name, .. } => name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, ["p-decision-3", "p-decision-2", "p-decision-1"]);
}

#[test]
fn an_object_that_changes_its_group_is_empty_meanwhile() {
    let before = schedule(&[("", names(0, 5))]);
    let after = schedule(&[("canary", names(0, 1)), ("", names(1, 5))]);
    let writes = decision_writes("p", &after, &written(&before));
    assert_eq!(
        writes[0],
        DecisionWrite::SetClusters {
            name: "p-decision-1".to_owned(),
            clusters: Vec::new()
        }
    );
    assert_eq!(carry_out(&written(&before), &writes), written(&after));
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    // Which clusters are selected, and how many of the first ones are canaries.
    let selected = proptest::collection::btree_set(0..400_usize, 0..350);
    (selected, proptest::option::of(1..120_usize)).prop_map(|(selected, canaries)| {
        let all: Vec<String> = selected.iter().map(|n| format!("c{n:04}")).collect();
        let cut = canaries.unwrap_or(0).min(all.len());
        let (canaries, rest) = all.split_at(cut);
        let mut groups = vec![("canary", canaries.to_vec()), ("", rest.to_vec())];
        groups.retain(|(_, clusters)| !clusters.is_empty());
        if groups.is_empty() {
            groups.push(("", Vec::new()));
        }
        schedule(&groups)
    })
}

/// The group of each cluster.
fn groups_of(state: &[ExistingDecision]) -> HashMap<String, Option<GroupKey>> {
    let clusters = state.iter().flat_map(|it| {
        it.clusters
            .iter()
            .map(|decision| (decision.cluster.to_string(), it.group.clone()))
    });
    clusters.collect()
}

proptest! {
    /// Readers see a selected cluster at all times, or see that the decisions are incomplete.
    #[test]
    fn no_selected_cluster_is_lost_on_the_way(before in any_schedule(), after in any_schedule()) {
        let existing = written(&before);
        let writes = decision_writes("p", &after, &existing);
        let kept: BTreeSet<String> = placed(&existing)
            .intersection(&placed(&written(&after)))
            .cloned()
            .collect();
        let relabels = writes.iter().any(|write| matches!(write, DecisionWrite::Relabel { .. }));
        for n in 0..=writes.len() {
            let state = carry_out(&existing, &writes[..n]);
            if !relabels {
                prop_assert!(placed(&state).is_superset(&kept), "after {n} writes");
            }
            let (old, new) = (groups_of(&existing), groups_of(&written(&after)));
            for (cluster, group) in groups_of(&state) {
                let is_known = old.get(&cluster) == Some(&group) || new.get(&cluster) == Some(&group);
                prop_assert!(is_known, "{cluster} is in {group:?} after {n} writes");
            }
        }
        let end = carry_out(&existing, &writes);
        let by_name = |mut state: Vec<ExistingDecision>| { state.sort_by(|a, b| a.name.cmp(&b.name)); state };
        prop_assert_eq!(by_name(end), by_name(written(&after)));
    }
}
