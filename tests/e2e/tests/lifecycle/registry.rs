//! Modules from a real registry: a tag that is not there breaks the update and nothing else, and passes by itself
//! (19.3 rows 8 and 20, 19.4, items 4 and 5).

use std::fs;

use e2e::polity;
use peers::Tool;
use peers::registry::{Registry, Setup};
use serde_json::json;

use crate::scene::{Scene, scenarios};

scenarios![embedded: updated_to_a_tag_that_is_not_there];

/// Publishes one of our own policies.
fn push(scene: &Scene, registry: &Registry, uri: &str) {
    let sources = scene.stage.folder().join("sources.json");
    let content = json!({"insecure_sources": [registry.host()]});
    fs::write(&sources, content.to_string()).unwrap();
    let module = scene.stage.module("pod-privileged");
    let mut command = polity::command(scene.stage.folder());
    command
        .args([
            "policy",
            "push",
            module.strip_prefix("file://").unwrap(),
            uri,
        ])
        .arg("--sources-path")
        .arg(&sources);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn updated_to_a_tag_that_is_not_there(scene: &Scene) {
    if Tool::Registry.or_leave_out().is_none() {
        return;
    }
    let registry = Registry::start(Setup::default()).unwrap();
    let uri = |tag: &str| format!("registry://{}/policies/privileged:{tag}", registry.host());
    let (stage, path) = (scene.stage, scene.path());
    scene.server_with(
        &scene.name,
        json!({"replicas": 1, "insecureSources": [registry.host()]}),
    );
    let policy = |tag: &str| {
        let mut policy = scene.policy("pod-privileged");
        policy["spec"]["policyServer"] = json!(scene.name);
        policy["spec"]["module"] = json!(uri(tag));
        policy["spec"]["message"] = json!(format!("by {tag}."));
        policy
    };
    push(scene, &registry, &uri("v1"));
    scene.apply(&policy("v1"));
    stage.until_phase(&path, "Active", 1);
    scene.soon_enforces("by v1.");

    scene.apply(&policy("v2"));
    let status = stage.until_phase(&path, "Failed", 1);
    let message = status["message"].as_str().unwrap();
    for words in [
        "PullError",
        registry.host(),
        "manifest unknown",
        "generation 1 is enforced",
    ] {
        assert!(message.contains(words), "{words:?} not in {message}");
    }
    scene.enforces("by v1.");

    push(scene, &registry, &uri("v2"));
    stage.until_phase(&path, "Active", 2);
    scene.enforces("by v2.");
    let digest = |generation: u64| {
        let revisions = scene.revisions();
        let revision = revisions
            .iter()
            .find(|one| one["spec"]["policyGeneration"] == generation);
        revision.unwrap()["status"]["modules"][0]["manifestDigest"].clone()
    };
    assert!(digest(2).is_string());
    assert_eq!(digest(1), digest(2), "the tags name the same module");
}
