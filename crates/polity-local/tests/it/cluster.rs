//! A cluster in this process with a local runtime, and the PolicyServer `web`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt as _, Resource as _, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_local::access;
use polity_local::logs::{Limits, LogQuery, Logs};
use polity_local::{Images, Local, Options, Permit};
use polity_runtime::{Clock, Shutdown, procfs};
use polity_testing::{TestServer, eventually, eventually_within, objects};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Processes have to start, and this machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// The variables by which tests tell their program what to do. Pods may only have those of policy servers.
pub(crate) const BEHAVIOUR: &str = "KUBEWARDEN_LOG_FMT";
pub(crate) const GREETING: &str = "KUBEWARDEN_LOG_LEVEL";
pub(crate) const SHOWN_FILE: &str = "KUBEWARDEN_SOURCES_PATH";

/// The program that tests run in Pods.
pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_polity-local-pod"))
}

/// A cluster with the namespace `team`, the kinds of Polity and the PolicyServer `web`.
pub(crate) struct TestCluster {
    pub(crate) server: TestServer,
    pub(crate) client: Client,
    /// The PolicyServer `web`, once it is there.
    web: Option<PolicyServer>,
    pub(crate) data_dir: tempfile::TempDir,
}

/// A local runtime that runs; dropping it kills the runtime.
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
    /// Stops it as SIGTERM does.
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

impl TestCluster {
    pub(crate) async fn new() -> Self {
        let mut cluster = Self::without_policy_servers().await;
        cluster.create_policy_server().await;
        cluster
    }

    /// A cluster that does not know the kind PolicyServer.
    pub(crate) async fn without_policy_servers() -> Self {
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
            web: None,
            data_dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates the kind PolicyServer and the one called `web`.
    pub(crate) async fn create_policy_server(&mut self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let definition = PolicyServer::crd();
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        let servers: Api<PolicyServer> = Api::all(self.client.clone());
        let server =
            json!({"metadata": {"name": "web"}, "spec": {"image": "polity:v1", "replicas": 1}});
        let server: PolicyServer = serde_json::from_value(server).unwrap();
        let created = eventually("PolicyServers can be created", || async {
            servers.create(&PostParams::default(), &server).await.ok()
        })
        .await;
        self.web = Some(created);
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
                set_of_server: str::to_owned,
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

    /// A StatefulSet `web` in the form that the controller gives it, with a readiness probe. `behaviour` is what the test
    /// program does.
    pub(crate) fn set(&self, replicas: i32, behaviour: &str) -> Value {
        let owner = self.web.as_ref().unwrap().controller_owner_ref(&());
        json!({
            "metadata": {"name": "web", "ownerReferences": [owner.unwrap()]},
            "spec": {
                "replicas": replicas, "serviceName": "peers", "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{
                            "name": "server", "image": "polity:v1", "args": ["server"],
                            "env": [
                                {"name": "KUBEWARDEN_PORT", "value": "8443"},
                                {"name": "KUBEWARDEN_READINESS_PROBE_PORT", "value": "8081"},
                                {"name": GREETING, "value": "hello"},
                                {"name": BEHAVIOUR, "value": behaviour},
                                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                {"name": "POLITY_POLICY_SERVER", "value": "web"},
                            ],
                            "ports": [{"name": "https", "containerPort": 8443}],
                            "readinessProbe": {"httpGet": {"path": "/readiness", "port": 8081}, "periodSeconds": 1},
                        }],
                    },
                },
            },
        })
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

/// Whether a process runs.
pub(crate) fn is_alive(pid: i32) -> bool {
    match procfs::ids().is_empty() {
        false => procfs::is_running(pid),
        // A system without /proc.
        true => {
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
