//! Modules from a real registry: a missing tag only breaks the update, and the policy recovers when the tag is pushed.

use std::fs;

use e2e::polity;
use peers::Tool;
use peers::registry::{Registry, Setup};
use serde_json::json;

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![embedded: updated_to_a_missing_tag];

/// Pushes one of our policies.
fn push(test_namespace: &TestNamespace, registry: &Registry, uri: &str) {
    let sources = test_namespace.installation.folder().join("sources.json");
    let content = json!({"insecure_sources": [registry.host()]});
    fs::write(&sources, content.to_string()).unwrap();
    let module = test_namespace.installation.module("pod-privileged");
    let mut command = polity::command(test_namespace.installation.folder());
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

fn updated_to_a_missing_tag(test_namespace: &TestNamespace) {
    if Tool::Registry.or_skip().is_none() {
        return;
    }
    let registry = Registry::start(Setup::default()).unwrap();
    let uri = |tag: &str| format!("registry://{}/policies/privileged:{tag}", registry.host());
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    test_namespace.server_with(
        &test_namespace.name,
        json!({"replicas": 1, "insecureSources": [registry.host()]}),
    );
    let policy = |tag: &str| {
        let mut policy = test_namespace.policy("pod-privileged");
        policy["spec"]["policyServer"] = json!(test_namespace.name);
        policy["spec"]["module"] = json!(uri(tag));
        policy["spec"]["message"] = json!(format!("by {tag}."));
        policy
    };
    push(test_namespace, &registry, &uri("v1"));
    test_namespace.apply(&policy("v1"));
    installation.until_phase(&path, "Active", 1);
    test_namespace.soon_enforces("by v1.");

    test_namespace.apply(&policy("v2"));
    let status = installation.until_phase(&path, "Failed", 1);
    let message = status["message"].as_str().unwrap();
    for words in [
        "PullError",
        registry.host(),
        "manifest unknown",
        "generation 1 is enforced",
    ] {
        assert!(message.contains(words), "{words:?} not in {message}");
    }
    test_namespace.enforces("by v1.");

    push(test_namespace, &registry, &uri("v2"));
    installation.until_phase(&path, "Active", 2);
    test_namespace.enforces("by v2.");
    let digest = |generation: u64| {
        let revisions = test_namespace.revisions();
        let revision = revisions
            .iter()
            .find(|one| one["spec"]["policyGeneration"] == generation);
        revision.unwrap()["status"]["modules"][0]["manifestDigest"].clone()
    };
    assert!(digest(2).is_string());
    assert_eq!(digest(1), digest(2), "the tags name the same module");
}
