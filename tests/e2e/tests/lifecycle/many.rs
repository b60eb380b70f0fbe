//! Many policies at the same time, and two policies that had the same name in older releases.

use std::thread;

use e2e::eventually;
use serde_json::{Value, json};

use crate::modules;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![fifty_at_once, equal_names];

/// Creates fifty policies, changes ten and deletes all, each time concurrently. The replica is not restarted.
fn fifty_at_once(test_namespace: &TestNamespace) {
    let (installation, name) = (test_namespace.installation, &test_namespace.name);
    test_namespace.server(name, 1);
    let replicas = || -> Vec<(Value, Value)> {
        let pods = installation.pods(name).into_values();
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
            let mut policy = test_namespace.policy("pod-privileged");
            policy["metadata"] = json!({"name": one, "labels": {"test_namespace": name}});
            policy["spec"]["policyServer"] = json!(name);
            policy["spec"]["message"] = json!(message);
            policy
        });
        let policies: Vec<Value> = policies.collect();
        test_namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": policies}));
        for one in &names {
            let path = format!("clusteradmissionpolicies/{one}");
            installation.until_phase(&path, "Active", generation);
        }
    }
    // Any of the policies may deny the Pod.
    test_namespace.enforces("");
    test_namespace.k.ok(&format!(
        "delete cap -l test_namespace={name} --timeout=120s"
    ));
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    assert_eq!(replicas(), before);
}

/// `a-b` in namespace `c` and `b-c` in namespace `a` had the same unique name in older releases. Both work, and each
/// applies only to its own namespace.
fn equal_names(test_namespace: &TestNamespace) {
    let (installation, name) = (test_namespace.installation, &test_namespace.name);
    let other = TestNamespace {
        name: format!("{name}-b"),
        k: test_namespace.k.in_namespace(&format!("{name}-b")),
        installation,
    };
    other.k.ok(&format!("create namespace {}", other.name));
    eventually("the namespace has its ServiceAccount", || {
        installation.get(&format!(
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
                "rules": test_namespace.policy("pod-privileged")["spec"]["rules"],
            },
        })
    };
    // Concurrently, not in sequence.
    thread::scope(|both| {
        both.spawn(|| test_namespace.apply(&policy(name, "b-c")));
        other.apply(&policy(&other.name, "c"));
    });
    let paths = [
        format!("namespaces/{name}/admissionpolicies/b-c"),
        format!("namespaces/{}/admissionpolicies/c", other.name),
    ];
    for path in &paths {
        installation.until_phase(path, "Active", 1);
    }
    test_namespace.enforces(&format!("by the policy of {name}"));
    other.enforces(&format!("by the policy of {name}-b"));
    test_namespace.k.ok("delete ap b-c --timeout=60s");
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    other.enforces(&format!("by the policy of {name}-b"));
    let mut changed = policy(&other.name, "c");
    changed["spec"]["message"] = json!("as of the second generation");
    other.apply(&changed);
    installation.until_phase(&paths[1], "Active", 2);
    other.enforces("as of the second generation");
}
