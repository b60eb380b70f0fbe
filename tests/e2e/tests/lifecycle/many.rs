//! Many policies at once, and two that an older release would have taken for one (items 12, 16 and 21).

use std::thread;

use e2e::eventually;
use serde_json::{Value, json};

use crate::modules;
use crate::scene::{Scene, scenarios};

scenarios![fifty_at_once, equal_names];

/// Fifty created, ten changed, all deleted, each time together: the replica stays the process that it was.
fn fifty_at_once(scene: &Scene) {
    let (stage, name) = (scene.stage, &scene.name);
    scene.server(name, 1);
    let replicas = || -> Vec<(Value, Value)> {
        let pods = stage.pods(name).into_values();
        pods.map(|pod| {
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            (pod["metadata"]["uid"].clone(), restarts.clone())
        })
        .collect()
    };
    let before = replicas();
    for (n_policies, message, generation) in [(50, "first", 1), (10, "second", 2)] {
        let names: Vec<String> = (0..n_policies).map(|n| format!("{name}-{n}")).collect();
        let policies = names.iter().map(|one| {
            let mut policy = scene.policy("pod-privileged");
            policy["metadata"] = json!({"name": one, "labels": {"scene": name}});
            policy["spec"]["policyServer"] = json!(name);
            policy["spec"]["message"] = json!(message);
            policy
        });
        let policies: Vec<Value> = policies.collect();
        scene.apply(&json!({"apiVersion": "v1", "kind": "List", "items": policies}));
        for one in &names {
            let path = format!("clusteradmissionpolicies/{one}");
            stage.until_phase(&path, "Active", generation);
        }
    }
    // Any of them may be the one that answers.
    scene.enforces("");
    scene
        .k
        .ok(&format!("delete cap -l scene={name} --timeout=120s"));
    assert_eq!(scene.try_pod(true), Ok(()));
    assert_eq!(replicas(), before);
}

/// Item 12: `a-b` in `c` and `b-c` in `a` have one classic name. Both work, and neither judges for the other.
fn equal_names(scene: &Scene) {
    let (stage, name) = (scene.stage, &scene.name);
    let other = Scene {
        name: format!("{name}-b"),
        k: scene.k.in_namespace(&format!("{name}-b")),
        stage,
    };
    other.k.ok(&format!("create namespace {}", other.name));
    eventually("the namespace has its ServiceAccount", || {
        stage.get(&format!(
            "/api/v1/namespaces/{}/serviceaccounts/default",
            other.name
        ))
    });
    let policy = |namespace: &str, name: &str| {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "module": modules::uri("pod-privileged"), "mutating": false,
                "message": format!("by the policy of {namespace}"),
                "rules": scene.policy("pod-privileged")["spec"]["rules"],
            },
        })
    };
    // Not one after the other.
    thread::scope(|both| {
        both.spawn(|| scene.apply(&policy(name, "b-c")));
        other.apply(&policy(&other.name, "c"));
    });
    let paths = [
        format!("namespaces/{name}/admissionpolicies/b-c"),
        format!("namespaces/{}/admissionpolicies/c", other.name),
    ];
    for path in &paths {
        stage.until_phase(path, "Active", 1);
    }
    scene.enforces(&format!("by the policy of {name}"));
    other.enforces(&format!("by the policy of {name}-b"));
    scene.k.ok("delete ap b-c --timeout=60s");
    assert_eq!(scene.try_pod(true), Ok(()));
    other.enforces(&format!("by the policy of {name}-b"));
    let mut changed = policy(&other.name, "c");
    changed["spec"]["message"] = json!("as of the second generation");
    other.apply(&changed);
    stage.until_phase(&paths[1], "Active", 2);
    other.enforces("as of the second generation");
}
