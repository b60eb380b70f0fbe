//! Pods of `polity up`: policy servers as processes of this machine, and all that kubectl does with them.

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

/// `polity up` with a policy server `web` of two replicas, and no other.
struct World {
    folder: TempDir,
    server: Polity,
    /// In the namespace of policy servers.
    k: Kubectl,
}

impl World {
    fn new() -> Option<Self> {
        let program = Tool::Kubectl.or_leave_out()?;
        let folder = folder();
        let server = up(folder.path());
        let k = Kubectl::new(&program, server.kubeconfig()).in_namespace("kubewarden");
        k.apply(&policy_server(2).to_string());
        let world = Self { folder, server, k };
        world.has_replicas(2);
        Some(world)
    }

    /// Waits until the set has so many replicas, all of them ready.
    fn has_replicas(&self, replicas: u32) {
        eventually("the controller has written the set", || {
            let found = self.k.ok(&format!(
                "get {SET} --ignore-not-found -o jsonpath={{.spec.replicas}}"
            ));
            (found == replicas.to_string()).then_some(())
        });
        self.k.ok(&format!("rollout status {SET} --timeout=110s"));
    }

    /// The process of each Pod, as its container id says.
    fn processes(&self) -> Vec<String> {
        let ids = self.k.ok(&format!(
            "get pods {PODS} -o 'jsonpath={{.items[*].status.containerStatuses[0].containerID}}'"
        ));
        let process = |id: &str| id.trim_start_matches("process://").to_owned();
        ids.split(' ').map(process).collect()
    }

    /// `polity logs`, and whether it was content.
    fn logs(&self, line: &str) -> (Option<i32>, String) {
        let data_dir = self.folder.path().to_str().unwrap();
        let arguments = format!("logs {line} --data-dir {data_dir}");
        let Output {
            status,
            stdout,
            stderr,
        } = polity::run(self.folder.path(), arguments.split_whitespace());
        let said = [stdout, stderr].concat();
        (status.code(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Without the default policy server, on a port that is free.
fn up(data_dir: &Path) -> Polity {
    let mut command = polity::command(data_dir);
    command.args([
        "up",
        "--no-policy-server",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
    ]);
    Polity::start(command.arg(data_dir)).unwrap_or_else(|ended| panic!("polity up: {ended:?}"))
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
    let Some(world) = World::new() else { return };
    let k = &world.k;
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
    world.has_replicas(3);
    k.ok("scale policyserver web --replicas=1");
    k.ok("wait --for=delete pod/policy-server-web-2 pod/policy-server-web-1 --timeout=110s");
    assert_eq!(k.field(SET, ".status.replicas"), "1");

    let before = world.processes();
    k.ok(&format!("rollout restart {SET}"));
    k.ok(&format!("rollout status {SET} --timeout=110s"));
    let after = world.processes();
    assert_ne!(before, after);
    assert!(!is_running(&before[0]) && is_running(&after[0]));

    k.ok("delete pod policy-server-web-0");
    k.ok(&format!("rollout status {SET} --timeout=110s"));
    k.ok("delete policyserver web");
    k.ok("wait --for=delete pod/policy-server-web-0 --timeout=110s");
    assert!(!is_running(&after[0]));
}

#[test]
fn what_pods_say_is_read_by_kubectl_and_by_polity() {
    let Some(world) = World::new() else { return };
    let k = &world.k;
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
    let said = k.fails("logs policy-server-web-0 --previous");
    assert!(said.contains("NotFound"), "{said}");

    assert_eq!(
        world.logs("policy-server-web-0 --tail 1"),
        (Some(0), format!("{last}\n"))
    );
    let (code, said) = world.logs("-n kubewarden --tail 1");
    assert_eq!((code, said.lines().count()), (Some(0), 2), "{said}");
    assert!(
        said.contains("policy-server-web-0 | {") && said.contains("policy-server-web-1 | {"),
        "{said}"
    );
    let (code, said) = world.logs("policy-server-web-9");
    assert_eq!((code, said.contains("hint: ")), (Some(2), true), "{said}");
    let (code, said) = world.logs("--policy-server none");
    assert_eq!(
        (code, said.contains("no such Pod")),
        (Some(1), true),
        "{said}"
    );

    // A follower hears a process to its end.
    let follower = k.start("logs -f policy-server-web-0 --tail=1");
    assert_eq!(follower.line(), last);
    k.ok("delete pod policy-server-web-0");
    assert_eq!(follower.finish().code, Some(0));
}

/// However the program ends, so do its Pods; what is there at the next start runs anew.
#[test]
fn pods_end_with_polity_and_come_back_with_it() {
    let Some(world) = World::new() else { return };
    let before = world.processes();
    assert!(before.len() == 2 && before.iter().all(is_running));
    let World { folder, server, k } = world;
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
    let world = World { folder, server, k };
    let after = world.processes();
    let ended = world.server.interrupt();
    assert!(ended.status.success(), "{ended:?}");
    assert!(
        after.iter().all(|process| !is_running(process)),
        "{after:?}"
    );
}

/// The namespaced editor of the hostile kind: its Pod would read the administrator's credentials.
#[test]
fn a_pod_of_an_editor_is_not_run_and_an_event_says_why() {
    let Some(program) = Tool::Kubectl.or_leave_out() else {
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
        let said = k.ok("get events --field-selector involvedObject.name=thief -o 'jsonpath={.items[*].message}'");
        said.contains("not run on this machine").then_some(())
    });
    assert_eq!(k.field("pod/thief", ".status.phase"), "Pending");
    let said = k.fails("logs thief");
    assert!(
        !said.contains("client-key") && !said.contains("token"),
        "{said}"
    );
    let described = k.describe("pod thief");
    assert!(
        described.contains("Warning") && described.contains("Forbidden"),
        "{described}"
    );
    k.ok("delete pod thief");
    let ended = server.interrupt();
    assert!(ended.status.success(), "{ended:?}");
}
