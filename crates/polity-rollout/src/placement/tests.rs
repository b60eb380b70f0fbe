//! Scheduling of placements. See docs/spec/governance.md#6.

mod groups;
mod scores;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use polity_core::cluster::{
    AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster, SetMembers, Taint, TaintEffect,
};
use polity_core::placement::{
    ClusterSelector, GroupRules, Misconfigured, NamedGroup, Placement, PlacementDecision,
    PlacementKey, PlacementRules, Predicate, Prioritizer, SortBy, SpreadTerm, ToleratedValue,
    Toleration, TopologySource, Unsatisfiable, WeightedPrioritizer,
};
use polity_core::rollout_strategy::{GroupKey, Threshold};
use polity_core::selector::LabelSelector;

use super::*;

pub(super) fn now() -> Timestamp {
    "2026-11-15T10:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Clusters such as `c1 env=dev zone=a`.
fn clusters(texts: &[&str]) -> Vec<ManagedCluster> {
    let cluster = |text: &&str| {
        let mut words = text.split_whitespace();
        let mut cluster = ManagedCluster::named(words.next().unwrap());
        cluster.labels = words
            .map(|word| word.split_once('=').unwrap())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        cluster
    };
    texts.iter().map(cluster).collect()
}

fn global() -> Vec<ClusterSetBinding> {
    vec![binding("ns", "global")]
}

fn binding(namespace: &str, set: &str) -> ClusterSetBinding {
    ClusterSetBinding {
        namespace: namespace.to_owned(),
        cluster_set: set.to_owned(),
    }
}

fn fleet(clusters: Vec<ManagedCluster>) -> FleetParts {
    FleetParts {
        clusters,
        bindings: global(),
        ..FleetParts::default()
    }
}

pub(super) fn placement(rules: PlacementRules) -> Placement {
    Placement {
        key: PlacementKey::new("ns", "p"),
        cluster_sets: Vec::new(),
        rules: Ok(rules),
    }
}

fn labels(selector: &str) -> ClusterSelector {
    ClusterSelector {
        labels: selector.parse().unwrap(),
        claims: LabelSelector::everything(),
    }
}

fn run(parts: FleetParts, placement: &Placement) -> Schedule {
    schedule(placement, &parts.into(), &NoExpressions, now())
}

/// Groups as `0 name: a b | 1 : c`.
fn shown(schedule: &Schedule) -> String {
    let groups = schedule.groups.iter().map(|group| {
        let clusters: Vec<_> = group.clusters.iter().map(|d| d.cluster.as_str()).collect();
        format!(
            "{} {}: {}",
            group.key.index,
            group.key.name,
            clusters.join(" ")
        )
    });
    groups.collect::<Vec<_>>().join(" | ")
}

fn names(schedule: &Schedule) -> Vec<&str> {
    let clusters = schedule.groups.iter().flat_map(|group| &group.clusters);
    clusters.map(|decision| decision.cluster.as_str()).collect()
}

fn satisfied(schedule: &Schedule) -> (bool, &str, &str) {
    let condition = &schedule.satisfied;
    (condition.is_true, condition.reason, &condition.message)
}

fn decision(namespace: &str, placement: &str, clusters: &[&str]) -> PlacementDecision {
    PlacementDecision {
        placement: PlacementKey::new(namespace, placement),
        name: format!("{placement}-decision-1"),
        group: GroupKey::new(0, ""),
        clusters: clusters.iter().map(|name| (*name).into()).collect(),
    }
}

#[test]
fn candidates_are_members_of_bound_sets() {
    let mut all = clusters(&[
        "c1",
        "c2 cluster.open-cluster-management.io/clusterset=edge",
        "c3 env=dev",
        "c4",
    ]);
    all[3].is_deleting = true;
    let by_label = ClusterSet {
        name: "dev".to_owned(),
        members: SetMembers::Labels("env=dev".parse().unwrap()),
    };
    let edge = ClusterSet {
        name: "edge".to_owned(),
        members: SetMembers::Exclusive,
    };
    let cases: [(&[&str], &[&str], &[&str]); 6] = [
        (&["default"], &[], &["c1", "c3"]),
        (&["default", "edge"], &[], &["c1", "c2", "c3"]),
        (&["default", "edge"], &["edge", "absent"], &["c2"]),
        (&["dev"], &[], &["c3"]),
        (&["global", "dev"], &[], &["c1", "c2", "c3"]),
        (&["absent"], &[], &[]),
    ];
    for (bound, wanted, expected) in cases {
        let parts = FleetParts {
            clusters: all.clone(),
            sets: vec![by_label.clone(), edge.clone()],
            bindings: bound.iter().map(|set| binding("ns", set)).collect(),
            ..FleetParts::default()
        };
        let placement = Placement {
            cluster_sets: wanted.iter().map(|set| (*set).to_owned()).collect(),
            ..placement(PlacementRules::default())
        };
        assert_eq!(
            names(&run(parts, &placement)),
            expected,
            "{bound:?} {wanted:?}"
        );
    }
}

/// An expression language of one word: `has:<label>`; `fail` fails, anything else does not compile.
struct HasLabel;
struct Has(String);

impl ClusterExpressions for HasLabel {
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        if expression == "fail" {
            return Ok(Box::new(Has(String::new())));
        }
        let label = expression.strip_prefix("has:").ok_or("cannot parse")?;
        Ok(Box::new(Has(label.to_owned())))
    }
}

impl ClusterExpression for Has {
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String> {
        if self.0.is_empty() {
            return Err("no such key".to_owned());
        }
        Ok(cluster.labels.contains_key(&self.0))
    }
}

#[test]
fn predicates_select_by_labels_claims_and_cel() {
    let mut all = clusters(&["c1 env=dev", "c2 env=prod", "c3 env=prod gpu=yes", "c4"]);
    all[3].claims = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
    let predicate = |label_text: &str, claim_text: &str, expressions: &[&str]| Predicate {
        selector: ClusterSelector {
            labels: label_text.parse().unwrap(),
            claims: claim_text.parse().unwrap(),
        },
        expressions: expressions.iter().map(|e| (*e).to_owned()).collect(),
    };
    for (predicates, expected) in [
        (vec![], vec!["c1", "c2", "c3", "c4"]),
        (vec![predicate("env=dev", "", &[])], vec!["c1"]),
        (
            vec![
                predicate("env=dev", "", &[]),
                predicate("", "region=eu", &[]),
            ],
            vec!["c1", "c4"],
        ),
        (vec![predicate("env=dev", "region=eu", &[])], vec![]),
        (vec![predicate("env=prod", "", &["has:gpu"])], vec!["c3"]),
        (vec![predicate("", "", &["has:gpu", "has:env"])], vec!["c3"]),
        (vec![predicate("", "", &["fail"])], vec![]),
    ] {
        let placement = placement(PlacementRules {
            predicates,
            ..PlacementRules::default()
        });
        let fleet = Fleet::from(fleet(all.clone()));
        let found = schedule(&placement, &fleet, &HasLabel, now());
        assert_eq!(names(&found), expected);
    }
    let wrong = placement(PlacementRules {
        predicates: vec![predicate("", "", &["what?"])],
        ..PlacementRules::default()
    });
    let found = schedule(&wrong, &Fleet::from(fleet(all)), &HasLabel, now());
    assert_eq!(found.misconfigured.message, "Predicate:cannot parse");
    assert_eq!(
        satisfied(&found),
        (false, "NotAllDecisionsScheduled", "cannot parse")
    );
}

#[test]
fn taints_exclude_clusters_unless_tolerated() {
    let taint = |effect, time_added| Taint {
        key: "k".to_owned(),
        value: "v".to_owned(),
        effect,
        time_added,
    };
    let equal = |value: &str| Toleration {
        key: Some("k".to_owned()),
        value: ToleratedValue::Exactly(value.to_owned()),
        effect: None,
        seconds: None,
    };
    let exists = Toleration::exists("k");
    let timed = |seconds| Toleration {
        seconds: Some(seconds),
        ..Toleration::exists("k")
    };
    let any = Toleration {
        key: None,
        ..exists.clone()
    };
    let only_new = Toleration {
        effect: Some(TaintEffect::NoSelectIfNew),
        ..exists.clone()
    };
    use TaintEffect::{NoSelect, NoSelectIfNew, PreferNoSelect};
    // Effect, when it was set, whether the placement has the cluster, tolerations, passes, looks again in seconds.
    let cases = [
        (PreferNoSelect, Some(9), false, vec![], true, None),
        (NoSelectIfNew, Some(9), false, vec![], false, None),
        (NoSelectIfNew, Some(9), true, vec![], true, None),
        (NoSelect, Some(9), true, vec![], false, None),
        (NoSelect, Some(9), false, vec![equal("v")], true, None),
        (NoSelect, Some(9), false, vec![equal("w")], false, None),
        (NoSelect, Some(9), false, vec![exists.clone()], true, None),
        (NoSelect, Some(9), false, vec![any], true, None),
        (
            NoSelect,
            Some(9),
            false,
            vec![only_new.clone()],
            false,
            None,
        ),
        (NoSelectIfNew, Some(9), false, vec![only_new], true, None),
        (
            NoSelect,
            Some(9),
            false,
            vec![Toleration::exists("other")],
            false,
            None,
        ),
        (NoSelect, Some(9), false, vec![timed(10)], true, Some(1)),
        (NoSelect, Some(10), false, vec![timed(10)], false, None),
        (
            NoSelect,
            Some(9),
            false,
            vec![timed(10), timed(30)],
            true,
            Some(21),
        ),
        (
            NoSelect,
            Some(9),
            false,
            vec![timed(10), exists],
            true,
            None,
        ),
        (NoSelect, Some(9), false, vec![timed(-1)], false, None),
        (NoSelect, Some(9), false, vec![timed(i64::MAX)], true, None),
        (NoSelect, None, false, vec![timed(10)], false, None),
    ];
    for (effect, set_ago, has_it, tolerations, passes, look_again) in cases {
        let mut cluster = ManagedCluster::named("c1");
        cluster.taints = vec![taint(effect, set_ago.map(ago))];
        let mut parts = fleet(vec![cluster]);
        if has_it {
            parts.decisions = vec![decision("ns", "p", &["c1"])];
        }
        let shown = format!("{effect} {has_it} {tolerations:?}");
        let found = run(
            parts,
            &placement(PlacementRules {
                tolerations,
                ..PlacementRules::default()
            }),
        );
        assert_eq!(found.n_selected() == 1, passes, "{shown}");
        let expected = look_again.map(|seconds| now() + SignedDuration::from_secs(seconds));
        assert_eq!(found.look_again_at, expected, "{shown}");
    }
}

#[test]
fn conditions_report_why_a_placement_is_not_satisfied() {
    let all = || clusters(&["c1 env=dev"]);
    let check = |parts: FleetParts, placement: Placement, expected: (bool, &str, &str)| {
        assert_eq!(satisfied(&run(parts, &placement)), expected);
    };
    let unbound = FleetParts {
        bindings: vec![binding("other", "global"), binding("ns", "absent")],
        ..fleet(all())
    };
    let plain = || placement(PlacementRules::default());
    let wants = |sets: &[&str]| Placement {
        cluster_sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        ..plain()
    };
    check(
        unbound,
        plain(),
        (
            false,
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        ),
    );
    check(
        fleet(all()),
        wants(&["b", "a"]),
        (
            false,
            "NoIntersection",
            "None of ManagedClusterSets [b,a] is bound to placement namespace",
        ),
    );
    let two_sets = FleetParts {
        bindings: vec![binding("ns", "global"), binding("ns", "default")],
        ..FleetParts::default()
    };
    check(
        two_sets,
        plain(),
        (
            false,
            "AllManagedClusterSetsEmpty",
            "All ManagedClusterSets [default,global] have no member ManagedCluster",
        ),
    );
    let wrong = Placement {
        rules: Err(Misconfigured::toleration("nonsense")),
        ..plain()
    };
    check(
        fleet(all()),
        wrong.clone(),
        (false, "NotAllDecisionsScheduled", "nonsense"),
    );
    let nobody = placement(PlacementRules {
        predicates: vec![Predicate {
            selector: labels("env=prod"),
            expressions: vec![],
        }],
        ..PlacementRules::default()
    });
    check(
        fleet(all()),
        nobody,
        (
            false,
            "NoManagedClusterMatched",
            "No ManagedCluster matches any of the cluster predicate",
        ),
    );
    check(
        fleet(all()),
        plain(),
        (
            true,
            "AllDecisionsScheduled",
            "All cluster decisions scheduled",
        ),
    );
    let three = placement(PlacementRules {
        number_of_clusters: Some(3),
        ..PlacementRules::default()
    });
    check(
        fleet(all()),
        three,
        (
            false,
            "NotAllDecisionsScheduled",
            "2 cluster decisions unscheduled",
        ),
    );

    let misconfigured = |placement: &Placement| {
        let condition = run(fleet(all()), placement).misconfigured;
        (condition.is_true, condition.reason, condition.message)
    };
    assert_eq!(
        misconfigured(&wrong),
        (true, "Misconfigured", "TaintToleration:nonsense".to_owned())
    );
    assert_eq!(
        misconfigured(&plain()),
        (
            false,
            "Succeedconfigured",
            "Placement configurations check pass".to_owned()
        )
    );
}

#[test]
fn an_explanation_names_the_fate_of_every_cluster() {
    let mut all = clusters(&[
        "best env=dev",
        "deleting env=dev",
        "elsewhere env=dev cluster.open-cluster-management.io/clusterset=edge",
        "offline env=dev",
        "prod env=prod",
        "second env=dev",
    ]);
    all[1].is_deleting = true;
    all[3].taints = vec![Taint {
        key: "k".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSelect,
        time_added: None,
    }];
    let parts = FleetParts {
        clusters: all,
        bindings: vec![binding("ns", "default")],
        decisions: vec![decision("ns", "p", &["best"])],
        ..FleetParts::default()
    };
    let placement = placement(PlacementRules {
        number_of_clusters: Some(1),
        predicates: vec![Predicate {
            selector: labels("env=dev"),
            expressions: vec![],
        }],
        ..PlacementRules::default()
    });
    let explanation = explain(&placement, &parts.into(), &NoExpressions, now());
    let shown: Vec<_> = explanation
        .clusters
        .iter()
        .map(|cluster| {
            let fate = match &cluster.fate {
                Fate::Deleting => "deleting".to_owned(),
                Fate::NotInBoundSet { sets } => format!("in {sets:?}"),
                Fate::NotConsidered => "not considered".to_owned(),
                Fate::NoPredicate { misses } => format!("{misses:?}"),
                Fate::Tainted { taint } => format!("tainted {}", taint.key),
                Fate::PassedOver { rank, scores } => format!("{rank}: {}", scores.total),
                Fate::Selected {
                    rank,
                    scores,
                    group,
                    ..
                } => {
                    let parts = scores.parts.iter();
                    let parts: Vec<_> = parts
                        .map(|p| format!("{}={}", p.prioritizer, p.score))
                        .collect();
                    format!("{rank}: {} {} in {group}", scores.total, parts.join(" "))
                }
            };
            format!("{}: {fate}", cluster.cluster)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "best: 1: 200 Balance=100 Steady=100 in #0",
            "deleting: deleting",
            r#"elsewhere: in ["global"]"#,
            "offline: tainted k",
            r#"prod: [Labels("env=dev")]"#,
            "second: 2: 100",
        ]
    );
    assert_eq!(explanation.eligible_sets, ["default"]);
}
