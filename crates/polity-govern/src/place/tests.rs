//! Bindings select the clusters of a policy and can override its action there: docs/spec/governance.md#5-2, docs/spec/governance.md#5-3.

use crate::objects::{Exclusion, Subject};
use serde_json::json;

use super::*;
use crate::fixtures::{binding, decisions, policy};

fn excluding(name: &str, clusters: &[&str]) -> PolicySet {
    PolicySet {
        namespace: "policies".to_owned(),
        name: name.to_owned(),
        policies: vec!["p".to_owned()],
        exclusions: vec![Exclusion {
            policy: "p".to_owned(),
            clusters: clusters
                .iter()
                .map(|name| ClusterName::from(*name))
                .collect(),
        }],
    }
}

fn placed(
    root: &Policy,
    bindings: &[Binding],
    sets: &[PolicySet],
    decisions: &[Decisions],
) -> Placed {
    let given = |bindings| Bindings {
        bindings,
        policy_sets: sets,
        decisions,
    };
    let placed = place(root, given(bindings));
    let reversed: Vec<Binding> = bindings.iter().rev().cloned().collect();
    assert_eq!(placed, place(root, given(&reversed)), "in any order");
    placed
}

/// Clusters with their override, `c1 c2:enforce`.
fn shown(placed: &Placed) -> String {
    let clusters = placed
        .clusters
        .iter()
        .map(|(cluster, entry)| match &entry.override_action {
            Some(action) => format!("{cluster}:{}", action.as_str()),
            None => cluster.to_string(),
        });
    clusters.collect::<Vec<_>>().join(" ")
}

fn inform() -> Policy {
    policy(json!({"remediationAction": "inform"}))
}

fn restricted(name: &str, placement: &str) -> Binding {
    Binding {
        restricted: true,
        override_action: Some(RemediationAction::EnforceLowercase),
        ..binding(name, placement, "Policy", "p")
    }
}

#[test]
fn a_cluster_selected_by_several_bindings_counts_once() {
    let pl = decisions("pl", &[("", &["c2", "c1"])]);
    let other = decisions("other", &[("", &["c1", "c3"])]);
    let mut elsewhere = binding("elsewhere", "pl", "Policy", "p");
    elsewhere.namespace = "x".to_owned();
    let all = [
        binding("b1", "pl", "Policy", "p"),
        binding("b2", "other", "Policy", "p"),
        binding("b3", "other", "Policy", "another"),
        binding("b4", "gone", "Policy", "p"),
        elsewhere,
    ];
    let found = placed(&inform(), &all, &[], &[pl, other]);
    assert_eq!(shown(&found), "c1 c2 c3");
    let listed: Vec<_> = found.placements.iter().map(sort_text).collect();
    assert_eq!(listed, ["b1 pl  ", "b2 other  ", "b4   "]);
}

#[test]
fn a_disabled_policy_goes_nowhere_and_lists_its_placements() {
    let root = policy(json!({"remediationAction": "inform", "disabled": true}));
    let found = placed(
        &root,
        &[binding("b", "pl", "Policy", "p")],
        &[],
        &[decisions("pl", &[("", &["c1"])])],
    );
    assert_eq!(
        (
            shown(&found).as_str(),
            found.placements.len(),
            found.sources.len()
        ),
        ("", 1, 0)
    );
}

#[test]
fn exclusions_apply_to_their_set_only() {
    let pl = || decisions("pl", &[("", &["c1", "c2"])]);
    let by_set = |name: &str, set: &str| binding(name, "pl", "PolicySet", set);
    let sets = [excluding("s1", &["c1"]), excluding("s2", &["c2"])];
    let found = placed(&inform(), &[by_set("b1", "s1")], &sets, &[pl()]);
    assert_eq!(shown(&found), "c2");
    assert_eq!(found.placements[0].exclusions, [ClusterName::from("c1")]);
    let found = placed(
        &inform(),
        &[by_set("b1", "s1"), by_set("b2", "s2")],
        &sets,
        &[pl()],
    );
    assert_eq!(shown(&found), "c1 c2", "each through the other set");
    assert_eq!(found.clusters["c1"].remaining_bindings, ["b2"]);
    let found = placed(&inform(), &[by_set("b1", "missing")], &sets, &[pl()]);
    assert_eq!(shown(&found), "", "a set that does not exist");
    let mut both = by_set("b1", "s1");
    both.subjects.push(Subject {
        kind: SubjectKind::Policy,
        name: "p".to_owned(),
    });
    let found = placed(&inform(), &[both], &sets, &[pl()]);
    assert_eq!(
        shown(&found),
        "c1 c2",
        "the direct subject places it all the same"
    );
    assert_eq!(found.placements.len(), 2);
}

#[test]
fn a_restricted_binding_enforces_on_some_clusters_only() {
    let all = [
        binding("b1", "all", "Policy", "p"),
        restricted("b2", "some"),
    ];
    let decided = [
        decisions("all", &[("", &["A", "B", "C", "D"])]),
        decisions("some", &[("", &["A", "B", "E"])]),
    ];
    let found = placed(&inform(), &all, &[], &decided);
    assert_eq!(shown(&found), "A:enforce B:enforce C D");
    let elsewhere = [decided[0].clone(), decisions("some", &[("", &["E"])])];
    let found = placed(&inform(), &all, &[], &elsewhere);
    assert_eq!(
        found.placements.len(),
        1,
        "a restricted binding without effect is not listed"
    );
}

#[test]
fn a_binding_can_raise_the_action_on_its_clusters() {
    let decided = [
        decisions("pl", &[("", &["A"])]),
        decisions("some", &[("", &["A"])]),
    ];
    let plain = || binding("b1", "pl", "Policy", "p");
    let unrestricted = Binding {
        override_action: Some(RemediationAction::Enforce),
        ..plain()
    };
    assert_eq!(
        shown(&placed(&inform(), &[unrestricted], &[], &decided)),
        "A:Enforce"
    );
    let without_override = Binding {
        override_action: None,
        ..restricted("b2", "some")
    };
    assert_eq!(
        shown(&placed(
            &inform(),
            &[plain(), without_override],
            &[],
            &decided
        )),
        "A"
    );
    assert_eq!(
        shown(&placed(
            &inform(),
            &[restricted("b2", "some")],
            &[],
            &decided
        )),
        "",
        "places nothing"
    );
    let progressive =
        policy(json!({"remediationAction": "inform", "rolloutStrategy": {"type": "Progressive"}}));
    let found = placed(
        &progressive,
        &[plain(), restricted("b2", "some")],
        &[],
        &decided,
    );
    assert_eq!(
        (shown(&found).as_str(), found.ignored_bindings),
        ("A", vec!["b2".to_owned()])
    );
}

#[test]
fn placements_are_ordered_and_list_only_the_clusters_they_place() {
    let decided = [
        decisions("z", &[("can", &["c1"]), ("", &["c2"])]),
        decisions("a", &[("", &["c2", "c3"])]),
    ];
    let all = [
        binding("b1", "z", "Policy", "p"),
        binding("b2", "a", "PolicySet", "s"),
    ];
    let found = placed(&inform(), &all, &[excluding("s", &["c3"])], &decided);
    let order: Vec<String> = found
        .sources
        .iter()
        .map(|source| {
            format!(
                "{} {:?}",
                source.placement.name,
                source
                    .groups
                    .iter()
                    .map(|group| &group.1)
                    .collect::<Vec<_>>()
            )
        })
        .collect();
    assert_eq!(order, [r#"a [["c2"]]"#, r#"z [["c1"], ["c2"]]"#]);
}
