//! A cluster with a local runtime in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_local::access;
use polity_local::logs::{Limits, LogQuery, Logs};
use polity_local::{Images, InstalledWorkload, Local, Options, Permit};
use polity_runtime::{Clock, Shutdown};
use polity_testing::{TestServer, eventually_within, objects};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Processes have to start, and this machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// The set that tests register as their installation's, and its commands.
const INSTALLED: (&str, [&str; 3]) = ("web", ["crash", "serve", "stubborn"]);

/// What tests run in Pods.
pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_polity-local-pod"))
}

pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) client: Client,
    pub(crate) data_dir: tempfile::TempDir,
}

/// A runtime that runs; dropping it is its sudden end.
pub(crate) struct Running {
    pub(crate) logs: Logs,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// Ends it as on SIGTERM.
    pub(crate) async fn stop(mut self) {
        self.shutdown.trigger();
        (&mut self.task).await.unwrap();
    }

    pub(crate) async fn log(&self, pod: &str, query: LogQuery) -> Option<String> {
        let chunks: Vec<_> = self.logs.open("team", pod, query)?.collect().await;
        let bytes: Vec<u8> = chunks.into_iter().flat_map(Result::unwrap).collect();
        Some(String::from_utf8(bytes).unwrap())
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &objects::namespace("team"))
            .await
            .unwrap();
        Self {
            server,
            client,
            data_dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) async fn run(&self) -> Running {
        self.run_with(self.client.clone()).await.unwrap()
    }

    /// A runtime with a client of its own; `None` when it does not start.
    pub(crate) async fn run_with(&self, client: Client) -> Option<Running> {
        let options = Options {
            data_dir: self.data_dir.path().to_owned(),
            node: "here".into(),
            permit: Permit {
                namespace: "team".into(),
                set_of_server: |server| format!("policy-server-{server}"),
                installed: vec![InstalledWorkload {
                    set: INSTALLED.0.into(),
                    commands: INSTALLED.1.map(str::to_owned).into(),
                }],
            },
            images: Images::default().with("polity", program()),
            launcher: program(),
            api: access::Api {
                server: format!("https://{}", self.server.address()),
                authority_pem: self.server.authority_pem().to_owned(),
            },
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            log_limits: Limits::default(),
            stop_grace: Duration::from_secs(20),
            clock: Clock::system(),
        };
        let local = Local::start(client, options).await.ok()?;
        let shutdown = Shutdown::new();
        let logs = local.logs();
        let running = local.run(shutdown.clone());
        let task = tokio::spawn(async move {
            running.await.ok();
        });
        Some(Running {
            logs,
            shutdown,
            task,
        })
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "team")
    }

    pub(crate) fn sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), "team")
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), "team");
        let object: K = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn edit_set(&self, spec: Value) {
        let patch = Patch::Strategic(json!({"spec": spec}));
        self.sets()
            .patch("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete_set(&self) {
        self.sets()
            .delete("web", &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits for the Pods to look like this: name, readiness, restarts.
    pub(crate) async fn pods_become(&self, expected: &str) -> Vec<Pod> {
        let what = format!("the pods become {expected:?}");
        eventually_within(PATIENCE, &what, || async {
            let pods = self
                .pods()
                .list(&ListParams::default())
                .await
                .unwrap()
                .items;
            let seen: Vec<String> = pods.iter().map(show).collect();
            if seen.join(" ") == expected {
                Ok(pods)
            } else {
                let statuses = pods.iter().filter_map(|pod| pod.status.clone());
                let statuses = statuses.filter_map(|status| status.container_statuses);
                Err((seen, statuses.collect::<Vec<_>>()))
            }
        })
        .await
    }

    /// Waits for the set to be all it should be.
    pub(crate) async fn set_completes(&self) -> StatefulSet {
        eventually_within(PATIENCE, "the set completes", || async {
            let set = self.sets().get("web").await.unwrap();
            let status = set.status.clone().unwrap_or_default();
            let wanted = set.spec.replicas;
            let is_complete = status.observed_generation == set.metadata.generation
                && status.current_revision == status.update_revision
                && status.updated_replicas == wanted
                && status.ready_replicas == wanted
                && Some(status.replicas) == wanted;
            if is_complete { Ok(set) } else { Err(status) }
        })
        .await
    }
}

fn show(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten();
    let ready = ready
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let restarts = status.container_statuses.iter().flatten().next();
    let restarts = restarts.map_or(0, |container| container.restart_count);
    let ready = if ready { "ready" } else { "waiting" };
    format!("{}:{ready}:{restarts}", pod.name_any())
}

/// A set `web` of our image with a readiness probe, in its usual shape.
pub(crate) fn set(replicas: i32, args: &[&str]) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "serviceName": "peers", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "server", "image": "polity:v1", "args": args,
                        "env": [
                            {"name": "KUBEWARDEN_PORT", "value": "8443"},
                            {"name": "KUBEWARDEN_READINESS_PROBE_PORT", "value": "8081"},
                            {"name": "POLITY_GREETING", "value": "hello"},
                            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        ],
                        "ports": [{"name": "https", "containerPort": 8443}],
                        "readinessProbe": {"httpGet": {"path": "/readiness", "port": 8081}, "periodSeconds": 1},
                    }],
                },
            },
        },
    })
}

/// Whether a process of this number runs.
pub(crate) fn is_alive(pid: i32) -> bool {
    // One that nobody has collected yet is dead all the same.
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z'),
        Err(_) if Path::new("/proc/self").exists() => false,
        Err(_) => {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::test_kill_process(pid).is_ok()
        }
    }
}

/// The process of a Pod.
pub(crate) fn process_of(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap();
    let id = statuses[0].container_id.as_deref().unwrap();
    id.strip_prefix("process://").unwrap().parse().unwrap()
}
