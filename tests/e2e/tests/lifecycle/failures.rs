//! A generation that cannot be: at each step of its way in, the one before goes on serving, the owner reads why, and the
//! next generation starts over (19.3 rows 7 and 8, 19.4, item 4).

use std::fs;

use e2e::eventually;
use serde_json::{Value, json};

use crate::modules;
use crate::scene::{Scene, scenarios};

scenarios![broken_at_each_step, broken_from_the_beginning,];

const WORDS: &str = "container trial is privileged";

/// A guest that never comes back, whatever it is asked.
const ENDLESS: &str = r#"(module
  (@custom "io.kubewarden.metadata"
    "{\"protocolVersion\":\"v1\",\"rules\":[],\"mutating\":false,\"executionMode\":\"kubewarden-wapc\"}")
  (memory (export "memory") 1)
  (func (export "__guest_call") (param i32 i32) (result i32) (loop $again (br $again)) (i32.const 1)))"#;

/// The specs that fail, with the reason and words of the message.
fn broken(scene: &Scene) -> Vec<(Value, &'static str, &'static str)> {
    let good = scene.policy("pod-privileged")["spec"].clone();
    let with = |field: &str, value: Value| {
        let mut spec = good.clone();
        spec[field] = value;
        spec
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = scene.stage.folder().join(format!("{}-{name}", scene.name));
        fs::write(&path, bytes).unwrap();
        json!(format!("file://{}", path.display()))
    };
    let module = scene.stage.module("pod-privileged");
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

fn broken_at_each_step(scene: &Scene) {
    let stage = scene.stage;
    let mut policy = scene.policy("pod-privileged");
    scene.apply(&policy);
    stage.until_phase(&scene.path(), "Active", 1);
    let good = policy["spec"].clone();
    let broken = broken(scene);
    for (spec, reason, words) in &broken {
        policy["spec"] = spec.clone();
        scene.apply(&policy);
        let status = stage.until_phase(&scene.path(), "Failed", 1);
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
        scene.enforces(WORDS);
    }
    policy["spec"] = good;
    scene.apply(&policy);
    let last = broken.len() as u64 + 2;
    let status = stage.until_phase(&scene.path(), "Active", last);
    scene.enforces(WORDS);
    let history = status["history"].as_array().unwrap().iter();
    let results: Vec<_> = history.map(|one| one["result"].as_str().unwrap()).collect();
    let failed = vec!["Failed"; broken.len()];
    assert_eq!(results, [failed, vec!["Active"]].concat(), "{status}");
}

fn broken_from_the_beginning(scene: &Scene) {
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["settings"] = json!({"skip": 1});
    scene.apply(&policy);
    let status = scene.stage.until_phase(&scene.path(), "Failed", None);
    assert_eq!(
        (&status["policyStatus"], &status["mode"]),
        (&json!("pending"), &json!("unknown")),
        "{status}"
    );
    // Nothing is enforced, and nothing refused either.
    assert_eq!(scene.try_pod(true), Ok(()));
    eventually("an Event tells", || {
        let events = scene
            .stage
            .get("/apis/events.k8s.io/v1/namespaces/default/events")?;
        let of_ours = |event: &&Value| event["regarding"]["name"] == json!(scene.name);
        let mut events = events["items"].as_array()?.iter().filter(of_ours);
        events
            .find(|event| {
                event["reason"] == "PolicyInitializationFailed" && event["type"] == "Warning"
            })
            .map(drop)
    });
    policy["spec"]["settings"] = json!({});
    scene.apply(&policy);
    scene.stage.until_phase(&scene.path(), "Active", 2);
    scene.enforces(WORDS);
}
