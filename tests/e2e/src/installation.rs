//! A complete installation: an API server, `polity controller`, and the local runtime that runs the policy servers.
//! Tests can kill and restart each of them separately.
//!
//! Everything is installed with the same commands that users run, and the controller has only the permissions of its
//! own ServiceAccount. Scenarios do not depend on whether the API server is the embedded or the real one.

mod access;
mod api_server;
mod replicas;
mod webhook_service;

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

use crate::cleanup::CleanupGuard;
use crate::eventually::eventually_seen;
use crate::kubectl::search_path;
use crate::polity::{self, Polity};
use crate::{Kubectl, eventually};
use api_server::ApiServer;

/// The namespace of the controller and the policy servers.
pub const NAMESPACE: &str = "kubewarden";
/// The ServiceAccount that the controller uses.
const CONTROLLER_ACCOUNT: &str = "kubewarden-controller";
/// The image of the policy servers: the binary under test.
const IMAGE: &str = "polity:e2e";
/// The path of our API group.
const GROUP: &str = "/apis/policies.kubewarden.io/v1/";
/// How long replicas have to exit when the installation is dropped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A running installation. It stops when this value is dropped, or when the test process ends for any reason.
///
/// Policies are named by their path below the group: `clusteradmissionpolicies/NAME`, or
/// `namespaces/NAMESPACE/admissionpolicies/NAME`.
pub struct Installation {
    controller: Mutex<Option<Polity>>,
    controller_kubeconfig: PathBuf,
    webhook_port: u16,
    _webhooks: Forwarder,
    local: Option<Runtime>,
    server: Mutex<ApiServer>,
    client: Client,
    kubectl: Kubectl,
    modules: PathBuf,
    folder: PathBuf,
    _cleanup: CleanupGuard,
}

impl Installation {
    /// Installs on `polity apiserver`. Returns `None` after printing that the calling test is skipped.
    pub fn embedded() -> Option<Self> {
        Self::on(|folder| Some(ApiServer::embedded(folder)))
    }

    /// Installs on etcd, kube-apiserver and kube-controller-manager. Returns `None` after printing that the calling
    /// test is skipped.
    pub fn real() -> Option<Self> {
        Self::on(|_| ApiServer::real())
    }

    fn on(server: impl FnOnce(&Path) -> Option<ApiServer>) -> Option<Self> {
        let (program, modules) = (Tool::Kubectl.or_skip()?, Tool::Policies.or_skip()?);
        let folder = polity::folder().keep();
        let cleanup = CleanupGuard::folder(&folder).expect("sh can be started");
        let server = server(&folder)?;
        let kubeconfig = server.kubeconfig();
        let kubectl = Kubectl::new(&program, &kubeconfig);
        install(&folder, &kubeconfig);
        let ours = kubectl.in_namespace(NAMESPACE);
        let controller_kubeconfig = access::kubeconfig_of(&ours, CONTROLLER_ACCOUNT, &folder);
        let local = runtime();
        let client = local.block_on(access::connect(&kubeconfig));
        let webhook_port = polity::free_port();
        let installation = Self {
            controller: Mutex::new(None),
            controller_kubeconfig,
            webhook_port,
            _webhooks: webhook_service::forward(&ours, &local, webhook_port),
            local: Some(local),
            server: Mutex::new(server),
            client,
            kubectl,
            modules,
            folder,
            _cleanup: cleanup,
        };
        installation.start_local(&kubeconfig);
        installation.start_controller();
        Some(installation)
    }

    /// Starts the local runtime, which runs policy servers as child processes of the test.
    fn start_local(&self, kubeconfig: &Path) {
        let binary = polity::binary();
        let options = Options {
            data_dir: self.folder.join("local"),
            node: "e2e".into(),
            permit: Permit {
                namespace: NAMESPACE.to_owned(),
                // No policy server name in the scenarios is long enough for the controller to truncate it.
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

    /// kubectl with administrator credentials.
    pub fn kubectl(&self) -> Kubectl {
        self.kubectl.clone()
    }

    /// A client with administrator credentials.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A folder for files, removed together with the installation.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URI of one of the policy modules in this repository.
    pub fn module(&self, name: &str) -> String {
        let path = self.modules.join(name).with_extension("wasm");
        format!("file://{}", path.display())
    }

    /// Writes a kubeconfig with the credentials of a ServiceAccount and returns its path.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let kubectl = self.kubectl.in_namespace(namespace);
        access::kubeconfig_of(&kubectl, account, &self.folder)
    }

    /// Sends SIGKILL to the controller if it is running.
    pub fn kill_controller(&self) {
        lock(&self.controller).take().map(Polity::kill);
    }

    /// Starts the controller unless it is running, and waits until it serves its webhooks.
    pub fn start_controller(&self) {
        let mut controller = lock(&self.controller);
        controller.get_or_insert_with(|| {
            let mut command = polity::command(&self.folder);
            command
                .arg("controller")
                .args(["--deployments-namespace", NAMESPACE])
                .args(["--revision-drain-seconds", "1"])
                // The local runtime binds claims of every storage class.
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

    /// Sends SIGKILL to the API server. On the real Kubernetes, this kills only kube-apiserver.
    pub fn kill_api(&self) {
        lock(&self.server).kill();
    }

    /// Restarts a killed API server on the same port with the same data, and waits until it is ready.
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

    /// The folder in which the local runtime keeps the volumes and the kubeconfig of a Pod.
    pub fn folder_of(&self, pod: &Value) -> PathBuf {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        self.folder.join("local/pods").join(uid)
    }

    /// Sends SIGKILL to the process of a policy server's Pod.
    pub fn kill_replica(&self, pod: &str) {
        self.signal_replica(pod, Signal::KILL);
    }

    /// Signals the process of a policy server's Pod, after waiting until the Pod has one.
    pub fn signal_replica(&self, pod: &str, signal: Signal) {
        let process = eventually(&format!("{pod} has a process"), || {
            let pod = self.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}"))?;
            replicas::process_of(pod["metadata"]["uid"].as_str()?)
        });
        replicas::signal(process, signal);
    }

    /// Sends a request as the administrator. Returns the response body, or the error message of a refusal.
    pub fn send(&self, request: Request<Vec<u8>>) -> Result<Value, String> {
        let answer = self.client.request::<Value>(request);
        let answer = self.runtime().block_on(answer);
        answer.map_err(|error| error.to_string())
    }

    /// Reads the object or list at a path. Returns `None` if it does not exist or the API server is down.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.send(Request::get(path).body(Vec::new()).ok()?).ok()
    }

    /// Reads a policy, a policy server or a revision by its path below our group.
    pub fn read(&self, path: &str) -> Option<Value> {
        self.get(&format!("{GROUP}{path}"))
    }

    /// Waits until an object of our group fulfils a condition, and returns the object.
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

    /// Whether the API server calls webhooks with their latest configuration immediately after a write. Kubernetes
    /// does so with a short delay.
    pub fn applies_webhook_changes_at_once(&self) -> bool {
        lock(&self.server).applies_webhook_changes_at_once()
    }

    /// Waits until a policy is in a phase with the given serving generation (or none), and returns its status.
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

impl Drop for Installation {
    fn drop(&mut self) {
        self.kill_controller();
        if let Some(local) = self.local.take() {
            local.shutdown_timeout(STOP_GRACE);
        }
    }
}

/// Installs the CRDs, the RBAC objects and the default policy server with `polity install`.
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
