//! Decision groups, their order, and spreading. See docs/spec/governance.md#6-4.

use super::*;

fn grouped(named: &[(&str, &str)], size: Threshold) -> PlacementRules {
    let named = named.iter().map(|(name, selector)| NamedGroup {
        name: (*name).to_owned(),
        selector: labels(selector),
    });
    PlacementRules {
        groups: GroupRules {
            named: named.collect(),
            size,
        },
        ..PlacementRules::default()
    }
}

#[test]
fn clusters_are_divided_into_named_and_unnamed_groups() {
    let all = ["c1 g=x", "c2 g=y", "c3 g=x h=1", "c4", "c5 g=y", "c6"];
    let twice = [("one", "g=x"), ("two", "g in (x,y)")];
    for (named, size, expected) in [
        (
            &twice[..],
            Threshold::Percent(100),
            "0 one: c1 c3 | 1 two: c2 c5 | 2 : c4 c6",
        ),
        (
            &twice[..],
            Threshold::Count(1),
            "0 one: c1 | 1 one: c3 | 2 two: c2 | 3 two: c5 | 4 : c4 | 5 : c6",
        ),
        (
            &[("none", "g=z"), ("one", "g=x")],
            Threshold::Percent(100),
            "0 one: c1 c3 | 1 : c2 c4 c5 c6",
        ),
        (&[], Threshold::Percent(34), "0 : c1 c2 c3 | 1 : c4 c5 c6"),
        (&[], Threshold::Count(4), "0 : c1 c2 c3 c4 | 1 : c5 c6"),
        (&[], Threshold::Count(0), "0 : c1 c2 c3 c4 c5 c6"),
        (&[], Threshold::Count(99), "0 : c1 c2 c3 c4 c5 c6"),
    ] {
        let found = run(fleet(clusters(&all)), &placement(grouped(named, size)));
        assert_eq!(shown(&found), expected);
    }
}

#[test]
fn a_placement_of_310_clusters_is_split_into_decisions_of_100() {
    let all = (0..310).map(|number| {
        let mut cluster = ManagedCluster::named(format!("c{number:03}"));
        let region = match number {
            0..10 => "west",
            10..20 => "east",
            _ => "other",
        };
        cluster
            .labels
            .insert("region".to_owned(), region.to_owned());
        cluster
    });
    let rules = grouped(
        &[("west", "region=west"), ("east", "region=east")],
        Threshold::Count(150),
    );
    let found = run(fleet(all.collect()), &placement(rules));
    let objects: Vec<_> = found
        .decision_objects("p")
        .iter()
        .map(|object| {
            format!(
                "{} {}: {}",
                object.name,
                object.group,
                object.clusters.len()
            )
        })
        .collect();
    assert_eq!(
        objects,
        [
            "p-decision-1 #0 west: 10",
            "p-decision-2 #1 east: 10",
            "p-decision-3 #2: 100",
            "p-decision-4 #2: 50",
            "p-decision-5 #3: 100",
            "p-decision-6 #3: 40",
        ]
    );
    assert_eq!(found.decision_groups().n_clusters(), 310);
}

#[test]
fn a_placement_without_clusters_has_one_empty_decision() {
    let found = run(
        fleet(vec![]),
        &placement(grouped(&[("one", "g=x")], Threshold::Count(5))),
    );
    let objects = found.decision_objects("p");
    assert_eq!(objects.len(), 1);
    assert_eq!(
        (objects[0].name.as_str(), objects[0].clusters.len()),
        ("p-decision-1", 0)
    );
    assert_eq!(objects[0].group, &GroupKey::new(0, ""));
}

#[test]
fn clusters_are_sorted_by_score_inside_groups() {
    let parts = FleetParts {
        decisions: vec![decision("ns", "p", &["c2", "c4"])],
        ..fleet(clusters(&["c1 g=x", "c2 g=x", "c3", "c4", "c5"]))
    };
    let rules = PlacementRules {
        sort_by: SortBy::Score,
        ..grouped(&[("one", "g=x")], Threshold::Count(2))
    };
    let found = run(parts, &placement(rules));
    assert_eq!(shown(&found), "0 one: c2 c1 | 1 : c4 c3 | 2 : c5");
    assert_eq!(found.groups[0].clusters[0].score, Some(200));
}

fn over(keys: &[&str], max_skew: u32, when_unsatisfiable: Unsatisfiable) -> Vec<SpreadTerm> {
    let term = |key: &&str| SpreadTerm {
        key: (*key).to_owned(),
        source: TopologySource::Label,
        max_skew,
        when_unsatisfiable,
    };
    keys.iter().map(term).collect()
}

#[test]
fn clusters_are_spread_over_topologies() {
    let all = [
        "a1 r=a z=1",
        "a2 r=a z=1",
        "a3 r=a z=2",
        "a4 r=a z=2",
        "b1 r=b z=3",
        "c1",
    ];
    let chosen = |spread, number_of_clusters| {
        let placement = placement(PlacementRules {
            spread,
            number_of_clusters,
            ..PlacementRules::default()
        });
        names(&run(fleet(clusters(&all)), &placement)).join(" ")
    };
    use Unsatisfiable::{DoNotSchedule, ScheduleAnyway};
    assert_eq!(chosen(vec![], Some(3)), "a1 a2 a3");
    assert_eq!(chosen(over(&["r"], 1, ScheduleAnyway), Some(3)), "a1 b1 c1");
    assert_eq!(
        chosen(over(&["r"], 1, ScheduleAnyway), Some(4)),
        "a1 a2 b1 c1"
    );
    // Zones are spread inside regions.
    assert_eq!(
        chosen(over(&["r", "z"], 1, ScheduleAnyway), Some(4)),
        "a1 a3 b1 c1"
    );
    // b has one cluster only, so a may have two, and is then held.
    assert_eq!(chosen(over(&["r"], 1, DoNotSchedule), None), "a1 a2 b1 c1");
    assert_eq!(
        chosen(over(&["r"], 2, DoNotSchedule), None),
        "a1 a2 a3 b1 c1"
    );
    assert_eq!(
        chosen(over(&["r"], 1, ScheduleAnyway), None),
        "a1 a2 a3 a4 b1 c1"
    );
}
