//! The two API servers for scenarios. Each is started once per test process.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use peers::{Cluster, Tool};

use crate::cleanup::CleanupGuard;
use crate::polity::{self, Polity};

/// An API server that runs as long as the test process.
#[derive(Debug)]
pub struct Server {
    kubeconfig: PathBuf,
    _running: Mutex<Running>,
    _folder: CleanupGuard,
}

/// The process of a server. Only kept so that it is stopped on drop.
#[derive(Debug)]
#[expect(dead_code, reason = "what runs ends when this is dropped")]
enum Running {
    Embedded(Polity),
    Real(Cluster),
}

impl Server {
    /// A kubeconfig with administrator credentials.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// `polity apiserver` with its data on disk.
pub fn embedded() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = polity::folder().keep();
        let cleanup = CleanupGuard::folder(&folder).expect("sh can be started");
        let polity = Polity::apiserver(&folder.join("data"));
        Server {
            kubeconfig: polity.kubeconfig().to_owned(),
            _running: Mutex::new(Running::Embedded(polity)),
            _folder: cleanup,
        }
    })
}

/// The real Kubernetes. Returns `None` after printing that the calling test is skipped.
pub fn real() -> Option<&'static Server> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    Tool::Kubernetes.or_skip()?;
    let start = || {
        let cluster = Cluster::start().unwrap_or_else(|error| panic!("{error:#}"));
        let folder = cluster.kubeconfig().ancestors().nth(2);
        let cleanup = CleanupGuard::folder(folder.expect("a cluster has a folder"));
        Server {
            kubeconfig: cluster.kubeconfig().to_owned(),
            _running: Mutex::new(Running::Real(cluster)),
            _folder: cleanup.expect("sh can be started"),
        }
    };
    Some(SERVER.get_or_init(start))
}
