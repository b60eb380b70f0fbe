//! What holds of every fleet and placement, by property test.

use std::collections::BTreeSet;

use polity_core::ManagedCluster;
use polity_core::cluster::{ClusterSetBinding, Taint, TaintEffect};
use polity_core::placement::{
    ClusterSelector, GroupRules, NamedGroup, PlacementDecision, PlacementKey, PlacementRules,
    Predicate, SortBy, SpreadTerm, Toleration, TopologySource, Unsatisfiable,
};
use polity_core::rollout_strategy::{GroupKey, Threshold};
use polity_core::selector::LabelSelector;
use proptest::prelude::*;

use super::tests::{now, placement};
use super::*;

fn cluster() -> impl Strategy<Value = ManagedCluster> {
    let label = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    (
        0_u32..40,
        label,
        any::<bool>(),
        proptest::bool::weighted(0.1),
    )
        .prop_map(|(number, label, is_tainted, is_deleting)| {
            let mut cluster = ManagedCluster::named(format!("c{number}"));
            if let Some(label) = label {
                cluster.labels.insert("l".to_owned(), label.to_owned());
            }
            if is_tainted {
                cluster.taints.push(Taint {
                    key: format!("k{}", number % 3),
                    value: String::new(),
                    effect: [TaintEffect::NoSelect, TaintEffect::NoSelectIfNew]
                        [number as usize % 2],
                    time_added: Some(now()),
                });
            }
            cluster.is_deleting = is_deleting;
            cluster
        })
}

fn parts() -> impl Strategy<Value = FleetParts> {
    let decisions =
        proptest::collection::vec(("[pqr]", proptest::collection::vec(0_u32..40, 0..8)), 0..5);
    (proptest::collection::vec(cluster(), 0..30), decisions).prop_map(
        |(mut clusters, decisions)| {
            clusters.sort_by(|a, b| a.name.cmp(&b.name));
            clusters.dedup_by(|a, b| a.name == b.name);
            let decision = |(placement, numbers): (String, Vec<u32>)| PlacementDecision {
                name: format!("{placement}-decision-1"),
                placement: PlacementKey::new("ns", placement),
                group: GroupKey::new(0, ""),
                clusters: numbers
                    .iter()
                    .map(|number| format!("c{number}").into())
                    .collect(),
            };
            FleetParts {
                clusters,
                bindings: vec![ClusterSetBinding {
                    namespace: "ns".to_owned(),
                    cluster_set: "global".to_owned(),
                }],
                decisions: decisions.into_iter().map(decision).collect(),
                ..FleetParts::default()
            }
        },
    )
}

fn selector() -> impl Strategy<Value = ClusterSelector> {
    let texts = prop_oneof![Just("l=a"), Just("l in (a,b)"), Just("!l"), Just("")];
    texts.prop_map(|text| ClusterSelector {
        labels: text.parse().unwrap(),
        claims: LabelSelector::everything(),
    })
}

fn rules() -> impl Strategy<Value = PlacementRules> {
    let predicate = selector().prop_map(|selector| Predicate {
        selector,
        expressions: Vec::new(),
    });
    let group = ("[xyz]", selector()).prop_map(|(name, selector)| NamedGroup { name, selector });
    let size = prop_oneof![
        (-1_i64..12).prop_map(Threshold::Count),
        (0_u32..120).prop_map(Threshold::Percent)
    ];
    let spread = proptest::option::of((1_u32..3, any::<bool>()));
    (
        proptest::option::of(0_usize..20),
        proptest::collection::vec(predicate, 0..3),
        proptest::collection::vec("k[0-2]", 0..2),
        proptest::collection::vec(group, 0..3),
        size,
        spread,
        any::<bool>(),
    )
        .prop_map(
            |(number_of_clusters, predicates, tolerated, named, size, spread, by_score)| {
                let term = |(max_skew, is_hard)| SpreadTerm {
                    key: "l".to_owned(),
                    source: TopologySource::Label,
                    max_skew,
                    when_unsatisfiable: if is_hard {
                        Unsatisfiable::DoNotSchedule
                    } else {
                        Unsatisfiable::ScheduleAnyway
                    },
                };
                PlacementRules {
                    number_of_clusters,
                    predicates,
                    tolerations: tolerated.into_iter().map(Toleration::exists).collect(),
                    spread: spread.map(term).into_iter().collect(),
                    groups: GroupRules { named, size },
                    sort_by: if by_score {
                        SortBy::Score
                    } else {
                        SortBy::ClusterName
                    },
                    ..PlacementRules::default()
                }
            },
        )
}

proptest! {
    #[test]
    fn the_order_of_objects_does_not_matter(parts in parts(), rules in rules()) {
        let mut reversed = parts.clone();
        reversed.clusters.reverse();
        reversed.decisions.reverse();
        let placement = placement(rules);
        prop_assert_eq!(
            schedule(&placement, &parts.into(), &NoExpressions, now()),
            schedule(&placement, &reversed.into(), &NoExpressions, now())
        );
    }

    #[test]
    fn every_selected_cluster_is_in_one_group_of_allowed_size(parts in parts(), rules in rules()) {
        let placement = placement(rules.clone());
        let found = schedule(&placement, &parts.into(), &NoExpressions, now());
        let n = found.n_selected();
        prop_assert!(n <= rules.number_of_clusters.unwrap_or(usize::MAX));
        let names: BTreeSet<_> = found.groups.iter().flat_map(|g| &g.clusters).map(|d| &d.cluster).collect();
        prop_assert_eq!(names.len(), n);
        let size = rules.groups.size.of(n, n);
        for (index, group) in found.groups.iter().enumerate() {
            prop_assert_eq!(group.key.index as usize, index);
            prop_assert!(group.clusters.len() <= size);
            prop_assert!(n == 0 || !group.clusters.is_empty());
        }
        let objects = found.decision_objects("p");
        prop_assert_eq!(objects.iter().map(|o| o.clusters.len()).sum::<usize>(), n);
        prop_assert!(objects.iter().all(|o| o.clusters.len() <= CLUSTERS_PER_DECISION));
    }

    #[test]
    fn an_explanation_agrees_with_the_schedule(parts in parts(), rules in rules()) {
        let n_clusters = parts.clusters.len();
        let fleet = Fleet::from(parts);
        let placement = placement(rules);
        let explanation = explain(&placement, &fleet, &NoExpressions, now());
        let found = schedule(&placement, &fleet, &NoExpressions, now());
        prop_assert_eq!(&explanation.schedule, &found);
        prop_assert_eq!(explanation.clusters.len(), n_clusters);
        let groups = found.decision_groups();
        let mut ranks = BTreeSet::new();
        for cluster in &explanation.clusters {
            let group = match &cluster.fate {
                Fate::Selected { group, rank, .. } => {
                    ranks.insert(*rank);
                    Some(group)
                }
                Fate::PassedOver { rank, .. } => {
                    ranks.insert(*rank);
                    prop_assert!(*rank > found.n_selected());
                    None
                }
                _ => None,
            };
            prop_assert_eq!(groups.group_of(&cluster.cluster), group);
        }
        prop_assert_eq!(ranks.iter().copied().collect::<Vec<_>>(), (1..=ranks.len()).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_decided_is_decided_again(parts in parts(), rules in rules()) {
        // Steady outweighs nothing here: with it alone, writing the decisions and deciding again changes no cluster.
        let rules = PlacementRules { spread: Vec::new(), ..rules };
        let steady = rules.prioritizers.iter().filter(|w| w.prioritizer.to_string() == "Steady").cloned().collect();
        let placement = placement(PlacementRules { prioritizers: steady, sort_by: SortBy::ClusterName, ..rules });
        let mut parts = parts;
        let first = schedule(&placement, &parts.clone().into(), &NoExpressions, now());
        parts.decisions.retain(|decision| decision.placement != placement.key);
        parts.decisions.extend(first.groups.iter().map(|group| PlacementDecision {
            placement: placement.key.clone(),
            name: "p-decision-1".to_owned(),
            group: group.key.clone(),
            clusters: group.clusters.iter().map(|decision| decision.cluster.clone()).collect(),
        }));
        let second = schedule(&placement, &parts.into(), &NoExpressions, now());
        prop_assert_eq!(first.groups, second.groups);
    }
}
