//! Measures rollout plans and placements on this machine: `cargo run --release -p polity-rollout --example bench`.
//!
//! Each line is a name, a number and a unit, separated by tabs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;

use jiff::{SignedDuration, Timestamp};
use peers::stopwatch::{best_of, report};
use polity_cel::{Bindings, Budget, Environment, Expression, Output};
use polity_core::cluster::ClusterSetBinding;
use polity_core::placement::{
    ClusterSelector, Placement, PlacementDecision, PlacementKey, PlacementRules, Predicate,
    SpreadTerm, TopologySource, Unsatisfiable,
};
use polity_core::rollout_strategy::{
    GroupKey, Pace, Progressive, ProgressivePerGroup, RolloutStatus, RolloutStrategy, Threshold,
};
use polity_core::selector::LabelSelector;
use polity_core::{ClusterName, ManagedCluster};
use polity_rollout::placement::{ClusterExpression, ClusterExpressions, NoExpressions};
use polity_rollout::{ClusterState, DecisionGroups, Fleet, FleetParts, Observed, plan, schedule};
use serde_json::json;

fn main() {
    for n_clusters in [1_000, 10_000, 100_000] {
        measure_plans(n_clusters);
    }
    for n_clusters in [1_000, 10_000, 100_000] {
        measure_placements(n_clusters, 1);
    }
    measure_placements(10_000, 1_000);
    for n_clusters in [1_000, 10_000] {
        measure_spread(n_clusters);
    }
    measure_expressions(10_000);
}

fn now() -> Timestamp {
    Timestamp::constant(1_800_000_000, 0)
}

/// Plans for a fleet in the middle of a rollout with groups of 50: half of it done, some in flight, a few failed.
fn measure_plans(n_clusters: usize) {
    let name = |number: usize| format!("cluster-{number:06}");
    let groups = (0..n_clusters).step_by(50).map(|first| {
        let end = n_clusters.min(first + 50);
        let key = GroupKey::new((first / 50) as u32, "");
        (key, (first..end).map(name).collect::<Vec<_>>())
    });
    let groups = DecisionGroups::gather(groups);
    let state = |number: usize| ClusterState {
        status: match number % 100 {
            0 => RolloutStatus::Failed,
            1..5 => RolloutStatus::Progressing,
            _ => RolloutStatus::Succeeded,
        },
        since: Some(now() - SignedDuration::from_secs(number as i64 % 600)),
    };
    let observed: Observed = (0..n_clusters / 2)
        .map(|number| (name(number).into(), state(number)))
        .collect();
    let pace = Pace {
        min_success_time: SignedDuration::from_mins(5),
        progress_deadline: Some(SignedDuration::from_mins(30)),
        max_failures: Threshold::Percent(10),
    };
    let strategies = [
        RolloutStrategy::All(pace.clone()),
        RolloutStrategy::Progressive(Progressive {
            pace: pace.clone(),
            max_concurrency: Some(Threshold::Percent(100)),
            mandatory_groups: Vec::new(),
        }),
        RolloutStrategy::ProgressivePerGroup(ProgressivePerGroup {
            pace,
            mandatory_groups: Vec::new(),
        }),
    ];
    for strategy in strategies {
        let took = best_of(5, || {
            black_box(plan(&strategy, &groups, &observed, now()));
        });
        report(
            &format!("plan {} over {n_clusters} clusters", strategy.type_name()),
            took,
        );
    }
}

fn parts(n_clusters: usize, n_placements: usize) -> FleetParts {
    let cluster = |number: usize| {
        let mut cluster = ManagedCluster::named(format!("cluster-{number:06}"));
        let labels = [
            ("env", ["dev", "test", "prod"][number % 3].to_owned()),
            ("region", format!("region-{}", number % 20)),
            ("vendor", ["a", "b"][number % 2].to_owned()),
            ("team", format!("team-{}", number % 100)),
            ("tier", format!("{}", number % 5)),
        ];
        cluster.labels = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        cluster
    };
    let clusters: Vec<_> = (0..n_clusters).map(cluster).collect();
    // Every tenth placement has selected every tenth cluster, so that scores differ.
    let decision = |number: usize| PlacementDecision {
        placement: placement(number).key,
        name: format!("p{number}-decision-1"),
        group: GroupKey::new(0, ""),
        clusters: clusters
            .iter()
            .skip(number % 10)
            .step_by(10)
            .map(|c| c.name.clone())
            .collect(),
    };
    let decisions = (0..n_placements).step_by(10).map(decision).collect();
    FleetParts {
        decisions,
        clusters,
        bindings: vec![ClusterSetBinding {
            namespace: "ns".to_owned(),
            cluster_set: "global".to_owned(),
        }],
        ..FleetParts::default()
    }
}

/// Placements of every kind: by one label, by a set of values, by two predicates. A third of them limits the number of
/// clusters to 50.
fn placement(number: usize) -> Placement {
    let by_labels = |text: String| Predicate {
        selector: ClusterSelector {
            labels: text.parse().expect("a selector"),
            claims: LabelSelector::everything(),
        },
        expressions: Vec::new(),
    };
    let region = number % 20;
    let predicates = match number % 3 {
        0 => vec![by_labels(format!("env=prod,region=region-{region}"))],
        1 => vec![by_labels(format!(
            "region in (region-{region},region-{})",
            (region + 1) % 20
        ))],
        _ => vec![
            by_labels(format!("team=team-{}", number % 100)),
            by_labels("env=dev,tier notin (0,1)".to_owned()),
        ],
    };
    Placement {
        key: PlacementKey::new("ns", format!("p{number}")),
        cluster_sets: Vec::new(),
        rules: Ok(PlacementRules {
            predicates,
            number_of_clusters: number.is_multiple_of(3).then_some(50),
            ..PlacementRules::default()
        }),
    }
}

fn measure_placements(n_clusters: usize, n_placements: usize) {
    let placements: Vec<_> = (0..n_placements).map(placement).collect();
    let parts = parts(n_clusters, n_placements);
    if n_placements == 1 {
        let parts = RefCell::new(vec![parts.clone(); 3]);
        let took = best_of(3, || {
            let fleet = Fleet::from(parts.borrow_mut().pop().unwrap_or_default());
            black_box(schedule(&placements[0], &fleet, &NoExpressions, now()));
        });
        let name = format!("{n_clusters} clusters put in order, and the first placement");
        report(&name, took);
    }
    let fleet = Fleet::from(parts);
    let n_runs = if n_placements > 1 { 3 } else { 5 };
    let took = best_of(n_runs, || {
        for placement in &placements {
            black_box(schedule(placement, &fleet, &NoExpressions, now()));
        }
    });
    report(
        &format!("{n_placements} placements over {n_clusters} clusters, labels"),
        took,
    );
}

/// Placements that spread over a few values, and over as many values as there are clusters.
fn measure_spread(n_clusters: usize) {
    let mut parts = parts(n_clusters, 1);
    for cluster in &mut parts.clusters {
        let name = cluster.name.to_string();
        cluster.labels.insert("name".to_owned(), name);
    }
    let fleet = Fleet::from(parts);
    let term = |key: &str| SpreadTerm {
        key: key.to_owned(),
        source: TopologySource::Label,
        max_skew: 1,
        when_unsatisfiable: Unsatisfiable::DoNotSchedule,
    };
    for (what, terms) in [
        ("20 values", vec![term("region")]),
        (
            "20 values and 5 in each",
            vec![term("region"), term("tier")],
        ),
        ("a value each", vec![term("name")]),
        ("20 values and one each", vec![term("region"), term("name")]),
    ] {
        let placement = Placement {
            rules: Ok(PlacementRules {
                spread: terms,
                spread_weight: 1,
                ..PlacementRules::default()
            }),
            ..placement(0)
        };
        let took = best_of(3, || {
            black_box(schedule(&placement, &fleet, &NoExpressions, now()));
        });
        report(
            &format!("1 placement over {n_clusters} clusters, spread over {what}"),
            took,
        );
    }
}

/// The cluster objects as CEL bindings.
struct Objects(HashMap<ClusterName, Bindings>);

impl ClusterExpressions for Objects {
    fn compile(&self, expression: &str) -> Result<Box<dyn ClusterExpression + '_>, String> {
        let environment = Environment::cluster_predicates();
        let expression = Expression::compile(expression, &environment, Output::Any)
            .map_err(|error| error.to_string())?;
        Ok(Box::new(Compiled {
            expression,
            objects: self,
        }))
    }
}

struct Compiled<'a> {
    expression: Expression,
    objects: &'a Objects,
}

impl ClusterExpression for Compiled<'_> {
    fn holds(&self, cluster: &ManagedCluster) -> Result<bool, String> {
        let mut budget = Budget::of(Budget::PER_EXPRESSION);
        self.expression
            .evaluate_bool(&self.objects.0[&cluster.name], &mut budget)
            .map_err(|error| error.to_string())
    }
}

/// CEL predicates, which are evaluated for every cluster.
fn measure_expressions(n_clusters: usize) {
    let fleet = Fleet::from(parts(n_clusters, 1));
    let bind = |cluster: &ManagedCluster| {
        let object = json!({
            "metadata": {"name": cluster.name, "labels": cluster.labels},
            "status": {"version": {"kubernetes": "v1.31.2"}},
        });
        let bindings = Bindings::new().cluster(&object, &json!({}));
        (cluster.name.clone(), bindings)
    };
    let objects = Objects(fleet.clusters().iter().map(bind).collect());
    for expression in [
        "managedCluster.metadata.labels.env == 'prod'",
        "managedCluster.metadata.labels.exists(name, name == 'tier' && managedCluster.metadata.labels[name] in ['1', '2'])",
        "semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0'))",
    ] {
        let placement = Placement {
            rules: Ok(PlacementRules {
                predicates: vec![Predicate {
                    expressions: vec![expression.to_owned()],
                    ..Predicate::default()
                }],
                ..PlacementRules::default()
            }),
            ..placement(0)
        };
        let took = best_of(3, || {
            black_box(schedule(&placement, &fleet, &objects, now()));
        });
        report(
            &format!("1 placement over {n_clusters} clusters, {expression}"),
            took,
        );
    }
}
