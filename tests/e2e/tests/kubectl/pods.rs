//! Pods of `polity up`: policy servers as processes of this machine, and all that kubectl does with them.

use std::process::Output;

use e2e::polity::{self, folder};
use e2e::{Kubectl, Polity, eventually};
use peers::Tool;
use serde_json::{Value, json};
use tempfile::TempDir;

/// `polity up` with a set of two policy servers without policies.
struct World {
    folder: TempDir,
    server: Polity,
    k: Kubectl,
}

impl World {
    fn new() -> Option<Self> {
        let program = Tool::Kubectl.or_leave_out()?;
        let folder = folder();
        let server = Polity::up(folder.path());
        let k = Kubectl::new(&program, server.kubeconfig());
        k.apply(&objects(2).to_string());
        k.ok("rollout status statefulset/web --timeout=110s");
        Some(Self { folder, server, k })
    }

    /// The process of each Pod, as its container id says.
    fn processes(&self) -> Vec<String> {
        let ids = self.k.ok(
            "get pods -l app=web -o 'jsonpath={.items[*].status.containerStatuses[0].containerID}'",
        );
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

/// A set of standalone policy servers, in the shape that servers of a cluster have.
fn objects(replicas: u32) -> Value {
    let labels = json!({"app": "web", "app.kubernetes.io/component": "policy-server"});
    let env = json!([
        {"name": "KUBEWARDEN_PORT", "value": "8443"},
        {"name": "KUBEWARDEN_READINESS_PROBE_PORT", "value": "8081"},
        {"name": "KUBEWARDEN_STANDALONE", "value": "true"},
        {"name": "KUBEWARDEN_POLICIES", "value": "/config/policies.yml"},
        {"name": "KUBEWARDEN_POLICIES_DOWNLOAD_DIR", "value": "/tmp"},
        {"name": "KUBEWARDEN_SHUTDOWN_DELAY", "value": "0s"},
        {"name": "KUBEWARDEN_LOG_LEVEL", "value": "info"},
        {"name": "KUBEWARDEN_LOG_FMT", "value": "json"},
    ]);
    let container = json!({
        "name": "policy-server", "image": "registry.example/polity:test", "command": ["polity", "server"],
        "env": env, "ports": [{"name": "policy-server", "containerPort": 8443}],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}, {"name": "tmp", "mountPath": "/tmp"}],
        "readinessProbe": {"httpGet": {"path": "/readiness", "port": 8081}, "periodSeconds": 1},
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "web"}}, {"name": "tmp", "emptyDir": {}}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"policies.yml": "{}\n"}},
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 443, "targetPort": 8443}]},
        },
        {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "serviceName": "web", "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]})
}

fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // One that nobody has collected yet is dead all the same.
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn kubectl_sees_scales_and_restarts_pods_of_this_machine() {
    let Some(world) = World::new() else { return };
    let k = &world.k;
    let table = k.ok("get pods -l app=web");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    assert_eq!(rows[1], ["web-0", "1/1", "Running", "0"], "{table}");
    assert_eq!(rows[2], ["web-1", "1/1", "Running", "0"], "{table}");
    let table = k.ok("get statefulset web");
    assert!(table.contains("2/2"), "{table}");
    let addresses = "get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath={.items[*].endpoints[*].addresses[*]}'";
    assert_eq!(k.ok(addresses), "127.0.0.1 127.0.0.1");
    let described = k.describe("pod web-0");
    assert!(
        described.contains("Node: local") && described.contains("Ready True"),
        "{described}"
    );

    k.ok("scale statefulset web --replicas=3");
    k.ok("rollout status statefulset/web --timeout=110s");
    k.ok("scale statefulset web --replicas=1");
    k.ok("wait --for=delete pod/web-2 pod/web-1 --timeout=110s");
    assert_eq!(k.field("statefulset/web", ".status.replicas"), "1");

    let before = world.processes();
    k.ok("rollout restart statefulset/web");
    k.ok("rollout status statefulset/web --timeout=110s");
    let after = world.processes();
    assert_ne!(before, after);
    assert!(!is_alive(&before[0]) && is_alive(&after[0]));

    k.ok("delete pod web-0");
    k.ok("rollout status statefulset/web --timeout=110s");
    k.ok("delete statefulset web");
    k.ok("wait --for=delete pod/web-0 --timeout=110s");
    assert!(!is_alive(&after[0]));
}

#[test]
fn what_pods_say_is_read_by_kubectl_and_by_polity() {
    let Some(world) = World::new() else { return };
    let k = &world.k;
    let whole = k.ok("logs web-0");
    let last = whole.lines().last().unwrap();
    assert!(last.starts_with('{'), "{whole}");
    assert_eq!(k.ok("logs web-0 --tail=1"), last);
    let timed = k.ok("logs web-0 --tail=1 --timestamps");
    assert!(timed.starts_with("20") && timed.ends_with(last), "{timed}");
    let both = k.ok("logs -l app=web --prefix --tail=1");
    assert!(
        both.contains("pod/web-0/") && both.contains("pod/web-1/"),
        "{both}"
    );
    let said = k.fails("logs web-0 --previous");
    assert!(said.contains("NotFound"), "{said}");

    assert_eq!(world.logs("web-0 --tail 1"), (Some(0), format!("{last}\n")));
    let (code, said) = world.logs("-n default --tail 1");
    assert_eq!((code, said.lines().count()), (Some(0), 2), "{said}");
    assert!(
        said.contains("web-0 | {") && said.contains("web-1 | {"),
        "{said}"
    );
    let (code, said) = world.logs("web-9");
    assert_eq!((code, said.contains("hint: ")), (Some(2), true), "{said}");
    let (code, said) = world.logs("--policy-server none");
    assert_eq!(
        (code, said.contains("no such Pod")),
        (Some(1), true),
        "{said}"
    );

    // A follower hears a process to its end.
    let follower = k.start("logs -f web-0 --tail=1");
    assert_eq!(follower.line(), last);
    k.ok("delete pod web-0");
    assert_eq!(follower.finish().code, Some(0));
}

/// However the program ends, so do its Pods; what is there at the next start runs anew.
#[test]
fn pods_end_with_polity_and_come_back_with_it() {
    let Some(world) = World::new() else { return };
    let before = world.processes();
    assert!(before.len() == 2 && before.iter().all(|process| is_alive(process)));
    let World { folder, server, k } = world;
    server.kill();
    eventually("no process is left", || {
        before
            .iter()
            .all(|process| !is_alive(process))
            .then_some(())
    });
    let server = Polity::up(folder.path());
    eventually("both run again", || {
        let restarts = k.ok(
            "get pods -l app=web -o 'jsonpath={.items[*].status.containerStatuses[0].restartCount}'",
        );
        (restarts == "1 1").then_some(())
    });
    k.ok("rollout status statefulset/web --timeout=110s");
    let world = World { folder, server, k };
    let after = world.processes();
    let ended = world.server.interrupt();
    assert!(ended.status.success(), "{ended:?}");
    assert!(after.iter().all(|process| !is_alive(process)), "{after:?}");
}
