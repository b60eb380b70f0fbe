//! Starts the measured servers, each as a process with its own folder.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use peers::Tool;
use polity_pki::{Authority, ServerNames};
use polity_runtime::{Clock, admin};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::{LOGGED, now, usage};

const DAY: Duration = Duration::from_hours(24);

/// The binary of a compatible server to compare with, if set.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark is no service with flags"
)]
pub(crate) fn peer() -> Option<PathBuf> {
    std::env::var_os("POLITY_BENCH_PEER").map(PathBuf::from)
}

/// The module of one of our policies.
pub(crate) fn module(name: &str) -> Vec<u8> {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../policies")
        .join(name)
        .join(format!("{name}.wasm"));
    fs::read(committed).unwrap_or_else(|_| {
        let folder = Tool::Policies
            .find()
            .unwrap_or_else(|missing| panic!("run: {}", missing.install_command));
        fs::read(folder.join(format!("{name}.wasm"))).expect("the policies are built")
    })
}

/// A folder with the policies, modules and certificate of a server.
pub(crate) struct Fixture {
    folder: TempDir,
    root: Option<Vec<u8>>,
    pub(crate) n_policies: usize,
    pub(crate) is_tls: bool,
}

impl Fixture {
    /// Creates `n_policies` policies. Each has its own module: the same code with a different custom section.
    pub(crate) fn new(name: &str, n_policies: usize, is_tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let code = module(name);
        let mut policies = String::new();
        for n in 0..n_policies {
            let path = folder.path().join(format!("{n}.wasm"));
            fs::write(&path, with_section(&code, n)).expect("room for a module");
            policies.push_str(&format!(
                "p{n}: {{module: 'file://{}', hostCapabilities: []}}\n",
                path.display()
            ));
        }
        fs::write(folder.path().join("policies.yml"), policies).expect("room for a file");
        let root = is_tls.then(|| write_certificate(folder.path()));
        Self {
            folder,
            root,
            n_policies,
            is_tls,
        }
    }

    /// Deletes the compiled modules, so that the next start is a cold one.
    pub(crate) fn delete_store(&self) {
        fs::remove_dir_all(self.folder.path().join("store")).ok();
    }

    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        polity_runtime::tls::install_provider();
        let mut roots = RootCertStore::empty();
        let pem = self.root.as_deref().unwrap_or_default();
        roots
            .add(CertificateDer::from_pem_slice(pem).expect("a certificate"))
            .expect("an authority");
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    /// The port that was chosen for a server in this folder.
    pub(crate) fn port(folder: &Path, name: &str) -> u16 {
        let text = fs::read_to_string(folder.join(name)).expect("a port was chosen");
        text.parse().expect("a number")
    }

    fn choose_port(&self, name: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        fs::write(self.folder.path().join(name), address.port().to_string()).expect("room");
        address
    }
}

/// Appends a custom section, which changes the digest of the module.
fn with_section(code: &[u8], n: usize) -> Vec<u8> {
    let content = format!("\u{5}bench{n:08}");
    let mut module = code.to_vec();
    module.push(0);
    module.push(content.len() as u8);
    module.extend_from_slice(content.as_bytes());
    module
}

/// Writes a serving certificate and returns the certificate of its CA.
fn write_certificate(folder: &Path) -> Vec<u8> {
    let now = Clock::system().now();
    let authority = Authority::create("bench", DAY, now).expect("an authority");
    let names = ServerNames::new("bench").ip([127, 0, 0, 1]);
    let issued = authority
        .issue_server(&names, DAY, now)
        .expect("a certificate");
    fs::write(folder.join("tls.crt"), issued.certificate.to_pem()).expect("room");
    fs::write(folder.join("tls.key"), issued.key.to_pem()).expect("room");
    authority.certificate().to_pem().into_bytes()
}

/// The kind of server to start.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Our server with this log level.
    Ours(&'static str),
    /// Our server in another build of this program.
    Build(PathBuf),
    Echo,
    Peer(PathBuf),
}

/// A server that is ready. It is stopped when this value is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Time from the start to the first successful readiness check.
    pub(crate) took: Duration,
}

impl Running {
    pub(crate) fn start(fixture: &Fixture, kind: Kind) -> Self {
        let (address, readiness) = (
            fixture.choose_port("port"),
            fixture.choose_port("readiness"),
        );
        let is_echo = matches!(kind, Kind::Echo);
        let mut command = command(fixture, kind, address, readiness);
        // Not in the folder that the server watches, because every log line would trigger its watcher.
        let log = tempfile::tempfile().expect("room for a log");
        command.stdout(Stdio::null()).stderr(log);
        let started = now();
        let mut child = command.spawn().expect("the server starts");
        let is_up = || match is_echo {
            true => TcpStream::connect(address).is_ok(),
            false => admin::is_ready(readiness, "/readiness"),
        };
        while !is_up() {
            let ended = child.try_wait().expect("our child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Self {
            child,
            address,
            took: now() - started,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        usage::resident_mb(self.pid())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn command(fixture: &Fixture, kind: Kind, address: SocketAddr, readiness: SocketAddr) -> Command {
    let folder = fixture.folder.path();
    let role = |program: PathBuf, name: &str| {
        let mut command = Command::new(program);
        command.arg(name).arg(folder);
        command
    };
    let ourselves = || std::env::current_exe().expect("this program");
    let serve = |program: PathBuf, level: &str| {
        let mut command = role(program, "serve");
        command.arg(level);
        command
    };
    match kind {
        Kind::Ours(level) => serve(ourselves(), level),
        Kind::Build(program) => serve(program, LOGGED),
        Kind::Echo => role(ourselves(), "echo"),
        Kind::Peer(binary) => {
            let mut command = Command::new(binary);
            command.args([
                "--addr",
                "127.0.0.1",
                "--ignore-kubernetes-connection-failure",
            ]);
            command.args(["--port", &address.port().to_string()]);
            command.args(["--readiness-probe-port", &readiness.port().to_string()]);
            command.arg("--policies").arg(folder.join("policies.yml"));
            command
                .arg("--policies-download-dir")
                .arg(folder.join("peer"));
            if fixture.is_tls {
                command.arg("--cert-file").arg(folder.join("tls.crt"));
                command.arg("--key-file").arg(folder.join("tls.key"));
            }
            command
        }
    }
}
