//! One of each kind of guest, over HTTPS: accepted, refused, mutated.

use crate::client::{pod, review};
use crate::server::{Home, ours};
use base64::Engine as _;
use serde_json::{Value, json};

#[tokio::test]
async fn a_wapc_guest_in_rust() {
    let Some(module) = ours("pod-privileged") else {
        return;
    };
    let server = Home::new(&format!("p: {{module: '{module}'}}")).start(&[]);
    let client = server.client();
    let fine = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(fine["allowed"], true, "{fine}");
    assert_eq!(fine["uid"], "u-1");
    let refused = client.response("p", &pod("nginx:1", true)).await;
    assert_eq!(refused["allowed"], false, "{refused}");
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("privileged"), "{message}");
}

#[tokio::test]
async fn a_wapc_guest_in_assemblyscript() {
    let Some(module) = ours("default-namespace") else {
        return;
    };
    let server = Home::new(&format!("p: {{module: '{module}'}}")).start(&[]);
    let client = server.client();
    let refused = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(refused["allowed"], false, "{refused}");
    let mut elsewhere = review(&pod("nginx:1", false));
    elsewhere["request"]["namespace"] = json!("shop");
    let (_, fine) = client.post("/validate/p", &elsewhere).await.unwrap();
    assert_eq!(fine["response"]["allowed"], true, "{fine}");
}

#[tokio::test]
async fn a_wasi_guest() {
    let Some(module) = ours("image-tags") else {
        return;
    };
    let policies =
        format!("p: {{module: '{module}', hostCapabilities: [], settings: {{refused: [latest]}}}}");
    let server = Home::new(&policies).start(&[]);
    let client = server.client();
    let fine = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(fine["allowed"], true, "{fine}");
    assert!(fine["warnings"].is_array(), "{fine}");
    let refused = client.response("p", &pod("nginx:latest", false)).await;
    assert_eq!(refused["allowed"], false, "{refused}");
}

#[tokio::test]
async fn a_mutating_guest() {
    let Some(module) = ours("required-metadata") else {
        return;
    };
    let policies = format!(
        "p: {{module: '{module}', allowedToMutate: true, settings: {{labels: {{defaults: {{tier: back}}}}}}}}"
    );
    let server = Home::new(&policies).start(&[]);
    let response = server.client().response("p", &pod("nginx:1", false)).await;
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert!(patch.to_string().contains("back"), "{patch}");
}

#[tokio::test]
async fn a_raw_guest_and_a_group() {
    let (Some(raw), Some(privileged), Some(probes)) =
        (ours("raw-access"), ours("pod-privileged"), ours("probes"))
    else {
        return;
    };
    let policies = format!(
        "raw: {{module: '{raw}', settings: {{rules: [{{name: readers, users: ['*'], actions: [read], resources: [docs]}}]}}}}
both:
  expression: probes() && unprivileged()
  message: not ready for production
  policies: {{probes: {{module: '{probes}'}}, unprivileged: {{module: '{privileged}'}}}}"
    );
    let server = Home::new(&policies).start(&[]);
    let client = server.client();
    let question =
        json!({"request": {"uid": "r-1", "user": "ann", "action": "write", "resource": "docs"}});
    let (status, answer) = client.post("/validate_raw/raw", &question).await.unwrap();
    assert_eq!(
        (status, &answer["response"]["allowed"]),
        (200, &json!(false)),
        "{answer}"
    );
    assert!(answer.get("apiVersion").is_none());
    let refused = client.response("both", &pod("nginx:1", true)).await;
    assert_eq!(refused["status"]["message"], "not ready for production");
    let alone = client
        .response("both%2Funprivileged", &pod("nginx:1", false))
        .await;
    assert_eq!(alone["allowed"], true, "{alone}");
}
