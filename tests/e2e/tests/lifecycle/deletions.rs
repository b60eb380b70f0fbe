//! Policies that are deleted, in whatever state they are: nothing is left of them, and nothing comes back (19.3 row 23,
//! items 11 and 23).

use serde_json::json;

use crate::modules;
use crate::scene::{Scene, scenarios};

scenarios![
    deleted_while_loading,
    deleted_while_changing,
    deleted_without_a_server,
    deleted_with_its_namespace,
];

const WORDS: &str = "container trial is privileged";

#[track_caller]
fn delete(scene: &Scene) {
    let name = &scene.name;
    scene.k.ok(&format!("delete cap {name} --timeout=30s"));
    assert_eq!(scene.revisions(), Vec::<serde_json::Value>::new());
    assert_eq!(scene.try_pod(true), Ok(()));
}

/// While pulling, which goes on for ever. The same name is another policy then, from its first generation on.
fn deleted_while_loading(scene: &Scene) {
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["module"] = json!(format!("http://{}/{}", modules::host(), modules::HANGS));
    scene.apply(&policy);
    scene.stage.until("scheduled", &scene.path(), |policy| {
        let condition = &policy["status"]["conditions"][0];
        condition["type"] == "Scheduled" && condition["status"] == "True"
    });
    delete(scene);
    scene.apply(&scene.policy("pod-privileged"));
    let status = scene.stage.until_phase(&scene.path(), "Active", 1);
    assert!(status.get("history").is_none(), "{status}");
    scene.enforces(WORDS);
}

/// With one generation that serves, one that failed, and one that is pulled.
fn deleted_while_changing(scene: &Scene) {
    let mut policy = scene.policy("pod-privileged");
    scene.apply(&policy);
    scene.stage.until_phase(&scene.path(), "Active", 1);
    policy["spec"]["settings"] = json!({"skip": 1});
    scene.apply(&policy);
    scene.stage.until_phase(&scene.path(), "Failed", 1);
    policy["spec"]["module"] = json!(format!("http://{}/{}", modules::host(), modules::HANGS));
    scene.apply(&policy);
    scene.stage.until_phase(&scene.path(), "Updating", 1);
    scene.enforces(WORDS);
    delete(scene);
}

fn deleted_without_a_server(scene: &Scene) {
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!("nobody");
    scene.apply(&policy);
    let status = scene.stage.until_phase(&scene.path(), "Pending", None);
    assert_eq!(status["policyStatus"], "scheduled", "{status}");
    assert_eq!(
        status["conditions"][0]["reason"], "PolicyServerNotFound",
        "{status}"
    );
    delete(scene);
}

/// Nobody can write an Event into a namespace that goes, and nobody has to.
fn deleted_with_its_namespace(scene: &Scene) {
    let name = &scene.name;
    scene.apply(&json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "module": modules::uri("pod-privileged"), "mutating": false,
            "rules": scene.policy("pod-privileged")["spec"]["rules"],
        },
    }));
    let path = format!("namespaces/{name}/admissionpolicies/{name}");
    scene.stage.until_phase(&path, "Active", 1);
    scene.enforces(WORDS);
    scene
        .k
        .ok(&format!("delete namespace {name} --timeout=60s"));
    assert_eq!(scene.revisions().len(), 0);
    let webhook =
        format!("get validatingwebhookconfiguration namespaced-{name}-{name} --ignore-not-found");
    assert_eq!(scene.k.ok(&webhook), "");
}
