//! A whole installation in hand: an API server, `polity controller` and the local runtime with the policy servers, each
//! of which can be killed and started alone.
//!
//! Everything is installed as users do it, and the controller has the rights of its own account and no others. What is
//! played on a stage does not know whether its API server is the embedded or the real one.

mod access;
mod reach;
mod replicas;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use kube::Client;
use peers::Tool;
use polity_local::forward::Forwarder;
use polity_local::logs::Limits;
use polity_local::{Images, Local, Options, Permit};
use polity_runtime::{Clock, Shutdown};
use rustix::process::Signal;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub use access::connect;

use crate::eventually::eventually_seen;
use crate::kubectl::search_path;
use crate::leash::Leash;
use crate::polity::{self, Polity};
use crate::{Kubectl, eventually};
use server::Server;

/// Where the controller and the policy servers live.
pub const NAMESPACE: &str = "kubewarden";
/// The account whose rights the controller has.
const CONTROLLER_ACCOUNT: &str = "kubewarden-controller";
/// The image of the policy servers: the binary under test.
const IMAGE: &str = "polity:stage";
/// Where our kinds are.
const GROUP: &str = "/apis/policies.kubewarden.io/v1/";
/// What replicas have to end when a stage does.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A running installation. It ends when this is dropped, and when our process ends in whatever way.
///
/// Policies are named by their path below the group: `clusteradmissionpolicies/NAME`, or
/// `namespaces/NAMESPACE/admissionpolicies/NAME`.
pub struct Stage {
    controller: Mutex<Option<Polity>>,
    controller_kubeconfig: PathBuf,
    webhook_port: u16,
    _webhooks: Forwarder,
    local: Option<Runtime>,
    server: Mutex<Server>,
    client: Client,
    kubectl: Kubectl,
    modules: PathBuf,
    folder: PathBuf,
    _leash: Leash,
}

impl Stage {
    /// On `polity apiserver`; `None` after saying that the calling test is left out.
    pub fn embedded() -> Option<Self> {
        Self::on(|folder| Some(Server::embedded(folder)))
    }

    /// On etcd, kube-apiserver and kube-controller-manager; `None` after saying that the calling test is left out.
    pub fn real() -> Option<Self> {
        Self::on(|_| Server::real())
    }

    fn on(server: impl FnOnce(&Path) -> Option<Server>) -> Option<Self> {
        let (program, modules) = (
            Tool::Kubectl.or_leave_out()?,
            Tool::Policies.or_leave_out()?,
        );
        let folder = polity::folder().keep();
        let leash = Leash::folder(&folder).expect("sh can be started");
        let server = server(&folder)?;
        let kubeconfig = server.kubeconfig();
        let kubectl = Kubectl::new(&program, &kubeconfig);
        install(&folder, &kubeconfig);
        let ours = kubectl.in_namespace(NAMESPACE);
        let controller_kubeconfig = access::kubeconfig_of(&ours, CONTROLLER_ACCOUNT, &folder);
        let local = runtime();
        let client = local.block_on(access::connect(&kubeconfig));
        let webhook_port = polity::free_port();
        let stage = Self {
            controller: Mutex::new(None),
            controller_kubeconfig,
            webhook_port,
            _webhooks: reach::lead(&ours, &local, webhook_port),
            local: Some(local),
            server: Mutex::new(server),
            client,
            kubectl,
            modules,
            folder,
            _leash: leash,
        };
        stage.start_local(&kubeconfig);
        stage.start_controller();
        Some(stage)
    }

    /// Runs policy servers as children of this process.
    fn start_local(&self, kubeconfig: &Path) {
        let binary = polity::binary();
        let options = Options {
            data_dir: self.folder.join("local"),
            node: "stage".into(),
            permit: Permit {
                namespace: NAMESPACE.to_owned(),
                // The scenarios have no names that the controller would cut.
                set_of_server: |server| format!("policy-server-{server}"),
            },
            images: Images::default().with_name("polity", binary.clone()),
            launcher: binary,
            api: access::api(kubeconfig),
            env: BTreeMap::from([(
                "PATH".to_owned(),
                search_path().to_string_lossy().into_owned(),
            )]),
            log_limits: Limits::default(),
            stop_grace: STOP_GRACE,
            clock: Clock::system(),
        };
        let runtime = self.runtime();
        let local = runtime.block_on(Local::start(self.client(), options));
        let local = local.expect("the local runtime starts");
        runtime.spawn(local.run(Shutdown::new()));
    }

    /// kubectl with the administrator's rights.
    pub fn kubectl(&self) -> Kubectl {
        self.kubectl.clone()
    }

    /// A client with the administrator's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A folder for files; it goes with the stage.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URI of one of our own policies.
    pub fn module(&self, name: &str) -> String {
        let path = self.modules.join(name).with_extension("wasm");
        format!("file://{}", path.display())
    }

    /// The kubeconfig of a ServiceAccount, with its rights.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let kubectl = self.kubectl.in_namespace(namespace);
        access::kubeconfig_of(&kubectl, account, &self.folder)
    }

    /// SIGKILL for the controller, if it runs.
    pub fn kill_controller(&self) {
        lock(&self.controller).take().map(Polity::kill);
    }

    /// Starts the controller, unless it runs, and waits until its webhooks are served.
    pub fn start_controller(&self) {
        let mut controller = lock(&self.controller);
        controller.get_or_insert_with(|| {
            let mut command = polity::command(&self.folder);
            command
                .arg("controller")
                .args(["--deployments-namespace", NAMESPACE])
                .args(["--revision-drain-seconds", "1"])
                // The local runtime binds claims of every class.
                .args(["--cache-storage-class", "local"])
                .args(["--webhook-server-port", &self.webhook_port.to_string()])
                .args(["--metrics-bind-address", "0"])
                .args(["--health-probe-bind-address", "0"])
                .arg("--kubeconfig")
                .arg(&self.controller_kubeconfig);
            let serves = |line: &str| line.contains("serving the webhooks").then_some(());
            let started = Polity::start_until(&mut command, serves);
            started
                .unwrap_or_else(|ended| panic!("polity controller: {ended:?}"))
                .0
        });
    }

    /// SIGKILL for the API server; of the real Kubernetes, for kube-apiserver alone.
    pub fn kill_api(&self) {
        lock(&self.server).kill();
    }

    /// Starts an API server that was killed on the port and with the data that it had, and waits until it is ready.
    pub fn start_api(&self) {
        lock(&self.server).start();
    }

    /// The Pods of a policy server, by name.
    pub fn pods(&self, policy_server: &str) -> BTreeMap<String, Value> {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=kubewarden%2Fpolicy-server%3D{policy_server}"
        );
        let list = self.get(&path).unwrap_or_default();
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
        pods.into_iter()
            .filter_map(|pod| Some((name(&pod)?, pod)))
            .collect()
    }

    /// What the local runtime keeps for a Pod of a policy server: its own volumes, and its kubeconfig.
    pub fn folder_of(&self, pod: &Value) -> PathBuf {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        self.folder.join("local/pods").join(uid)
    }

    /// SIGKILL for the process of a policy server's Pod.
    pub fn kill_replica(&self, pod: &str) {
        self.signal_replica(pod, Signal::KILL);
    }

    /// Signals the process of a policy server's Pod, when it has one.
    pub fn signal_replica(&self, pod: &str, signal: Signal) {
        let process = eventually(&format!("{pod} has a process"), || {
            let pod = self.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}"))?;
            replicas::process_of(pod["metadata"]["uid"].as_str()?)
        });
        replicas::signal(process, signal);
    }

    /// What the API answers to a request of the administrator, or its words when it refuses.
    pub fn send(&self, request: Request<Vec<u8>>) -> Result<Value, String> {
        let answer = self.client.request::<Value>(request);
        let answer = self.runtime().block_on(answer);
        answer.map_err(|error| error.to_string())
    }

    /// What is at a path; `None` when there is nothing, or no API.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.send(Request::get(path).body(Vec::new()).ok()?).ok()
    }

    /// A policy, a policy server or a revision by its path below our group.
    pub fn read(&self, path: &str) -> Option<Value> {
        self.get(&format!("{GROUP}{path}"))
    }

    /// Waits until something is seen of an object of our group.
    #[track_caller]
    pub fn until(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually_seen(&format!("{path}: {what}"), || {
            let object = self.read(path).unwrap_or_default();
            if holds(&object) {
                Ok(object)
            } else {
                Err(object)
            }
        })
    }

    /// Whether the API server calls a webhook as it was last written, and not as it was a moment before.
    pub fn learns_at_once(&self) -> bool {
        lock(&self.server).learns_at_once()
    }

    /// Waits until a policy is in a phase, with a generation that serves, or with none; its status then.
    #[track_caller]
    pub fn until_phase(&self, policy: &str, phase: &str, serving: impl Into<Option<u64>>) -> Value {
        let serving = serving.into();
        let what = format!("{phase} with generation {serving:?}");
        let mut object = self.until(&what, policy, |object| {
            let status = &object["status"];
            status["phase"] == phase
                && status["servingGeneration"].as_u64() == serving
                && status["observedGeneration"] == object["metadata"]["generation"]
        });
        object["status"].take()
    }

    fn runtime(&self) -> &Runtime {
        self.local.as_ref().expect("it is there until the end")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.kill_controller();
        if let Some(local) = self.local.take() {
            local.shutdown_timeout(STOP_GRACE);
        }
    }
}

/// The definitions of our kinds, rights, and a first policy server, as users install them.
fn install(home: &Path, kubeconfig: &Path) {
    let mut command = polity::command(home);
    command
        .args(["install", "--namespace", NAMESPACE, "--image", IMAGE])
        // The controller runs outside of the cluster.
        .arg("--wait=false")
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let output = command.output().expect("polity can be started");
    assert!(output.status.success(), "polity install: {output:?}");
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_all();
    builder.build().expect("there is room for threads")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
