//! What manifests mean, and what is wrong with the wrong ones.

use jiff::SignedDuration;
use polity_core::cluster::{ClusterSetBinding, ManagedCluster};
use polity_core::field;
use polity_core::placement::{Placement, PlacementDecision, Prioritizer};
use polity_core::rollout_strategy::{
    GroupReference, Pace, Progressive, RolloutStrategy, Threshold,
};
use serde_json::{Value, json};

use crate::cluster::{v1, v1alpha1, v1beta1, v1beta2};

fn strategy(value: Value) -> Result<RolloutStrategy, String> {
    let wire: v1alpha1::RolloutStrategy = serde_json::from_value(value).unwrap();
    RolloutStrategy::try_from(&wire).map_err(|error| error.to_string())
}

#[test]
fn rollout_strategies_are_lowered() {
    let all = Ok(RolloutStrategy::All(Pace::default()));
    assert_eq!(strategy(json!({})), all);
    assert_eq!(strategy(json!({"type": ""})), all);
    // Only the part that the type names counts, and `All` ignores the soak.
    let soak = json!({"all": {"minSuccessTime": "nonsense"}, "progressive": {"maxFailures": "3"}});
    assert_eq!(strategy(soak), all);
    let progressive = strategy(json!({
        "type": "Progressive",
        "progressive": {
            "minSuccessTime": "1h30m", "progressDeadline": "5m30s", "maxFailures": "10%", "maxConcurrency": 3,
            "mandatoryDecisionGroups": [{"groupName": "can", "groupIndex": 4}, {"groupIndex": 2}, {}],
        },
    }));
    let expected = Progressive {
        pace: Pace {
            min_success_time: SignedDuration::from_mins(90),
            progress_deadline: Some(SignedDuration::from_secs(330)),
            max_failures: Threshold::Percent(10),
        },
        max_concurrency: Some(Threshold::Count(3)),
        mandatory_groups: vec![
            GroupReference::Name("can".to_owned()),
            GroupReference::Index(2),
            GroupReference::Index(0),
        ],
    };
    assert_eq!(progressive, Ok(RolloutStrategy::Progressive(expected)));
}

#[test]
fn strategies_that_are_refused() {
    let progressive =
        |field: &str, value: Value| json!({"type": "Progressive", "progressive": {field: value}});
    for (value, expected) in [
        (
            json!({"type": "Sideways"}),
            "incorrect rollout strategy type Sideways",
        ),
        (
            progressive("progressDeadline", json!("2d")),
            "invalid timeout format",
        ),
        (
            progressive("progressDeadline", json!("90")),
            "invalid timeout format",
        ),
        (
            progressive("minSuccessTime", json!("5")),
            r#"time: missing unit in duration "5""#,
        ),
        (
            progressive("maxFailures", json!("3")),
            "'3' is an invalid maximum threshold value: string is not a percentage",
        ),
        (
            progressive("maxConcurrency", json!("-5%")),
            "'-5%' is an invalid maximum threshold value: string is not a percentage",
        ),
    ] {
        assert_eq!(strategy(value).unwrap_err(), expected);
    }
}

fn placement(spec: Value) -> Placement {
    let wire: v1beta1::Placement = serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": "p", "namespace": "ns"}, "spec": spec,
    }))
    .unwrap();
    Placement::from(&wire)
}

#[test]
fn placements_that_make_no_sense() {
    let built_in = |name: &str, weight: i32| {
        json!({"prioritizerPolicy": {"configurations": [
            {"scoreCoordinate": {"builtIn": name}, "weight": weight}]}})
    };
    for (spec, expected) in [
        (json!({}), None),
        (
            json!({"tolerations": [{"value": "x"}]}),
            Some("TaintToleration:If the key is empty, operator must be Exists."),
        ),
        (
            json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "x"}]}),
            Some("TaintToleration:If the operator is Exists, the value should be empty."),
        ),
        (
            built_in("Best", 1),
            Some(":incorrect builtin prioritizer: Best"),
        ),
        (built_in("Best", 0), None),
        (
            json!({"prioritizerPolicy": {"mode": "Odd"}}),
            Some(":incorrect prioritizer policy mode: Odd"),
        ),
        (
            json!({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "AddOn"}}]}}),
            Some(":addOn should not be empty"),
        ),
        (
            json!({"prioritizerPolicy": {"configurations": [{"weight": 2}]}}),
            Some(":scoreCoordinate field is required"),
        ),
        (
            json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "3"}}}),
            Some(":3 invalid type: string is not a percentage"),
        ),
        (
            json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [
                {"key": "a", "operator": "Near", "values": ["b"]}]}}}]}),
            Some(
                "Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: \
                 Invalid value: \"Near\": not a valid selector operator",
            ),
        ),
        // The first part in the order of the scheduler is what is told.
        (
            json!({"tolerations": [{"value": "x"}], "prioritizerPolicy": {"mode": "Odd"}}),
            Some("TaintToleration:If the key is empty, operator must be Exists."),
        ),
    ] {
        let found = placement(spec.clone())
            .rules
            .err()
            .map(|error| error.to_string());
        assert_eq!(found.as_deref(), expected, "{spec}");
    }
}

#[test]
fn prioritizer_weights_are_lowered() {
    let weights = |policy: Value| {
        let rules = placement(json!({"prioritizerPolicy": policy}))
            .rules
            .unwrap();
        let shown: Vec<_> = rules
            .prioritizers
            .iter()
            .map(|weighted| format!("{}={}", weighted.prioritizer, weighted.weight))
            .collect();
        (shown.join(" "), rules.spread_weight)
    };
    let configurations = json!([
        {"scoreCoordinate": {"builtIn": "Steady"}, "weight": 3},
        {"scoreCoordinate": {"builtIn": "Balance"}, "weight": 0},
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}}},
    ]);
    assert_eq!(weights(json!({})), ("Balance=1 Steady=1".to_owned(), 2));
    assert_eq!(
        weights(json!({"configurations": configurations})),
        ("Steady=3 AddOn/r/s=1".to_owned(), 2)
    );
    assert_eq!(
        weights(json!({"mode": "Exact", "configurations": [
            {"scoreCoordinate": {"builtIn": "Spread"}, "weight": 5},
            {"scoreCoordinate": {"builtIn": "ResourceAllocatableCPU"}, "weight": -1}]})),
        (format!("{}=-1", Prioritizer::ResourceAllocatableCpu), 5)
    );
}

#[test]
fn bindings_are_named_after_their_set() {
    let lower = |name: &str| {
        let wire: v1beta2::ManagedClusterSetBinding = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterSet": "edge"},
        }))
        .unwrap();
        ClusterSetBinding::try_from(&wire).map_err(|errors| field::join(&errors))
    };
    assert_eq!(lower("edge").unwrap().cluster_set, "edge");
    assert_eq!(
        lower("other").unwrap_err(),
        "spec.clusterSet: Invalid value: \"edge\": must be the name of the binding"
    );
}

#[test]
fn clusters_keep_what_the_scheduler_needs() {
    let cluster = |allocatable: Value| {
        let wire: v1::ManagedCluster = serde_json::from_value(json!({
            "metadata": {"name": "c1", "labels": {"env": "dev"}, "deletionTimestamp": "2026-11-15T10:00:00Z"},
            "spec": {"hubAcceptsClient": true, "taints": [
                {"key": "k", "effect": "NoSelectIfNew", "timeAdded": "2026-11-15T09:00:00Z"}]},
            "status": {"clusterClaims": [{"name": "region", "value": "eu"}], "allocatable": {"cpu": allocatable}},
        }))
        .unwrap();
        ManagedCluster::try_from(&wire).map_err(|errors| field::join(&errors))
    };
    let lowered = cluster(json!("3500m")).unwrap();
    assert_eq!(lowered.claims["region"], "eu");
    assert!(lowered.is_deleting);
    assert_eq!(
        lowered.taints[0].time_added,
        Some("2026-11-15T09:00:00Z".parse().unwrap())
    );
    assert!(
        cluster(json!("lots"))
            .unwrap_err()
            .starts_with("status.allocatable[cpu]: Invalid value: \"lots\": quantities must match")
    );
}

#[test]
fn decisions_are_lowered_by_group() {
    let lower = |labels: Value| {
        let wire: v1beta1::PlacementDecision = serde_json::from_value(json!({
            "metadata": {"name": "p-decision-1", "namespace": "ns", "labels": labels},
            "status": {"decisions": [{"clusterName": "c1", "reason": ""}]},
        }))
        .unwrap();
        PlacementDecision::try_from(&wire)
            .map(|decision| {
                format!(
                    "{} {} {:?}",
                    decision.placement, decision.group, decision.clusters
                )
            })
            .map_err(|errors| field::join(&errors))
    };
    let group = "cluster.open-cluster-management.io";
    let full = json!({format!("{group}/placement"): "p", format!("{group}/decision-group-index"): "3",
        format!("{group}/decision-group-name"): "can"});
    assert_eq!(lower(full).unwrap(), r#"ns/p #3 can ["c1"]"#);
    let old = json!({format!("{group}/placement"): "p"});
    assert_eq!(lower(old).unwrap(), r#"ns/p #0 ["c1"]"#);
    for (labels, word) in [
        (json!({}), "Required value: says which placement decided"),
        (
            json!({format!("{group}/placement"): "p", format!("{group}/decision-group-index"): "first"}),
            "Invalid value: \"first\": must be a number from 0",
        ),
    ] {
        assert!(lower(labels).unwrap_err().contains(word));
    }
}
