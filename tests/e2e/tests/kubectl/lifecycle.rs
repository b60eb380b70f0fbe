//! The life of an admission policy as its owner sees it, on `polity up`: created, changed, broken, rolled back, moved to
//! more replicas, and there again after the whole process tree was killed.

use e2e::polity::folder;
use e2e::{Kubectl, Polity, eventually};
use peers::Tool;
use serde_json::{Value, json};

const NAME: &str = "no-privileged-pods";
const PRIVILEGED: &str = "run trial --image=busybox:1 --privileged --dry-run=server";
const ORDINARY: &str = "run trial --image=busybox:1 --dry-run=server";

fn policy(module: &str) -> String {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
    });
    let policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {"module": module, "mutating": false, "rules": [rule]},
    });
    policy.to_string()
}

fn status(k: &Kubectl) -> Value {
    let text = k.ok(&format!("get clusteradmissionpolicy {NAME} -o json"));
    let mut policy: Value = serde_json::from_str(&text).unwrap();
    policy["status"].take()
}

/// Waits until the policy is in a phase, with a generation that serves.
#[track_caller]
fn until(k: &Kubectl, phase: &str, serving: u64) -> Value {
    eventually(&format!("{phase} with generation {serving}"), || {
        let status = status(k);
        (status["phase"] == phase && status["servingGeneration"] == serving).then_some(status)
    })
}

/// Who says so for which replicas, of one generation.
fn ready(status: &Value, generation: u64) -> Vec<(u64, String)> {
    let conditions = status["conditions"].as_array().unwrap();
    let of =
        |condition: &&Value| condition["type"] == "Ready" && condition["generation"] == generation;
    conditions
        .iter()
        .filter(of)
        .map(|condition| {
            let replica = condition["replica"].as_u64().unwrap();
            (replica, condition["status"].as_str().unwrap().to_owned())
        })
        .collect()
}

fn enforces(k: &Kubectl) {
    let said = k.fails(PRIVILEGED);
    assert!(said.contains("container trial is privileged"), "{said}");
    k.ok(ORDINARY);
}

#[test]
fn a_policy_is_created_changed_broken_and_rolled_back() {
    let (Some(program), Some(policies)) =
        (Tool::Kubectl.or_leave_out(), Tool::Policies.or_leave_out())
    else {
        return;
    };
    let module = format!("file://{}", policies.join("pod-privileged.wasm").display());
    let folder = folder();
    let server = Polity::up(folder.path());
    let k = Kubectl::new(&program, server.kubeconfig());

    // Created: pending, then active, then it counts.
    k.apply(&policy(&module));
    let active = until(&k, "Active", 1);
    assert_eq!(ready(&active, 1), [(0, "True".to_owned())], "{active}");
    assert_eq!(active["policyStatus"], "active");
    k.ok(&format!(
        "wait clusteradmissionpolicy/{NAME} --for=condition=PolicyActive --timeout=60s"
    ));
    enforces(&k);

    // Broken: the generation before goes on, and the owner reads why.
    k.apply(&policy("file:///no/such/module.wasm"));
    let failed = until(&k, "Failed", 1);
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("PullError")
            && message.contains("/no/such/module.wasm")
            && message.contains("generation 1 is enforced"),
        "{message}"
    );
    enforces(&k);

    // Rolled back: the same content as a new generation.
    k.ok(&format!(
        "annotate clusteradmissionpolicy {NAME} kubewarden.io/rollback-to-generation=1"
    ));
    until(&k, "Active", 3);
    let spec = k.ok(&format!(
        "get clusteradmissionpolicy {NAME} -o jsonpath={{.spec.module}}"
    ));
    assert_eq!(spec, module);
    enforces(&k);
    for reason in [
        "PolicyActive",
        "PolicyInitializationFailed",
        "PolicyRolledBack",
    ] {
        eventually(reason, || k.ok("get events").contains(reason).then_some(()));
    }

    // More replicas: each says for itself that it is ready, and the policy stays active.
    k.ok("patch policyserver default --type=merge -p '{\"spec\":{\"replicas\":3}}'");
    let three: Vec<_> = (0..3).map(|replica| (replica, "True".to_owned())).collect();
    let scaled = eventually("three replicas are ready", || {
        let status = status(&k);
        (ready(&status, 3) == three).then_some(status)
    });
    assert_eq!(scaled["phase"], "Active", "{scaled}");
    enforces(&k);

    // Killed and started again: nobody has to do anything.
    server.kill();
    let server = Polity::up(folder.path());
    let k = Kubectl::new(&program, server.kubeconfig());
    eventually("it is enforced again", || {
        let outcome = k.run(PRIVILEGED, "");
        outcome
            .stderr
            .contains("container trial is privileged")
            .then_some(())
    });
    until(&k, "Active", 3);

    // Deleted: nothing is left of it.
    k.ok(&format!(
        "delete clusteradmissionpolicy {NAME} --timeout=60s"
    ));
    k.ok(PRIVILEGED);
    let left = k.ok("get policyrevisions -A -o name");
    assert!(!left.contains(NAME), "{left}");
}
