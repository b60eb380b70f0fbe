//! A user with permissions in one namespace only can follow, understand and roll back the policy in it.

use std::path::Path;

use e2e::{eventually, polity};
use serde_json::json;

use crate::modules;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![owner_of_one_namespace];

/// Runs `polity` as the owner. Returns the exit code and the output.
fn polity(test_namespace: &TestNamespace, kubeconfig: &Path, line: &str) -> (Option<i32>, String) {
    let line = line.replace("NAME", &test_namespace.name);
    let mut command = polity::command(test_namespace.installation.folder());
    command
        .args(line.split(' '))
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&printed).into_owned(),
    )
}

fn owner_of_one_namespace(test_namespace: &TestNamespace) {
    let (installation, k, name) = (
        test_namespace.installation,
        &test_namespace.k,
        &test_namespace.name,
    );
    k.ok("create serviceaccount owner");
    k.ok("create role owner --verb=get,list,watch,create,update,patch,delete --resource=admissionpolicies.policies.kubewarden.io");
    k.ok("create role reader --verb=get,list,watch --resource=events,events.events.k8s.io");
    for role in ["owner", "reader"] {
        k.ok(&format!(
            "create rolebinding {role} --role={role} --serviceaccount={name}:owner"
        ));
    }
    let kubeconfig = installation.kubeconfig_of(name, "owner");
    let owner = k.with(&format!("--kubeconfig {}", kubeconfig.display()));
    let ours = |line: &str| polity(test_namespace, &kubeconfig, line);

    let mut policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "module": modules::uri("pod-privileged"), "mutating": false,
            "rules": test_namespace.policy("pod-privileged")["spec"]["rules"],
        },
    });
    owner.apply(&policy.to_string());
    let (code, printed) = ours("policy wait NAME --for active");
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = ours("policy status NAME");
    assert!(
        code == Some(0) && printed.contains("Active") && printed.contains("replica"),
        "{printed}"
    );

    policy["spec"]["settings"] = json!({"skip": 1});
    owner.apply(&policy.to_string());
    let (code, printed) = ours("policy wait NAME --for active");
    assert_eq!(code, Some(1), "it has failed, and never will be: {printed}");
    let (code, printed) = ours("policy status NAME");
    assert_eq!(code, Some(1), "{printed}");
    for words in ["Failed", "SettingsInvalid", "unknown field `skip`"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    let (code, printed) = ours("policy history NAME");
    assert!(
        code == Some(0) && printed.contains("Failed") && printed.contains("Active"),
        "{printed}"
    );
    test_namespace.enforces("container trial is privileged");
    let (code, printed) = ours("policy rollback NAME --wait");
    assert_eq!(code, Some(0), "{printed}");
    let path = format!("namespaces/{name}/admissionpolicies/{name}");
    installation.until_phase(&path, "Active", 3);
    test_namespace.enforces("container trial is privileged");

    // Exactly one Event per transition.
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
