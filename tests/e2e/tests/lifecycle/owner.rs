//! Item 17: the owner of a policy of one namespace, with rights there and nowhere else, follows it, understands it and
//! returns to an earlier generation.

use std::path::Path;

use e2e::{eventually, polity};
use serde_json::json;

use crate::modules;
use crate::scene::{Scene, scenarios};

scenarios![owner_of_one_namespace];

/// What a command of the owner says, and how it ends.
fn polity(scene: &Scene, kubeconfig: &Path, line: &str) -> (Option<i32>, String) {
    let line = line.replace("NAME", &scene.name);
    let mut command = polity::command(scene.stage.folder());
    command
        .args(line.split(' '))
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

fn owner_of_one_namespace(scene: &Scene) {
    let (stage, k, name) = (scene.stage, &scene.k, &scene.name);
    k.ok("create serviceaccount owner");
    k.ok("create role owner --verb=get,list,watch,create,update,patch,delete --resource=admissionpolicies.policies.kubewarden.io");
    k.ok("create role reader --verb=get,list,watch --resource=events,events.events.k8s.io");
    for role in ["owner", "reader"] {
        k.ok(&format!(
            "create rolebinding {role} --role={role} --serviceaccount={name}:owner"
        ));
    }
    let kubeconfig = stage.kubeconfig_of(name, "owner");
    let owner = k.with(&format!("--kubeconfig {}", kubeconfig.display()));
    let ours = |line: &str| polity(scene, &kubeconfig, line);

    let mut policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "module": modules::uri("pod-privileged"), "mutating": false,
            "rules": scene.policy("pod-privileged")["spec"]["rules"],
        },
    });
    owner.apply(&policy.to_string());
    let (code, said) = ours("policy wait NAME --for active");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ours("policy status NAME");
    assert!(
        code == Some(0) && said.contains("Active") && said.contains("replica"),
        "{said}"
    );

    policy["spec"]["settings"] = json!({"skip": 1});
    owner.apply(&policy.to_string());
    let (code, said) = ours("policy wait NAME --for active");
    assert_eq!(code, Some(1), "it has failed, and never will be: {said}");
    let (code, said) = ours("policy status NAME");
    assert_eq!(code, Some(1), "{said}");
    for words in ["Failed", "SettingsInvalid", "unknown field `skip`"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (code, said) = ours("policy history NAME");
    assert!(
        code == Some(0) && said.contains("Failed") && said.contains("Active"),
        "{said}"
    );
    scene.enforces("container trial is privileged");
    let (code, said) = ours("policy rollback NAME --wait");
    assert_eq!(code, Some(0), "{said}");
    let path = format!("namespaces/{name}/admissionpolicies/{name}");
    stage.until_phase(&path, "Active", 3);
    scene.enforces("container trial is privileged");

    // One Event for each transition.
    for reason in [
        "PolicyPending",
        "PolicyUpdating",
        "PolicyInitializationFailed",
        "PolicyRolledBack",
        "PolicyActive",
    ] {
        eventually(reason, || {
            owner.ok("get events").contains(reason).then_some(())
        });
    }
    for line in [
        "get policyrevisions -A",
        "get pods -n kubewarden",
        "logs -n kubewarden policy-server-default-0",
    ] {
        let refusal = owner.fails(line);
        assert!(refusal.contains("forbidden"), "{line}: {refusal}");
    }
}
