//! The other kinds: policies of a namespace, and groups of both scopes, one of them with a bad member (item 34).

use serde_json::{Value, json};

use crate::modules;
use crate::scene::{Scene, scenarios};

scenarios![
    policy_of_a_namespace,
    group_of_a_namespace,
    group_of_the_cluster,
];

/// A policy or group of this scene, with these fields beside those that all have.
fn of_kind(scene: &Scene, kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind,
        "metadata": {"name": scene.name, "namespace": scene.name},
        "spec": {"rules": scene.policy("pod-privileged")["spec"]["rules"]},
    });
    let fields = object["spec"].as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    object
}

/// Two members that both have to agree.
fn group() -> Value {
    json!({
        "expression": "unprivileged() && apart()",
        "message": "not by this group",
        "policies": {
            "unprivileged": {"module": modules::uri("pod-privileged")},
            "apart": {"module": modules::uri("host-namespaces")},
        },
    })
}

fn policy_of_a_namespace(scene: &Scene) {
    let path = format!("namespaces/{0}/admissionpolicies/{0}", scene.name);
    let spec = json!({"module": modules::uri("pod-privileged"), "mutating": false});
    let mut policy = of_kind(scene, "AdmissionPolicy", spec);
    scene.apply(&policy);
    scene.stage.until_phase(&path, "Active", 1);
    scene.enforces("container trial is privileged");
    // Of another namespace it sees nothing.
    scene
        .k
        .in_namespace("default")
        .ok("run trial --image=busybox:1 --privileged --dry-run=server");
    // A policy of a namespace can choose neither the server's own files nor hosts that only the server reaches.
    let own = scene.stage.module("pod-privileged");
    for (module, reason) in [
        (own.as_str(), "ModuleInvalid"),
        ("http://169.254.169.254/module.wasm", "PullError"),
    ] {
        policy["spec"]["module"] = json!(module);
        scene.apply(&policy);
        let status = scene.stage.until_phase(&path, "Failed", 1);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    policy["spec"]["module"] = json!(modules::uri("host-namespaces"));
    scene.apply(&policy);
    scene.stage.until_phase(&path, "Active", 4);
    assert_eq!(scene.try_pod(true), Ok(()));
    scene
        .k
        .ok(&format!("delete ap {} --timeout=60s", scene.name));
    assert_eq!(scene.revisions().len(), 0);
}

fn group_of_a_namespace(scene: &Scene) {
    let path = format!("namespaces/{0}/admissionpolicygroups/{0}", scene.name);
    scene.apply(&of_kind(scene, "AdmissionPolicyGroup", group()));
    scene.stage.until_phase(&path, "Active", 1);
    scene.enforces("not by this group");
}

fn group_of_the_cluster(scene: &Scene) {
    let path = format!("clusteradmissionpolicygroups/{}", scene.name);
    let mut group = of_kind(scene, "ClusterAdmissionPolicyGroup", group());
    group["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    group["spec"]["namespaceSelector"] =
        scene.policy("pod-privileged")["spec"]["namespaceSelector"].clone();
    scene.apply(&group);
    scene.stage.until_phase(&path, "Active", 1);
    scene.enforces("not by this group");

    // One member does not like its settings: the group as it was serves on.
    let members = group["spec"]["policies"].clone();
    group["spec"]["policies"]["apart"]["settings"] = json!({"unheard": 1});
    scene.apply(&group);
    let status = scene.stage.until_phase(&path, "Failed", 1);
    let conditions = status["conditions"].as_array().unwrap();
    let failed = conditions
        .iter()
        .find(|one| one["status"] == "False" && one["type"] == "Initialized");
    let message = failed.unwrap()["message"].as_str().unwrap();
    assert!(
        message.starts_with("apart: ") && message.contains("unheard"),
        "{message}"
    );
    scene.enforces("not by this group");
    let rollback = "kubewarden.io/rollback-to-generation=1";
    scene
        .k
        .ok(&format!("annotate capg {} {rollback}", scene.name));
    scene.stage.until_phase(&path, "Active", 3);
    assert_eq!(
        scene.stage.read(&path).unwrap()["spec"]["policies"],
        members
    );
    scene.enforces("not by this group");
}
