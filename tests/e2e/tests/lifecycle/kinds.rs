//! The other policy kinds: namespaced policies, and groups of both scopes, including a group with an invalid member.

use serde_json::{Value, json};

use crate::modules;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![
    policy_of_a_namespace,
    group_of_a_namespace,
    group_of_the_cluster,
];

/// A policy or group in this namespace, with these fields in addition to the common ones.
fn of_kind(test_namespace: &TestNamespace, kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind,
        "metadata": {"name": test_namespace.name, "namespace": test_namespace.name},
        "spec": {"rules": test_namespace.policy("pod-privileged")["spec"]["rules"]},
    });
    let fields = object["spec"].as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    object
}

/// A group of two members that both have to allow a request.
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

fn policy_of_a_namespace(test_namespace: &TestNamespace) {
    let path = format!("namespaces/{0}/admissionpolicies/{0}", test_namespace.name);
    let spec = json!({"module": modules::uri("pod-privileged"), "mutating": false});
    let mut policy = of_kind(test_namespace, "AdmissionPolicy", spec);
    test_namespace.apply(&policy);
    test_namespace.installation.until_phase(&path, "Active", 1);
    test_namespace.enforces("container trial is privileged");
    // A namespaced policy does not apply to other namespaces.
    test_namespace
        .k
        .in_namespace("default")
        .ok("run trial --image=busybox:1 --privileged --dry-run=server");
    // A namespaced policy cannot use files of the server, or hosts that only the server can reach.
    let own = test_namespace.installation.module("pod-privileged");
    for (module, reason) in [
        (own.as_str(), "ModuleInvalid"),
        ("http://169.254.169.254/module.wasm", "PullError"),
    ] {
        policy["spec"]["module"] = json!(module);
        test_namespace.apply(&policy);
        let status = test_namespace.installation.until_phase(&path, "Failed", 1);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    policy["spec"]["module"] = json!(modules::uri("host-namespaces"));
    test_namespace.apply(&policy);
    test_namespace.installation.until_phase(&path, "Active", 4);
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    test_namespace
        .k
        .ok(&format!("delete ap {} --timeout=60s", test_namespace.name));
    assert_eq!(test_namespace.revisions().len(), 0);
}

fn group_of_a_namespace(test_namespace: &TestNamespace) {
    let path = format!(
        "namespaces/{0}/admissionpolicygroups/{0}",
        test_namespace.name
    );
    test_namespace.apply(&of_kind(test_namespace, "AdmissionPolicyGroup", group()));
    test_namespace.installation.until_phase(&path, "Active", 1);
    test_namespace.enforces("not by this group");
}

fn group_of_the_cluster(test_namespace: &TestNamespace) {
    let path = format!("clusteradmissionpolicygroups/{}", test_namespace.name);
    let mut group = of_kind(test_namespace, "ClusterAdmissionPolicyGroup", group());
    group["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    group["spec"]["namespaceSelector"] =
        test_namespace.policy("pod-privileged")["spec"]["namespaceSelector"].clone();
    test_namespace.apply(&group);
    test_namespace.installation.until_phase(&path, "Active", 1);
    test_namespace.enforces("not by this group");

    // One member rejects its settings: the previous generation of the group keeps serving.
    let members = group["spec"]["policies"].clone();
    group["spec"]["policies"]["apart"]["settings"] = json!({"unheard": 1});
    test_namespace.apply(&group);
    let status = test_namespace.installation.until_phase(&path, "Failed", 1);
    let conditions = status["conditions"].as_array().unwrap();
    let failed = conditions
        .iter()
        .find(|one| one["status"] == "False" && one["type"] == "Initialized");
    let message = failed.unwrap()["message"].as_str().unwrap();
    assert!(
        message.starts_with("apart: ") && message.contains("unheard"),
        "{message}"
    );
    test_namespace.enforces("not by this group");
    let rollback = "kubewarden.io/rollback-to-generation=1";
    test_namespace
        .k
        .ok(&format!("annotate capg {} {rollback}", test_namespace.name));
    test_namespace.installation.until_phase(&path, "Active", 3);
    assert_eq!(
        test_namespace.installation.read(&path).unwrap()["spec"]["policies"],
        members
    );
    test_namespace.enforces("not by this group");
}
