//! The simulator on small fleets, and the worked scenarios that depend on time: docs/spec/governance.md#15.

use std::collections::BTreeMap;

use crate::objects::{Binding, Policy, PolicySet};
use polity_api::policy::{v1, v1beta1};
use polity_api::{cluster, decode};
use polity_core::placement::Placement;
use serde_json::{Value, json};

use super::*;
use crate::hub::HubObject;

fn lower(object: &Value) -> Result<HubObject, String> {
    let text = |error: polity_api::DecodeError| error.to_string();
    match object["kind"].as_str().unwrap_or_default() {
        "Policy" => {
            let wire: v1::Policy = decode(object).map_err(text)?;
            Ok(HubObject::Policy(Box::new(Policy::from(&wire))))
        }
        "PlacementBinding" => {
            let wire: v1::PlacementBinding = decode(object).map_err(text)?;
            Ok(HubObject::Binding(Binding::from(&wire)))
        }
        "PolicySet" => {
            let wire: v1beta1::PolicySet = decode(object).map_err(text)?;
            Ok(HubObject::PolicySet(PolicySet::from(&wire)))
        }
        "Placement" => {
            let wire: cluster::v1beta1::Placement = decode(object).map_err(text)?;
            Ok(HubObject::Placement(Box::new(Placement::from(&wire))))
        }
        _ => Ok(HubObject::Other),
    }
}

/// A policy `p` that enforces by a strategy, bound to a placement `pl` of all clusters, canaries first.
fn manifests(strategy: Value) -> Vec<Value> {
    let definition = json!({"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy",
        "metadata": {"name": "t"}, "spec": {"remediationAction": "inform"}});
    vec![
        json!({"apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
            "metadata": {"name": "p", "namespace": "policies"},
            "spec": {"disabled": false, "remediationAction": "enforce", "rolloutStrategy": strategy,
                "policy-templates": [{"objectDefinition": definition}]}}),
        json!({"apiVersion": "policy.open-cluster-management.io/v1", "kind": "PlacementBinding",
            "metadata": {"name": "b", "namespace": "policies"},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "pl"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "p"}]}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "pl", "namespace": "policies"},
            "spec": {
                "tolerations": [{"key": "cluster.open-cluster-management.io/unreachable", "operator": "Exists"}],
                "decisionStrategy": {"groupStrategy": {"decisionGroups": [
                    {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}]}}}}),
    ]
}

fn play(strategy: Value, rest: Value) -> Result<Timeline, SimulationError> {
    let mut scenario = json!({"start": "2026-11-15T10:00:00Z"});
    let fields = scenario.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    let scenario: Scenario = serde_json::from_value(scenario).unwrap();
    run(&scenario, &manifests(strategy), &lower)
}

#[track_caller]
fn holds(strategy: Value, rest: Value) -> Timeline {
    let timeline = play(strategy, rest).unwrap();
    assert_eq!(timeline.broken, None);
    timeline
}

fn three() -> Value {
    json!([{"name": "c", "count": 3, "takes": "2m"}])
}

#[test]
fn a_progressive_rollout_enforces_one_cluster_after_another() {
    holds(
        json!({"type": "Progressive"}),
        json!({
            "clusters": three(),
            "events": [{"at": "10:03", "do": {"fail": "c2"}}, {"at": "10:30", "do": {"recover": "c2"}}],
            "expect": [
                {"at": "10:00", "is": {"root": "Progressing", "clusters": {"c1": "enforcing", "c2": "ToApply", "c3": "informing"}}},
                {"at": "10:02", "is": {"clusters": {"c1": "Succeeded", "c2": "enforcing", "c3": "ToApply"}}},
                {"at": "10:04", "is": {"root": "Failed", "clusters": {"c2": "Failed", "c3": "informing"}}},
                {"at": "10:29", "is": {"root": "Failed", "clusters": {"c3": "ToApply"}}},
                {"at": "10:30", "is": {"root": "Progressing", "clusters": {"c2": "Succeeded", "c3": "enforcing"}}},
                {"never": {"moreInFlightThan": 1}},
                {"end": {"root": "Succeeded", "compliant": "Compliant", "clusters": {"*": "Succeeded"}}},
            ],
        }),
    );
}

#[test]
fn a_rollout_per_group_waits_for_the_soak() {
    holds(
        json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "5m"}}),
        json!({
            "clusters": [{"name": "c1", "labels": {"canary": "yes"}, "takes": "0s"}, {"name": "c2"}, {"name": "c3"}],
            "expect": [
                {"at": "+0s", "is": {"clusters": {"c1": "Succeeded", "c2": "ToApply"}}},
                {"at": "+299s", "is": {"clusters": {"c2": "ToApply", "c3": "ToApply"}}},
                {"at": "+5m", "is": {"clusters": {"c2": "enforcing", "c3": "enforcing"}}},
                {"end": {"root": "Succeeded"}},
            ],
        }),
    );
}

#[test]
fn a_new_version_restarts_a_running_rollout() {
    holds(
        json!({"type": "Progressive"}),
        json!({
            "clusters": three(),
            "events": [{"at": "+3m", "do": {"edit": {"kind": "Policy", "name": "p",
                "merge": {"spec": {"dependencies": [{"kind": "Policy", "name": "other", "compliance": "Compliant"}]}}}}}],
            "expect": [
                {"at": "+2m", "is": {"clusters": {"c1": "Succeeded", "c2": "enforcing"}}},
                {"at": "+3m", "is": {"clusters": {"c1": "enforcing", "c2": "ToApply", "c3": "ToApply"}}},
                {"end": {"root": "Succeeded"}},
            ],
        }),
    );
}

#[test]
fn a_cluster_that_joins_after_success_is_rolled_out() {
    holds(
        json!({"type": "Progressive"}),
        json!({
            "clusters": three(),
            "events": [{"at": "+24h", "do": {"join": {"name": "c4", "takes": "2m"}}}],
            "expect": [
                {"at": "+23h", "is": {"root": "Succeeded"}},
                {"at": "+24h", "is": {"root": "Progressing", "clusters": {"c1": "Succeeded", "c4": "enforcing"}}},
                {"end": {"root": "Succeeded", "clusters": {"*": "Succeeded"}}},
            ],
        }),
    );
}

#[test]
fn a_report_about_an_older_step_does_not_count() {
    holds(
        json!({"type": "Progressive"}),
        json!({
            "clusters": [{"name": "c", "count": 2, "takes": "2m"}],
            "events": [
                {"at": "+1h", "do": {"offline": "c1"}},
                {"at": "+2h", "do": {"edit": {"kind": "Policy", "name": "p", "merge": {"spec": {"remediationAction": "Enforce"}}}}},
                {"at": "+5h", "do": {"online": "c1"}},
            ],
            "expect": [
                {"at": "+1h", "is": {"root": "Succeeded"}},
                {"at": "+2h", "is": {"clusters": {"c1": "Progressing", "c2": "ToApply"}}},
                {"at": "+4h", "is": {"clusters": {"c1": "Progressing", "c2": "ToApply"}}},
                {"at": "+5h2m", "is": {"clusters": {"c1": "Succeeded", "c2": "enforcing"}}},
                {"end": {"root": "Succeeded"}},
            ],
        }),
    );
}

#[test]
fn an_edited_strategy_takes_effect_at_once() {
    holds(
        json!({"type": "Progressive"}),
        json!({
            "clusters": three(),
            "events": [{"at": "+3m", "do": {"edit": {"kind": "Policy", "name": "p",
                "merge": {"spec": {"rolloutStrategy": {"progressive": {"maxConcurrency": 2}}}}}}}],
            "expect": [
                {"at": "+3m", "is": {"clusters": {"c1": "Succeeded", "c2": "enforcing", "c3": "enforcing"}}},
                {"never": {"moreInFlightThan": 2}},
                {"end": {"root": "Succeeded"}},
            ],
        }),
    );
}

#[test]
fn an_offline_cluster_without_toleration_leaves_and_joins_anew() {
    let mut objects = manifests(json!({"type": "Progressive"}));
    objects[2]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("tolerations");
    let scenario: Scenario = serde_json::from_value(json!({
        "start": "2026-11-15T10:00:00Z",
        "clusters": [{"name": "c1"}],
        "events": [{"at": "+1h", "do": {"offline": "c1"}}, {"at": "+2h", "do": {"online": ["c1"]}}],
        "expect": [
            {"at": "+90m", "is": {"root": "None", "clusters": {"c1": "absent"}}},
            {"end": {"root": "Succeeded"}},
        ],
    }))
    .unwrap();
    assert_eq!(run(&scenario, &objects, &lower).unwrap().broken, None);
}

#[test]
fn a_drift_is_not_a_failure_of_the_next_version() {
    holds(
        json!({"type": "Progressive", "progressive": {"progressDeadline": "10m"}}),
        json!({
            "clusters": three(),
            "events": [
                {"at": "+3m", "do": {"drift": "c1"}},
                {"at": "+20m", "do": {"recover": "c1"}},
                {"at": "+1h", "do": {"leave": "c3"}},
                {"at": "+2h", "do": {"stall": "c2"}},
                {"at": "+3h", "do": {"delete": {"kind": "PlacementBinding", "name": "b"}}},
            ],
            "expect": [
                {"at": "+5m", "is": {"root": "Failed", "clusters": {"c1": "Failed", "c3": "ToApply"}}},
                {"at": "+59m", "is": {"root": "Succeeded"}},
                {"at": "+61m", "is": {"clusters": {"c3": "absent"}}},
                {"at": "+2h", "is": {"root": "Progressing", "clusters": {"c2": "Progressing"}}},
                {"end": {"root": "None", "clusters": {"c1": "absent"}}},
            ],
        }),
    );
}

#[test]
fn a_broken_expectation_names_the_moment() {
    let timeline = play(
        json!({"type": "All"}),
        json!({"clusters": three(), "expect": [{"end": {"root": "Succeeded"}}, {"never": {"moreInFlightThan": 2}}]}),
    )
    .unwrap();
    let broken = timeline.broken.unwrap();
    assert_eq!(
        (broken.index, broken.at.to_string().as_str()),
        (1, "2026-11-15T10:00:00Z")
    );
    assert_eq!(
        broken.message,
        "never more than 2 in flight, found 3: c1, c2, c3"
    );
    let timeline = play(
        json!({"type": "Progressive"}),
        json!({"clusters": three(), "until": "+5m", "expect": [{"end": {"root": "Succeeded"}}]}),
    )
    .unwrap();
    let broken = timeline.broken.unwrap();
    assert_eq!(
        broken.message,
        "expected the rollout to be Succeeded, found Progressing"
    );
    assert_eq!(broken.at.to_string(), "2026-11-15T10:05:00Z");
}

#[test]
fn a_month_of_a_large_fleet() {
    let timeline = holds(
        json!({"type": "Progressive", "progressive": {"maxConcurrency": "10%", "maxFailures": "100%", "progressDeadline": "1h"}}),
        json!({
            "clusters": [
                {"name": "canary", "count": 5, "labels": {"canary": "yes"}, "takes": "10m"},
                {"name": "edge", "count": 200, "takes": "30m"},
                {"name": "lost", "count": 3, "outcome": "Silent"},
            ],
            "events": [{"at": "+720h", "do": {"drift": ["edge001", "edge002"]}}],
            "expect": [{"never": {"moreInFlightThan": 21}}, {"end": {"root": "Failed"}}],
        }),
    );
    let by_status = timeline
        .moments
        .iter()
        .flat_map(|moment| &moment.clusters)
        .fold(
            BTreeMap::new(),
            |mut by_status: BTreeMap<String, usize>, change| {
                *by_status
                    .entry(change.status.clone().unwrap_or_default())
                    .or_default() += 1;
                by_status
            },
        );
    assert_eq!(by_status["Succeeded"], 205);
    assert_eq!(by_status["TimeOut"], 3);
}

#[test]
fn bad_scenarios_are_refused_with_a_reason() {
    let refused = |rest: Value| play(json!({"type": "All"}), rest).unwrap_err().to_string();
    for (rest, expected) in [
        (
            json!({"events": [{"at": "soon", "do": {"fail": "c1"}}]}),
            "events[0].at: \"soon\" is no time",
        ),
        (
            json!({"events": [{"at": "+1m", "do": {"fail": "c1"}}]}),
            "the script names the cluster c1, which is not there",
        ),
        (
            json!({"events": [{"at": "+1m", "do": {"delete": {"kind": "Policy", "name": "x"}}}]}),
            "the script names Policy x, which is not there",
        ),
        (
            json!({"clusters": [{"name": "c", "takes": "long"}]}),
            "clusters: c: ",
        ),
        (
            json!({"clusters": [{"name": "c", "count": 4_000_000}]}),
            "clusters: c: more than",
        ),
        (
            json!({"expect": [{"at": "+1m"}]}),
            "expect[0]: write either",
        ),
        (
            json!({"expect": [{"end": {"root": "Fine"}}]}),
            "expect[0]: \"Fine\" is no rollout status",
        ),
        (
            json!({"expect": [{"never": {"clusters": {"c": "sad"}}}]}),
            "expect[0]: \"sad\" is no state",
        ),
        (
            json!({"events": [{"at": "+1m", "do": {"edit": {"kind": "Policy", "name": "p", "merge": {"spec": {"disabled": 1}}}}}]}),
            "Policy p: spec.disabled: invalid type",
        ),
        (json!({"until": "never"}), "until: "),
        (
            json!({"until": "2026-11-14T10:00:00Z"}),
            "until: is before the start",
        ),
        (
            json!({"events": [{"at": "2026-11-14T10:00:00Z", "do": {"leave": []}}]}),
            "2026-11-14T10:00:00Z happens before the start",
        ),
        (
            json!({"expect": [{"at": "2026-11-14T10:00:00Z", "is": {"root": "Failed"}}]}),
            "expect[0]: is before the start",
        ),
        (
            json!({"clusters": [{"name": "c", "takes": "-5m"}]}),
            "clusters: c: takes less than no time",
        ),
    ] {
        let found = refused(rest.clone());
        assert!(found.starts_with(expected), "{rest}: {found}");
    }
    let unknown = serde_json::from_value::<Scenario>(json!({"start": "x", "sart": 1}));
    assert!(
        unknown
            .unwrap_err()
            .to_string()
            .contains("unknown field `sart`")
    );
}
