//! Policies of each guest type over HTTPS: allowed, denied, mutated.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::client::{pod, review};
use crate::server::{Home, ours, wapc};

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

/// A guest that allows a request if the host can resolve `localhost`.
const ASKING: &str = r#"
    (data (i32.const 0) "kubewardennetv1/dns_lookup_host\"localhost\"")
    (data (i32.const 100) "{\"accepted\":true}")
    (data (i32.const 200) "{\"accepted\":false}")
    (func $validate
      (if (call $host_call (i32.const 0) (i32.const 10) (i32.const 10) (i32.const 3) (i32.const 13) (i32.const 18)
            (i32.const 31) (i32.const 11))
        (then (call $response (i32.const 100) (i32.const 17)))
        (else (call $response (i32.const 200) (i32.const 18)))))"#;

#[tokio::test]
async fn host_calls_are_granted_and_refused() {
    let home = Home::new("");
    let module = home.write_guest("asking.wasm", &wapc(ASKING));
    home.write_policies(&format!(
        "granted: {{module: '{module}', hostCapabilities: ['net/*']}}
refused: {{module: '{module}', hostCapabilities: []}}"
    ));
    let server = home.start(&[]);
    let client = server.client();
    for _ in 0..5 {
        let granted = client.response("granted", &pod("nginx:1", false)).await;
        assert_eq!(granted["allowed"], true, "{granted}");
        let refused = client.response("refused", &pod("nginx:1", false)).await;
        assert_eq!(refused["allowed"], false, "{refused}");
    }
}
