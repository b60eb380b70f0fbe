//! Measures one reconcile of a root policy on a hub with many clusters: `cargo run --release -p polity-govern
//! --example bench`. Prints name, milliseconds and unit of each measurement.

use std::hint::black_box;

use jiff::Timestamp;
use peers::stopwatch::{best_of, report};
use polity_api::policy::v1;
use polity_core::ObjectKey;
use polity_core::rollout_strategy::GroupKey;
use polity_govern::hub::Hub;
use polity_govern::objects::{Binding, PlacementKind, PlacementRef, Policy};
use polity_govern::place::Decisions;
use polity_rollout::DecisionGroups;
use serde_json::{Value, json};

fn main() {
    for n_clusters in [1_000, 10_000, 100_000] {
        measure(n_clusters);
    }
}

fn measure(n_clusters: usize) {
    let mut hub = hub(n_clusters);
    let key = ObjectKey::namespaced("policies", "limits");
    let look = |hub: &Hub| {
        best_of(5, || {
            black_box(hub.plan(&key, now()));
        })
    };
    report(
        &format!("first look over {n_clusters} clusters"),
        look(&hub),
    );
    hub.settle(&key, now(), |_, _| {})
        .expect("the plan comes to rest");
    report(
        &format!("look at {n_clusters} clusters with the first group in flight"),
        look(&hub),
    );
}

fn now() -> Timestamp {
    Timestamp::constant(1_800_000_000, 0)
}

/// A hub with a policy that rolls out in groups of 50.
fn hub(n_clusters: usize) -> Hub {
    let groups = (0..n_clusters).step_by(50).map(|first| {
        let end = n_clusters.min(first + 50);
        let names = (first..end).map(|number| format!("cluster-{number:06}"));
        (GroupKey::new((first / 50) as u32, ""), names)
    });
    let mut hub = Hub::default();
    let policy = policy();
    hub.policies.insert(policy.key(), policy);
    hub.bindings.push(binding());
    hub.decisions.push(Decisions {
        namespace: "policies".to_owned(),
        placement: PlacementRef {
            name: "fleet".to_owned(),
            kind: PlacementKind::Placement,
        },
        groups: DecisionGroups::gather(groups),
        settled: true,
    });
    hub
}

fn policy() -> Policy {
    let template = |number: u32| {
        json!({"objectDefinition": {
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "ConfigurationPolicy",
            "metadata": {"name": format!("limits-{number}")},
            "spec": {
                "severity": "low",
                "object-templates": [{
                    "complianceType": "musthave",
                    "objectDefinition": {
                        "apiVersion": "v1",
                        "kind": "LimitRange",
                        "metadata": {"name": "limits", "namespace": "default"},
                        "spec": {"limits": [{"type": "Container", "default": {"memory": "512Mi"}}]},
                    },
                }],
            },
        }})
    };
    let templates: Vec<Value> = (0..3).map(template).collect();
    let wire: v1::Policy = polity_api::decode(&json!({
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "Policy",
        "metadata": {"name": "limits", "namespace": "policies", "uid": "uid"},
        "spec": {
            "disabled": false,
            "remediationAction": "enforce",
            "policy-templates": templates,
            "rolloutStrategy": {
                "type": "ProgressivePerGroup",
                "progressivePerGroup": {"minSuccessTime": "5m", "progressDeadline": "1h"},
            },
        },
    }))
    .expect("a policy");
    Policy::from(&wire)
}

fn binding() -> Binding {
    let wire: v1::PlacementBinding = polity_api::decode(&json!({
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "PlacementBinding",
        "metadata": {"name": "limits", "namespace": "policies"},
        "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "fleet"},
        "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "limits"}],
    }))
    .expect("a binding");
    Binding::from(&wire)
}
