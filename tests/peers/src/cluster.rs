//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::{Certificates, Pair, write_secret};
use crate::process::{Lifetime, Process};
use crate::tools::Tool;

/// Services get loopback addresses, which cannot conflict with other machines.
const SERVICE_RANGE: &str = "127.96.0.0/16";
/// The address of the Service `kubernetes`.
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 96, 0, 1));

const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
    serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,\
    persistentvolumeclaim-protection-controller";

/// The only program that tests restart separately.
const API_SERVER: &str = "kube-apiserver";

/// Delay between two readiness checks.
const PAUSE: Duration = Duration::from_millis(100);
/// Two minutes in total. A loaded machine with two cores needs ten seconds.
const MAX_CHECKS: u32 = 1200;
/// Another process may take a free port before the program binds it.
const ATTEMPTS: u32 = 3;

/// A running control plane. It is stopped when this value is dropped, or when the process ends for any reason.
#[derive(Debug)]
pub struct Cluster {
    processes: Vec<Process>,
    url: String,
    kubeconfig: PathBuf,
    programs: PathBuf,
    kubectl: PathBuf,
    logs: PathBuf,
    /// The command line of the API server, for a restart.
    server_flags: Vec<OsString>,
    folder: Option<TempDir>,
}

impl Cluster {
    /// Starts a control plane in a temporary folder and waits until it is ready. This takes about five seconds.
    pub fn start() -> Result<Self> {
        Self::start_without(&[])
    }

    /// Like [`Cluster::start`], without these admission plugins.
    pub fn start_without(admission_plugins: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("polity-peers-").tempdir()?;
        let mut cluster = Self::start_in(folder.path(), Lifetime::Guarded, admission_plugins)?;
        cluster.folder = Some(folder);
        Ok(cluster)
    }

    pub(crate) fn start_in(
        folder: &Path,
        lifetime: Lifetime,
        without_plugins: &[&str],
    ) -> Result<Self> {
        let programs = Tool::Kubernetes
            .find()
            .map_err(|missing| anyhow!("{}; run: {}", missing.why, missing.install_command))?;
        let mut last_error = anyhow!("not tried");
        for attempt in 0..ATTEMPTS {
            let folder = folder.join(attempt.to_string());
            match Self::attempt(&programs, &folder, lifetime, without_plugins) {
                Ok(cluster) => return Ok(cluster),
                Err(error) => last_error = error,
            }
        }
        Err(last_error.context("starting a real Kubernetes"))
    }

    fn attempt(
        programs: &Path,
        folder: &Path,
        lifetime: Lifetime,
        without_plugins: &[&str],
    ) -> Result<Self> {
        let [etcd_port, peer_port, api_port] = free_ports()?;
        let certificates = Certificates::create(
            &folder.join("pki"),
            &[Ipv4Addr::LOCALHOST.into(), SERVICE_ADDRESS],
        )?;
        let url = format!("https://127.0.0.1:{api_port}");
        let kubeconfig = folder.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &url, &certificates, &certificates.admin)?;
        let manager_kubeconfig = folder.join("controller-manager.kubeconfig");
        write_kubeconfig(
            &manager_kubeconfig,
            &url,
            &certificates,
            &certificates.controller_manager,
        )?;

        let logs = folder.join("logs");
        let start = |name: &str, flags: &[OsString]| {
            Process::start(&programs.join(name), flags, &logs, lifetime)
        };
        let mut flags = server_flags(folder, &certificates, etcd_port, api_port);
        if !without_plugins.is_empty() {
            flags.push(flag("disable-admission-plugins", without_plugins.join(",")));
        }
        let mut cluster = Self {
            processes: Vec::new(),
            url,
            kubeconfig,
            programs: programs.to_owned(),
            kubectl: programs.join("kubectl"),
            logs: logs.clone(),
            server_flags: flags,
            folder: None,
        };
        cluster
            .processes
            .push(start("etcd", &etcd_flags(folder, etcd_port, peer_port))?);
        cluster
            .processes
            .push(start(API_SERVER, &cluster.server_flags)?);
        let outcome = cluster.wait(&["get", "--raw", "/readyz"]).and_then(|()| {
            cluster.processes.push(start(
                "kube-controller-manager",
                &manager_flags(&manager_kubeconfig, &certificates),
            )?);
            // Pods cannot be created before their ServiceAccount exists.
            cluster.wait(&["get", "serviceaccount", "default", "--namespace", "default"])
        });
        match outcome {
            Ok(()) => Ok(cluster),
            Err(error) => {
                end_detached(&cluster, lifetime);
                Err(error)
            }
        }
    }

    /// The URL of the API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig with administrator credentials.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubectl of the same release.
    pub fn kubectl(&self) -> &Path {
        &self.kubectl
    }

    /// Kills only the API server. Its data stays, and the other programs wait for it.
    pub fn kill_api_server(&mut self) {
        self.processes
            .retain(|process| process.name() != API_SERVER);
    }

    /// Restarts a killed API server with the same flags, and waits until it is ready.
    pub fn start_api_server(&mut self) -> Result<()> {
        let program = self.programs.join(API_SERVER);
        let server = Process::start(&program, &self.server_flags, &self.logs, Lifetime::Guarded)?;
        // Position 1: etcd is stopped last.
        self.processes.insert(1, server);
        self.wait(&["get", "--raw", "/readyz"])
    }

    /// The programs with their process ids.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, u32)> {
        self.processes
            .iter()
            .map(|process| (process.name(), process.id()))
    }

    /// Repeats a kubectl command until it succeeds or a program exits.
    fn wait(&mut self, arguments: &[&str]) -> Result<()> {
        let mut log_tail = String::new();
        for _ in 0..MAX_CHECKS {
            for process in &mut self.processes {
                if let Some(status) = process.exit_status() {
                    bail!(
                        "{} ended with {status}:\n{}",
                        process.name(),
                        process.log_tail()
                    );
                }
            }
            let output = self.run_kubectl(arguments)?;
            if output.status.success() {
                return Ok(());
            }
            log_tail = String::from_utf8_lossy(&output.stderr).into_owned();
            std::thread::sleep(PAUSE);
        }
        bail!(
            "kubectl {} never succeeded: {log_tail}",
            arguments.join(" ")
        )
    }

    fn run_kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::null());
        command
            .output()
            .with_context(|| format!("running {}", self.kubectl.display()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Stop etcd last: an API server without its store fills its log with errors.
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
        drop(self.folder.take());
    }
}

/// Kills the detached programs of a failed attempt. Other programs are killed on drop.
fn end_detached(cluster: &Cluster, lifetime: Lifetime) {
    if lifetime == Lifetime::Detached {
        for (_, id) in cluster.processes() {
            crate::detached::signal(id, rustix::process::Signal::KILL);
        }
    }
}

fn free_ports() -> Result<[u16; 3]> {
    // Bind all at once, so that no port is returned twice.
    let listeners = [bind()?, bind()?, bind()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn bind() -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")
}

fn etcd_flags(folder: &Path, client_port: u16, peer_port: u16) -> Vec<OsString> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        flag("data-dir", folder.join("etcd")),
        flag("name", "peers"),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format!("peers={peer}")),
        flag("log-level", "warn"),
        // The data is deleted with the cluster.
        "--unsafe-no-fsync".into(),
    ]
}

fn server_flags(
    folder: &Path,
    certificates: &Certificates,
    etcd_port: u16,
    api_port: u16,
) -> Vec<OsString> {
    vec![
        flag("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
        flag("bind-address", "127.0.0.1"),
        flag("advertise-address", "127.0.0.1"),
        // The other types reject a loopback address.
        flag("endpoint-reconciler-type", "none"),
        flag("secure-port", api_port.to_string()),
        flag("cert-dir", folder.join("pki")),
        flag("tls-cert-file", &certificates.serving.certificate),
        flag("tls-private-key-file", &certificates.serving.key),
        flag("client-ca-file", &certificates.authority),
        flag(
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local",
        ),
        flag(
            "service-account-key-file",
            &certificates.service_account_public_key,
        ),
        flag(
            "service-account-signing-key-file",
            &certificates.service_account_key,
        ),
        flag("service-cluster-ip-range", SERVICE_RANGE),
        flag("authorization-mode", "RBAC"),
        // As in most clusters. Whether a Pod may be privileged is decided by policies.
        flag("allow-privileged", "true"),
    ]
}

fn manager_flags(kubeconfig: &Path, certificates: &Certificates) -> Vec<OsString> {
    vec![
        flag("kubeconfig", kubeconfig),
        flag("controllers", CONTROLLERS),
        flag("use-service-account-credentials", "true"),
        flag(
            "service-account-private-key-file",
            &certificates.service_account_key,
        ),
        flag("root-ca-file", &certificates.authority),
        flag("leader-elect", "false"),
        flag("secure-port", "0"),
        flag("kube-api-qps", "200"),
        flag("kube-api-burst", "400"),
    ]
}

fn flag(name: &str, value: impl Into<OsString>) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value.into());
    flag
}

fn write_kubeconfig(
    path: &Path,
    url: &str,
    certificates: &Certificates,
    user: &Pair,
) -> Result<()> {
    let data = |path: &Path| -> Result<String> { Ok(STANDARD.encode(fs::read(path)?)) };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "peers",
        "contexts": [{"name": "peers", "context": {"cluster": "peers", "user": "peers"}}],
        "clusters": [{"name": "peers", "cluster": {
            "server": url,
            "certificate-authority-data": data(&certificates.authority)?,
        }}],
        "users": [{"name": "peers", "user": {
            "client-certificate-data": data(&user.certificate)?,
            "client-key-data": data(&user.key)?,
        }}],
    });
    write_secret(path, &serde_json::to_string_pretty(&config)?)
}
