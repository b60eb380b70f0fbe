//! Module caches: a volume per replica, and a claim that several servers share. The other scenarios use one claim per
//! server.

use e2e::installation::NAMESPACE;
use serde_json::{Value, json};

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![
    a_cache_of_each_replica,
    a_claim_of_two_servers,
    signatures_required
];

/// A policy with this name on the policy server with the same name.
fn policy(test_namespace: &TestNamespace, name: &str, message: &str) -> Value {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["policyServer"] = json!(name);
    policy["spec"]["message"] = json!(message);
    policy
}

/// A replica with an ephemeral cache loads a policy, loads a change, and loads both again after it lost its cache.
fn a_cache_of_each_replica(test_namespace: &TestNamespace) {
    let (installation, path, name) = (
        test_namespace.installation,
        test_namespace.path(),
        &test_namespace.name,
    );
    test_namespace.server_with(name, json!({"replicas": 2, "cache": {"ephemeral": true}}));
    test_namespace.replicas_are_ready(name, 2);
    test_namespace.apply(&policy(test_namespace, name, "first"));
    installation.until_phase(&path, "Active", 1);
    test_namespace.apply(&policy(test_namespace, name, "second"));
    installation.until_phase(&path, "Active", 2);
    test_namespace.enforces("second");
    let pod = format!("policy-server-{name}-1");
    let uid = |pod: &str| {
        installation
            .pods(name)
            .get(pod)
            .map(|pod| pod["metadata"]["uid"].clone())
    };
    let before = uid(&pod);
    test_namespace
        .k
        .in_namespace(NAMESPACE)
        .ok(&format!("delete pod {pod} --timeout=60s"));
    e2e::eventually("another is in its place", || {
        uid(&pod).filter(|now| Some(now) != before.as_ref())
    });
    test_namespace.replicas_are_ready(name, 2);
    test_namespace.soon_enforces("second");
}

/// Two servers that share a claim do not read or disturb each other's files.
fn a_claim_of_two_servers(test_namespace: &TestNamespace) {
    let (installation, first) = (test_namespace.installation, test_namespace.name.as_str());
    let second = format!("{first}-2");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": first},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    test_namespace
        .k
        .in_namespace(NAMESPACE)
        .apply(&claim.to_string());
    for name in [first, &second] {
        test_namespace.server_with(
            name,
            json!({"replicas": 1, "cache": {"existingClaim": first}}),
        );
        test_namespace.apply(&policy(test_namespace, name, &format!("by {name}.")));
    }
    for name in [first, &second] {
        installation.until_phase(&format!("clusteradmissionpolicies/{name}"), "Active", 1);
    }
    test_namespace.soon_enforces("by ");
    test_namespace
        .k
        .ok(&format!("delete cap {first} --timeout=60s"));
    test_namespace
        .k
        .ok(&format!("delete policyserver {first} --timeout=60s"));
    test_namespace.soon_enforces(&format!("by {second}."));
}

/// Signature verification is not implemented yet, so a server that requires it does not serve policies.
fn signatures_required(test_namespace: &TestNamespace) {
    let name = &test_namespace.name;
    test_namespace.server_with(
        name,
        json!({"replicas": 1, "verificationConfig": "trusted"}),
    );
    test_namespace.apply(&policy(test_namespace, name, "unverified"));
    let status = test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Pending", None);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("asks for signatures"), "{message}");
    test_namespace
        .installation
        .until("it says why", &format!("policyservers/{name}"), |server| {
            let conditions = server["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let mut told = conditions.filter(|one| one["status"] == "False");
            told.any(|one| {
                one["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("verificationConfig"))
            })
        });
    assert!(test_namespace.installation.pods(name).is_empty());
    assert_eq!(test_namespace.try_pod(true), Ok(()));
}
