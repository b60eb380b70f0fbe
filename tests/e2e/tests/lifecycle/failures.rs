//! A generation that fails in any step of its rollout: the previous generation keeps serving, the status shows the
//! reason, and the next generation starts from the beginning.

use std::fs;

use e2e::eventually;
use serde_json::{Value, json};

use crate::modules;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![broken_at_each_step, broken_from_the_beginning,];

const DENIAL: &str = "container trial is privileged";

/// A guest that never returns.
const ENDLESS: &str = r#"(module
  (@custom "io.kubewarden.metadata"
    "{\"protocolVersion\":\"v1\",\"rules\":[],\"mutating\":false,\"executionMode\":\"kubewarden-wapc\"}")
  (memory (export "memory") 1)
  (func (export "__guest_call") (param i32 i32) (result i32) (loop $again (br $again)) (i32.const 1)))"#;

/// Broken specs with the reason and a part of the message.
fn broken(test_namespace: &TestNamespace) -> Vec<(Value, &'static str, &'static str)> {
    let good = test_namespace.policy("pod-privileged")["spec"].clone();
    let with = |field: &str, value: Value| {
        let mut spec = good.clone();
        spec[field] = value;
        spec
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = test_namespace
            .installation
            .folder()
            .join(format!("{}-{name}", test_namespace.name));
        fs::write(&path, bytes).unwrap();
        json!(format!("file://{}", path.display()))
    };
    let module = test_namespace.installation.module("pod-privileged");
    let whole = fs::read(module.strip_prefix("file://").unwrap()).unwrap();
    let corrupt = write("corrupt.wasm", &whole[..whole.len() / 2]);
    let endless = write("endless.wasm", &wat::parse_str(ENDLESS).unwrap());
    let nowhere = json!(format!("http://{}/no-such-module.wasm", modules::host()));
    vec![
        (
            with("module", json!("file:///no/such/module.wasm")),
            "PullError",
            "/no/such/module.wasm",
        ),
        (with("module", nowhere), "PullError", "404"),
        (with("module", corrupt), "ModuleInvalid", ""),
        (
            with("settings", json!({"skip": 1})),
            "SettingsInvalid",
            "unknown field `skip`",
        ),
        (with("module", endless), "SettingsInvalid", ""),
    ]
}

fn broken_at_each_step(test_namespace: &TestNamespace) {
    let installation = test_namespace.installation;
    let mut policy = test_namespace.policy("pod-privileged");
    test_namespace.apply(&policy);
    installation.until_phase(&test_namespace.path(), "Active", 1);
    let good = policy["spec"].clone();
    let broken = broken(test_namespace);
    for (spec, reason, words) in &broken {
        policy["spec"] = spec.clone();
        test_namespace.apply(&policy);
        let status = installation.until_phase(&test_namespace.path(), "Failed", 1);
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains(reason)
                && message.contains(words)
                && message.contains("generation 1 is enforced"),
            "{message}"
        );
        let conditions = status["conditions"].as_array().unwrap();
        let failed = conditions
            .iter()
            .find(|one| one["type"] == "Initialized" && one["status"] == "False");
        assert_eq!(failed.unwrap()["reason"], *reason, "{status}");
        assert_eq!(status["policyStatus"], "active", "{status}");
        test_namespace.enforces(DENIAL);
    }
    policy["spec"] = good;
    test_namespace.apply(&policy);
    let last = broken.len() as u64 + 2;
    let status = installation.until_phase(&test_namespace.path(), "Active", last);
    test_namespace.enforces(DENIAL);
    let history = status["history"].as_array().unwrap().iter();
    let results: Vec<_> = history.map(|one| one["result"].as_str().unwrap()).collect();
    let failed = vec!["Failed"; broken.len()];
    assert_eq!(results, [failed, vec!["Active"]].concat(), "{status}");
}

fn broken_from_the_beginning(test_namespace: &TestNamespace) {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["settings"] = json!({"skip": 1});
    test_namespace.apply(&policy);
    let status = test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Failed", None);
    assert_eq!(
        (&status["policyStatus"], &status["mode"]),
        (&json!("pending"), &json!("unknown")),
        "{status}"
    );
    // Without a serving generation, Pods are neither checked nor refused.
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    eventually("there is an Event", || {
        let events = test_namespace
            .installation
            .get("/apis/events.k8s.io/v1/namespaces/default/events")?;
        let of_ours = |event: &&Value| event["regarding"]["name"] == json!(test_namespace.name);
        let mut events = events["items"].as_array()?.iter().filter(of_ours);
        events
            .find(|event| {
                event["reason"] == "PolicyInitializationFailed" && event["type"] == "Warning"
            })
            .map(drop)
    });
    policy["spec"]["settings"] = json!({});
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Active", 2);
    test_namespace.enforces(DENIAL);
}
