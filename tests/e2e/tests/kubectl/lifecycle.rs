//! An admission policy on `polity up` is enforced until it is deleted, also after the whole process tree was killed.
//! `tests/lifecycle` covers policies in detail.

use e2e::polity::folder;
use e2e::{Kubectl, Polity, eventually};
use peers::Tool;
use serde_json::json;

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

fn enforces(k: &Kubectl) {
    let output = k.fails(PRIVILEGED);
    assert!(output.contains("container trial is privileged"), "{output}");
    k.ok(ORDINARY);
}

#[test]
fn a_policy_outlives_the_process_tree() {
    let (Some(program), Some(policies)) = (Tool::Kubectl.or_skip(), Tool::Policies.or_skip())
    else {
        return;
    };
    let module = format!("file://{}", policies.join("pod-privileged.wasm").display());
    let folder = folder();
    let server = Polity::up(folder.path());
    let k = Kubectl::new(&program, server.kubeconfig());
    k.apply(&policy(&module));
    k.ok(&format!(
        "wait clusteradmissionpolicy/{NAME} --for=jsonpath={{.status.phase}}=Active --timeout=60s"
    ));
    enforces(&k);

    // After a kill and a restart, the policy is enforced without user action.
    server.kill();
    let server = Polity::up(folder.path());
    let k = Kubectl::new(&program, server.kubeconfig());
    eventually("it is enforced again", || {
        let outcome = k.run(PRIVILEGED, "");
        let words = "container trial is privileged";
        outcome.stderr.contains(words).then_some(())
    });
    enforces(&k);

    // After the deletion, no object of the policy is left.
    k.ok(&format!(
        "delete clusteradmissionpolicy {NAME} --timeout=60s"
    ));
    k.ok(PRIVILEGED);
    let left = k.ok("get policyrevisions -A -o name");
    assert!(!left.contains(NAME), "{left}");
}
