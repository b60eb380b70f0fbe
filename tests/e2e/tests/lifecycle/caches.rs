//! Where replicas keep modules: in the claim of their server, which the other scenarios have, each for itself, or in a
//! claim that several servers share (19.9, item 36). And servers that nothing is kept for yet.

use e2e::stage::NAMESPACE;
use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};

scenarios![
    a_cache_of_each_replica,
    a_claim_of_two_servers,
    asked_for_signatures
];

/// A policy of this name on the server of this name.
fn policy(scene: &Scene, name: &str, message: &str) -> Value {
    let mut policy = scene.policy("pod-privileged");
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["policyServer"] = json!(name);
    policy["spec"]["message"] = json!(message);
    policy
}

/// Loads, changes, and loads again in a replica that lost everything.
fn a_cache_of_each_replica(scene: &Scene) {
    let (stage, path, name) = (scene.stage, scene.path(), &scene.name);
    scene.server_with(name, json!({"replicas": 2, "cache": {"ephemeral": true}}));
    scene.replicas_are_ready(name, 2);
    scene.apply(&policy(scene, name, "first"));
    stage.until_phase(&path, "Active", 1);
    scene.apply(&policy(scene, name, "second"));
    stage.until_phase(&path, "Active", 2);
    scene.enforces("second");
    let pod = format!("policy-server-{name}-1");
    let uid = |pod: &str| {
        stage
            .pods(name)
            .get(pod)
            .map(|pod| pod["metadata"]["uid"].clone())
    };
    let before = uid(&pod);
    scene
        .k
        .in_namespace(NAMESPACE)
        .ok(&format!("delete pod {pod} --timeout=60s"));
    e2e::eventually("another is in its place", || {
        uid(&pod).filter(|now| Some(now) != before.as_ref())
    });
    scene.replicas_are_ready(name, 2);
    scene.soon_enforces("second");
}

/// Neither reads the other's files, or stands in its way.
fn a_claim_of_two_servers(scene: &Scene) {
    let (stage, first) = (scene.stage, scene.name.as_str());
    let second = format!("{first}-2");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": first},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    scene.k.in_namespace(NAMESPACE).apply(&claim.to_string());
    for name in [first, &second] {
        scene.server_with(
            name,
            json!({"replicas": 1, "cache": {"existingClaim": first}}),
        );
        scene.apply(&policy(scene, name, &format!("by {name}.")));
    }
    for name in [first, &second] {
        stage.until_phase(&format!("clusteradmissionpolicies/{name}"), "Active", 1);
    }
    scene.soon_enforces("by ");
    scene.k.ok(&format!("delete cap {first} --timeout=60s"));
    scene
        .k
        .ok(&format!("delete policyserver {first} --timeout=60s"));
    scene.soon_enforces(&format!("by {second}."));
}

/// Signatures are not verified yet: what asks for it is not served.
fn asked_for_signatures(scene: &Scene) {
    let name = &scene.name;
    scene.server_with(
        name,
        json!({"replicas": 1, "verificationConfig": "trusted"}),
    );
    scene.apply(&policy(scene, name, "unverified"));
    let status = scene.stage.until_phase(&scene.path(), "Pending", None);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("asks for signatures"), "{message}");
    scene
        .stage
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
    assert!(scene.stage.pods(name).is_empty());
    assert_eq!(scene.try_pod(true), Ok(()));
}
