//! Scores of clusters. See docs/spec/governance.md#6-3.

use super::*;

fn scored_by(prioritizer: Prioritizer) -> Placement {
    placement(PlacementRules {
        prioritizers: vec![WeightedPrioritizer {
            prioritizer,
            weight: 1,
        }],
        sort_by: SortBy::Score,
        ..PlacementRules::default()
    })
}

/// Decisions as `c1=100 c2=-20`, best first.
fn scores_of(schedule: &Schedule) -> String {
    let clusters = schedule.groups.iter().flat_map(|group| &group.clusters);
    let shown = clusters.map(|d| format!("{}={}", d.cluster, d.score.unwrap()));
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn balance_and_steady_score_by_existing_decisions() {
    let parts = FleetParts {
        decisions: vec![
            decision("ns", "p", &["c1", "c4"]),
            decision("ns", "q", &["c1", "c2", "c3", "gone"]),
            decision("other", "p", &["c1", "c2"]),
            decision("ns", "r", &["c1"]),
        ],
        ..fleet(clusters(&["c1", "c2", "c3", "c4"]))
    };
    // Counts of others: c1 3, c2 2, c3 1, c4 0; 2 × trunc(100 × (0.5 − 1/3)) is 32.
    let balanced = run(parts.clone(), &scored_by(Prioritizer::Balance));
    assert_eq!(scores_of(&balanced), "c4=100 c3=32 c2=-32 c1=-100");
    let steady = run(parts, &scored_by(Prioritizer::Steady));
    assert_eq!(scores_of(&steady), "c1=100 c4=100 c2=0 c3=0");
}

#[test]
fn resources_score_by_allocatable_amounts() {
    let with = |cpus: &[Option<&str>]| {
        let named = cpus.iter().enumerate().map(|(index, cpu)| {
            let mut cluster = ManagedCluster::named(format!("c{index}"));
            if let Some(cpu) = cpu {
                let amounts = BTreeMap::from([("cpu".to_owned(), cpu.parse().unwrap())]);
                cluster.capacity.clone_from(&amounts);
                cluster.allocatable = amounts;
            }
            cluster
        });
        let parts = fleet(named.collect());
        scores_of(&run(parts, &scored_by(Prioritizer::ResourceAllocatableCpu)))
    };
    assert_eq!(
        with(&[Some("1"), Some("2500m"), Some("4"), Some("2"), None]),
        "c2=100 c1=0 c4=0 c3=-33 c0=-100"
    );
    assert_eq!(
        with(&[Some("2"), Some("2000m"), None]),
        "c0=100 c1=100 c2=0"
    );
    assert_eq!(with(&[None]), "c0=0");
}

#[test]
fn add_on_scores_count_until_they_expire() {
    let scores = |cluster: &str, value, valid_until| AddOnScores {
        cluster: cluster.into(),
        resource_name: "r".to_owned(),
        scores: BTreeMap::from([("s".to_owned(), value)]),
        valid_until,
    };
    let soon = now() + SignedDuration::from_secs(30);
    let parts = FleetParts {
        scores: vec![
            scores("c1", 40, None),
            scores("c2", 60, Some(soon)),
            scores("c3", 90, Some(now())),
            scores("c4", -500, None),
        ],
        ..fleet(clusters(&["c1", "c2", "c3", "c4", "c5"]))
    };
    let found = run(
        parts,
        &scored_by(Prioritizer::AddOn {
            resource_name: "r".to_owned(),
            score_name: "s".to_owned(),
        }),
    );
    assert_eq!(scores_of(&found), "c2=60 c1=40 c3=0 c5=0 c4=-100");
    assert_eq!(
        found.warnings,
        ["scores r/s have expired and count 0 for c3"]
    );
    assert_eq!(found.look_again_at, Some(soon));
}

#[test]
fn the_clusters_with_the_highest_scores_are_selected() {
    let parts = FleetParts {
        decisions: vec![decision("ns", "p", &["c3"]), decision("ns", "q", &["c1"])],
        ..fleet(clusters(&["c1", "c2", "c3", "c4"]))
    };
    for (wanted, expected) in [
        (0, vec![]),
        (1, vec!["c3"]),
        (2, vec!["c2", "c3"]),
        (3, vec!["c2", "c3", "c4"]),
        (9, vec!["c1", "c2", "c3", "c4"]),
    ] {
        let placement = placement(PlacementRules {
            number_of_clusters: Some(wanted),
            ..PlacementRules::default()
        });
        assert_eq!(names(&run(parts.clone(), &placement)), expected, "{wanted}");
    }
}
