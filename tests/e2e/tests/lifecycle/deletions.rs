//! Deleting a policy in any state removes everything that belongs to it, and nothing is created again.

use serde_json::json;

use crate::modules;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![
    deleted_while_loading,
    deleted_while_changing,
    deleted_without_a_server,
    deleted_with_its_namespace,
];

const DENIAL: &str = "container trial is privileged";

#[track_caller]
fn delete(test_namespace: &TestNamespace) {
    let name = &test_namespace.name;
    test_namespace
        .k
        .ok(&format!("delete cap {name} --timeout=30s"));
    assert_eq!(test_namespace.revisions(), Vec::<serde_json::Value>::new());
    assert_eq!(test_namespace.try_pod(true), Ok(()));
}

/// Deletes a policy while its module is pulled from a server that never responds. A new policy with the same name
/// starts with its first generation.
fn deleted_while_loading(test_namespace: &TestNamespace) {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["module"] = json!(format!("http://{}/{}", modules::host(), modules::HANGS));
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until("scheduled", &test_namespace.path(), |policy| {
            let condition = &policy["status"]["conditions"][0];
            condition["type"] == "Scheduled" && condition["status"] == "True"
        });
    delete(test_namespace);
    test_namespace.apply(&test_namespace.policy("pod-privileged"));
    let status = test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Active", 1);
    assert!(status.get("history").is_none(), "{status}");
    test_namespace.enforces(DENIAL);
}

/// Deletes a policy with one generation that serves, one that failed, and one whose module is being pulled.
fn deleted_while_changing(test_namespace: &TestNamespace) {
    let mut policy = test_namespace.policy("pod-privileged");
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Active", 1);
    policy["spec"]["settings"] = json!({"skip": 1});
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Failed", 1);
    policy["spec"]["module"] = json!(format!("http://{}/{}", modules::host(), modules::HANGS));
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Updating", 1);
    test_namespace.enforces(DENIAL);
    delete(test_namespace);
}

fn deleted_without_a_server(test_namespace: &TestNamespace) {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!("nobody");
    test_namespace.apply(&policy);
    let status = test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Pending", None);
    assert_eq!(status["policyStatus"], "scheduled", "{status}");
    assert_eq!(
        status["conditions"][0]["reason"], "PolicyServerNotFound",
        "{status}"
    );
    delete(test_namespace);
}

/// An Event cannot be created in a terminating namespace, and the deletion does not depend on it.
fn deleted_with_its_namespace(test_namespace: &TestNamespace) {
    let name = &test_namespace.name;
    test_namespace.apply(&json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "module": modules::uri("pod-privileged"), "mutating": false,
            "rules": test_namespace.policy("pod-privileged")["spec"]["rules"],
        },
    }));
    let path = format!("namespaces/{name}/admissionpolicies/{name}");
    test_namespace.installation.until_phase(&path, "Active", 1);
    test_namespace.enforces(DENIAL);
    test_namespace
        .k
        .ok(&format!("delete namespace {name} --timeout=60s"));
    assert_eq!(test_namespace.revisions().len(), 0);
    let webhook =
        format!("get validatingwebhookconfiguration namespaced-{name}-{name} --ignore-not-found");
    assert_eq!(test_namespace.k.ok(&webhook), "");
}
