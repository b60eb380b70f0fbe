//! The state right after `polity up`: a running policy server, sample policies in monitor mode, and the commands from
//! the banner that make one protect.

use e2e::polity::folder;
use e2e::{Kubectl, Polity, eventually};
use peers::Tool;

const TRIAL: &str = "run trial --image=busybox:latest --privileged --dry-run=server";
const PROTECT: &str =
    r#"patch clusteradmissionpolicy pod-privileged --type=merge -p '{"spec":{"mode":"protect"}}'"#;

fn phases(k: &Kubectl) -> String {
    k.ok("get clusteradmissionpolicies -o 'jsonpath={.items[*].status.phase}'")
}

#[test]
fn samples_monitor_until_one_is_set_to_protect() {
    let Some(program) = Tool::Kubectl.or_skip() else {
        return;
    };
    let folder = folder();
    let server = Polity::up(folder.path());
    let k = Kubectl::new(&program, server.kubeconfig());
    k.ok("get policyserver default");
    eventually("the policy server is there", || {
        let set = "get statefulset policy-server-default -n kubewarden --ignore-not-found -o name";
        (!k.ok(set).is_empty()).then_some(())
    });
    k.ok("rollout status statefulset/policy-server-default -n kubewarden --timeout=110s");
    let n_samples = k.ok("get clusteradmissionpolicies -o name").lines().count();
    if n_samples == 0 {
        eprintln!("LEFT OUT: this build has no sample policies; cargo xtask policies makes them");
        return;
    }
    eventually("all samples are active", || {
        (phases(&k) == vec!["Active"; n_samples].join(" ")).then_some(())
    });
    k.ok(TRIAL);
    k.ok(PROTECT);
    let output = eventually("it protects", || {
        let outcome = k.run(TRIAL, "");
        (outcome.code != Some(0)).then_some(outcome.stderr)
    });
    assert!(output.contains("clusterwide-pod-privileged"), "{output}");

    // Samples that the user deleted or changed are not restored.
    k.ok("delete clusteradmissionpolicy host-namespaces");
    let exit = server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
    let _server = Polity::up(folder.path());
    let names = k.ok("get clusteradmissionpolicies -o name");
    assert!(!names.contains("host-namespaces"), "{names}");
    eventually("it protects again", || {
        (k.run(TRIAL, "").code != Some(0)).then_some(())
    });
}
