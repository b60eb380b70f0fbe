//! Every reason of a failed initialization, with its message, beside policies that serve.

use serde_json::{Value, json};

use super::test_cluster::{TestCluster, revision};
use crate::support::{METADATA, answering, write_guest};

/// A guest that answers this to everything, its settings included.
fn saying(answer: &str) -> String {
    let escaped: String = answer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    format!(
        r#"(module
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{escaped}")
  (func (export "__guest_call") (param i32 i32) (result i32)
    (call $response (i32.const 0) (i32.const {}))
    (i32.const 1)))"#,
        answer.len()
    )
}

/// A guest that never finishes looking at its settings.
const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "__guest_call") (param i32 i32) (result i32) (loop $again (br $again)) (i32.const 1)))"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_failure_has_its_reason() {
    let cluster = TestCluster::start().await;
    let folder = cluster.folder.path();
    let write = |name: &str, metadata: &str, text: &str| write_guest(folder, name, metadata, text);
    let fine = answering(r#"{"accepted":true}"#);
    let with = |fields: &str| METADATA.replacen('{', &format!("{{{fields},"), 1);
    let text = folder.join("text.wasm");
    std::fs::write(&text, "not a module").unwrap();
    let cut = folder.join("cut.wasm");
    std::fs::write(&cut, &wat::parse_str(&fine).unwrap()[..40]).unwrap();
    let single = |module: &str| json!({ "module": module });
    let yes = write("yes.wasm", METADATA, &fine);
    let group = |expression: &str, member: &str| json!({"expression": expression, "message": "no", "policies": {"m": {"module": member}}});

    let cases: Vec<(&str, Value, &str, &str)> = vec![
        (
            "missing",
            single("file:///no/such.wasm"),
            "PullError",
            "Cannot pull the policy from the registry. cannot read /no/such.wasm",
        ),
        (
            "refused",
            single("registry://127.0.0.1:1/policies/p:v1"),
            "PullError",
            "Cannot pull the policy from the registry. cannot reach 127.0.0.1:1",
        ),
        (
            "bad-scheme",
            single("ftp://x/y"),
            "ModuleInvalid",
            "The module reference is invalid: scheme \"ftp\" is not supported",
        ),
        (
            "bad-reference",
            single("registry://h.example/UPPER:v1"),
            "ModuleInvalid",
            "The module reference is invalid: ",
        ),
        (
            "bad-digest",
            single("registry://h.example/p@sha256:12"),
            "ModuleInvalid",
            "The module reference is invalid: ",
        ),
        (
            "text",
            single(&format!("file://{}", text.display())),
            "ModuleInvalid",
            "does not begin like a Wasm module",
        ),
        (
            "cut",
            single(&format!("file://{}", cut.display())),
            "ModuleInvalid",
            "not a valid Wasm module",
        ),
        (
            "no-metadata",
            single(&write("no-metadata.wasm", "{", &fine)),
            "MetadataInvalid",
            "cannot read the policy metadata",
        ),
        (
            "too-new",
            single(&write(
                "too-new.wasm",
                &with(r#""minimumKubewardenVersion":"99.0.0""#),
                &fine,
            )),
            "IncompatibleVersion",
            "Policy required Kubewarden version 99.0.0",
        ),
        (
            "capability",
            single(&write(
                "capability.wasm",
                &with(r#""hostCapabilities":["oci/v9/*"]"#),
                &fine,
            )),
            "CapabilityInvalid",
            "unknown host capability \"oci/v9/*\"",
        ),
        (
            "settings",
            single(&write(
                "settings.wasm",
                METADATA,
                &saying(r#"{"valid":false,"message":"a is missing"}"#),
            )),
            "SettingsInvalid",
            "Policy settings are invalid: a is missing",
        ),
        (
            "endless",
            json!({"module": write("endless.wasm", METADATA, ENDLESS), "timeoutEvalSeconds": 2}),
            "SettingsInvalid",
            "cannot validate the settings: guest code interrupted",
        ),
    ];
    let groups = [
        (
            "expression",
            group("m() && x()", &yes),
            "ExpressionInvalid",
            "there is no member x",
        ),
        (
            "member",
            group("m()", "file:///no/such.wasm"),
            "PullError",
            "Cannot pull the policy from the registry. m: cannot read /no/such.wasm",
        ),
    ];

    let replica = cluster.replica(0).await;
    let good = cluster.add("good", 1, &yes).await;
    let mut expected = Vec::new();
    for (name, spec, reason, words) in cases {
        let revision = revision("ClusterAdmissionPolicy", name, 1, spec);
        expected.push((cluster.add_object(revision).await, reason, words));
    }
    for (name, spec, reason, words) in groups {
        let revision = revision("ClusterAdmissionPolicyGroup", name, 1, spec);
        expected.push((cluster.add_object(revision).await, reason, words));
    }
    for (name, reason, words) in expected {
        cluster
            .until_conditions(
                &name,
                &format!("Scheduled=True/PolicyScheduled Initialized=False/{reason}"),
            )
            .await;
        let condition = cluster.condition(&name, "Initialized").await.unwrap();
        assert!(
            condition.message.contains(words),
            "{name}: {}",
            condition.message
        );
        assert_eq!(
            cluster.status(&name).await.initializer.unwrap().attempts,
            0,
            "{name}"
        );
    }
    cluster
        .until_answer(&replica, "clusterwide-good/1", (200, Some(true)))
        .await;
    cluster.until_ready(&replica).await;
    assert!(cluster.conditions(&good).await.contains("Ready[0]=True"));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_passes_is_tried_again_by_itself() {
    let cluster = TestCluster::start().await;
    let replica = cluster.replica(0).await;
    let later = cluster.folder.path().join("later.wasm");
    let uri = format!("file://{}", later.display());
    let revision = cluster.add("p", 1, &uri).await;
    cluster
        .until_conditions(
            &revision,
            "Scheduled=True/PolicyScheduled Initialized=False/PullError",
        )
        .await;
    assert_eq!(cluster.guest("later.wasm", true), uri);
    // The retry comes after five seconds at most.
    cluster
        .until_answer(&replica, "clusterwide-p/1", (200, Some(true)))
        .await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_ended_three_leaders_is_given_up() {
    let cluster = TestCluster::start().await;
    let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let scheduled = json!([{"type": "Scheduled", "status": "True", "reason": "PolicyScheduled", "generation": 1}]);
    cluster
        .set_status(
            &revision,
            json!({"conditions": scheduled, "initializer": {"attempts": 3}}),
        )
        .await;
    let replica = cluster.replica(0).await;
    cluster
        .until_conditions(
            &revision,
            "Scheduled=True/PolicyScheduled Initialized=False/ModuleInvalid",
        )
        .await;
    let condition = cluster.condition(&revision, "Initialized").await.unwrap();
    assert!(
        condition.message.contains("ended 3 times"),
        "{}",
        condition.message
    );
    // The failure does not count against the next generation.
    let next = cluster.add("p", 2, &cluster.guest("yes.wasm", true)).await;
    cluster
        .until_answer(&replica, "clusterwide-p/2", (200, Some(true)))
        .await;
    assert!(cluster.conditions(&next).await.contains("Initialized=True"));
    replica.stop().await;
}
