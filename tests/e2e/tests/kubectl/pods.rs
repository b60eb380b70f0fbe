//! Pods of `polity up`: policy servers as local processes, and the kubectl commands for them.

use std::path::Path;
use std::process::Output;

use e2e::polity::{self, folder};
use e2e::{Kubectl, Polity, eventually};
use peers::Tool;
use polity_runtime::procfs::is_running;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The Pods of the policy server, as a selector.
const PODS: &str = "-l kubewarden/policy-server=web";
const SET: &str = "statefulset/policy-server-web";

/// `polity up` with one policy server `web` of two replicas.
struct LocalCluster {
    folder: TempDir,
    server: Polity,
    /// In the namespace of policy servers.
    k: Kubectl,
}

impl LocalCluster {
    fn new() -> Option<Self> {
        let program = Tool::Kubectl.or_skip()?;
        let folder = folder();
        let server = up(folder.path());
        let k = Kubectl::new(&program, server.kubeconfig()).in_namespace("kubewarden");
        k.apply(&policy_server(2).to_string());
        let cluster = Self { folder, server, k };
        cluster.has_replicas(2);
        Some(cluster)
    }

    /// Waits until the StatefulSet has this number of replicas, all of them ready.
    fn has_replicas(&self, replicas: u32) {
        eventually("the controller has written the set", || {
            let found = self.k.ok(&format!(
                "get {SET} --ignore-not-found -o jsonpath={{.spec.replicas}}"
            ));
            (found == replicas.to_string()).then_some(())
        });
        self.k.ok(&format!("rollout status {SET} --timeout=110s"));
    }

    /// The process id of each Pod, from its container id.
    fn processes(&self) -> Vec<String> {
        let ids = self.k.ok(&format!(
            "get pods {PODS} -o 'jsonpath={{.items[*].status.containerStatuses[0].containerID}}'"
        ));
        let process = |id: &str| id.trim_start_matches("process://").to_owned();
        ids.split(' ').map(process).collect()
    }

    /// Runs `polity logs`. Returns the exit code and the output.
    fn logs(&self, line: &str) -> (Option<i32>, String) {
        let data_dir = self.folder.path().to_str().unwrap();
        let arguments = format!("logs {line} --data-dir {data_dir}");
        let Output {
            status,
            stdout,
            stderr,
        } = polity::run(self.folder.path(), arguments.split_whitespace());
        let output = [stdout, stderr].concat();
        (status.code(), String::from_utf8_lossy(&output).into_owned())
    }
}

/// Starts `polity up` without the default policy server, on a free port.
fn up(data_dir: &Path) -> Polity {
    let mut command = polity::command(data_dir);
    command.args([
        "up",
        "--no-policy-server",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
    ]);
    Polity::start(command.arg(data_dir)).unwrap_or_else(|exit| panic!("polity up: {exit:?}"))
}

fn policy_server(replicas: u32) -> Value {
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": "web"},
        "spec": {"image": "registry.example/polity:test", "replicas": replicas, "env": [
            {"name": "KUBEWARDEN_SHUTDOWN_DELAY", "value": "0s"},
            {"name": "KUBEWARDEN_LOG_LEVEL", "value": "info"},
            {"name": "KUBEWARDEN_LOG_FMT", "value": "json"},
        ]},
    })
}

#[test]
fn kubectl_sees_scales_and_restarts_pods_of_this_machine() {
    let Some(cluster) = LocalCluster::new() else {
        return;
    };
    let k = &cluster.k;
    let table = k.ok(&format!("get pods {PODS}"));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    assert_eq!(
        rows[1],
        ["policy-server-web-0", "1/1", "Running", "0"],
        "{table}"
    );
    assert_eq!(
        rows[2],
        ["policy-server-web-1", "1/1", "Running", "0"],
        "{table}"
    );
    let table = k.ok(&format!("get {SET}"));
    assert!(table.contains("2/2"), "{table}");
    let addresses = "get endpointslices -l kubernetes.io/service-name=policy-server-web -o 'jsonpath={.items[*].endpoints[*].addresses[*]}'";
    assert_eq!(k.ok(addresses), "127.0.0.1 127.0.0.1");
    let described = k.describe("pod policy-server-web-0");
    assert!(
        described.contains("Node: local") && described.contains("Ready True"),
        "{described}"
    );

    k.ok("scale policyserver web --replicas=3");
    cluster.has_replicas(3);
    k.ok("scale policyserver web --replicas=1");
    k.ok("wait --for=delete pod/policy-server-web-2 pod/policy-server-web-1 --timeout=110s");
    assert_eq!(k.field(SET, ".status.replicas"), "1");

    let before = cluster.processes();
    k.ok(&format!("rollout restart {SET}"));
    k.ok(&format!("rollout status {SET} --timeout=110s"));
    let after = cluster.processes();
    assert_ne!(before, after);
    assert!(!is_running(&before[0]) && is_running(&after[0]));

    k.ok("delete pod policy-server-web-0");
    k.ok(&format!("rollout status {SET} --timeout=110s"));
    k.ok("delete policyserver web");
    k.ok("wait --for=delete pod/policy-server-web-0 --timeout=110s");
    assert!(!is_running(&after[0]));
}

#[test]
fn kubectl_and_polity_print_pod_logs() {
    let Some(cluster) = LocalCluster::new() else {
        return;
    };
    let k = &cluster.k;
    let whole = k.ok("logs policy-server-web-0");
    let last = whole.lines().last().unwrap();
    assert!(last.starts_with('{'), "{whole}");
    assert_eq!(k.ok("logs policy-server-web-0 --tail=1"), last);
    let timed = k.ok("logs policy-server-web-0 --tail=1 --timestamps");
    assert!(timed.starts_with("20") && timed.ends_with(last), "{timed}");
    let both = k.ok(&format!("logs {PODS} --prefix --tail=1"));
    assert!(
        both.contains("pod/policy-server-web-0/") && both.contains("pod/policy-server-web-1/"),
        "{both}"
    );
    let output = k.fails("logs policy-server-web-0 --previous");
    assert!(output.contains("NotFound"), "{output}");

    assert_eq!(
        cluster.logs("policy-server-web-0 --tail 1"),
        (Some(0), format!("{last}\n"))
    );
    let (code, output) = cluster.logs("-n kubewarden --tail 1");
    assert_eq!((code, output.lines().count()), (Some(0), 2), "{output}");
    assert!(
        output.contains("policy-server-web-0 | {") && output.contains("policy-server-web-1 | {"),
        "{output}"
    );
    let (code, output) = cluster.logs("policy-server-web-9");
    assert_eq!(
        (code, output.contains("hint: ")),
        (Some(2), true),
        "{output}"
    );
    let (code, output) = cluster.logs("--policy-server none");
    assert_eq!(
        (code, output.contains("no such Pod")),
        (Some(1), true),
        "{output}"
    );

    // `logs -f` follows a process until it exits.
    let follower = k.start("logs -f policy-server-web-0 --tail=1");
    assert_eq!(follower.line(), last);
    k.ok("delete pod policy-server-web-0");
    assert_eq!(follower.finish().code, Some(0));
}

/// The Pods exit with the program, however it ends. Their objects are started again with the next start.
#[test]
fn pods_end_with_polity_and_come_back_with_it() {
    let Some(cluster) = LocalCluster::new() else {
        return;
    };
    let before = cluster.processes();
    assert!(before.len() == 2 && before.iter().all(is_running));
    let LocalCluster { folder, server, k } = cluster;
    server.kill();
    eventually("no process is left", || {
        before
            .iter()
            .all(|process| !is_running(process))
            .then_some(())
    });
    let server = up(folder.path());
    eventually("both run again", || {
        let path = "jsonpath={.items[*].status.containerStatuses[0].restartCount}";
        let restarts = k.ok(&format!("get pods {PODS} -o '{path}'"));
        (restarts == "1 1").then_some(())
    });
    k.ok(&format!("rollout status {SET} --timeout=110s"));
    let cluster = LocalCluster { folder, server, k };
    let after = cluster.processes();
    let exit = cluster.server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
    assert!(
        after.iter().all(|process| !is_running(process)),
        "{after:?}"
    );
}

/// A user with edit permissions in a namespace must not get a Pod that reads the administrator's credentials.
#[test]
fn a_pod_of_an_editor_is_not_run_and_an_event_says_why() {
    let Some(program) = Tool::Kubectl.or_skip() else {
        return;
    };
    let folder = folder();
    let server = up(folder.path());
    let admin = Kubectl::new(&program, server.kubeconfig());
    admin.ok("create namespace team");
    admin.ok("create rolebinding eve --clusterrole=edit --user=eve -n team");
    let k = admin.in_namespace("team").with("--as eve");
    let secret = folder.path().join("kubeconfig");
    let container = json!({
        "name": "c", "image": "polity", "args": ["template", "resolve", secret],
        "env": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}],
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief"},
        "spec": {"nodeName": "local", "containers": [container]},
    });
    k.apply(&pod.to_string());
    eventually("an event says why", || {
        let output = k.ok("get events --field-selector involvedObject.name=thief -o 'jsonpath={.items[*].message}'");
        output.contains("not run on this machine").then_some(())
    });
    assert_eq!(k.field("pod/thief", ".status.phase"), "Pending");
    let output = k.fails("logs thief");
    assert!(
        !output.contains("client-key") && !output.contains("token"),
        "{output}"
    );
    let described = k.describe("pod thief");
    assert!(
        described.contains("Warning") && described.contains("Forbidden"),
        "{described}"
    );
    k.ok("delete pod thief");
    let exit = server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
}
