//! The two servers that scenarios are played on, each started once for a test process.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use peers::{Cluster, Tool};

use crate::leash::Leash;
use crate::polity::{self, Polity};

/// A server that lives as long as the test process.
#[derive(Debug)]
pub struct Server {
    kubeconfig: PathBuf,
    _running: Mutex<Running>,
    _folder: Leash,
}

/// Held, never looked at.
#[derive(Debug)]
#[expect(dead_code, reason = "what runs ends when this is dropped")]
enum Running {
    Embedded(Polity),
    Real(Cluster),
}

impl Server {
    /// A kubeconfig with the administrator's credentials.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// `polity apiserver`, with its data on disk as users have it.
pub fn embedded() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = polity::folder().keep();
        let leash = Leash::folder(&folder).expect("sh can be started");
        let polity = Polity::apiserver(&folder.join("data"));
        Server {
            kubeconfig: polity.kubeconfig().to_owned(),
            _running: Mutex::new(Running::Embedded(polity)),
            _folder: leash,
        }
    })
}

/// The real Kubernetes; `None` after saying that the calling test is left out.
pub fn real() -> Option<&'static Server> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    Tool::Kubernetes.or_leave_out()?;
    let start = || {
        let cluster = Cluster::start().unwrap_or_else(|error| panic!("{error:#}"));
        let folder = cluster.kubeconfig().ancestors().nth(2);
        let leash = Leash::folder(folder.expect("a cluster has a folder"));
        Server {
            kubeconfig: cluster.kubeconfig().to_owned(),
            _running: Mutex::new(Running::Real(cluster)),
            _folder: leash.expect("sh can be started"),
        }
    };
    Some(SERVER.get_or_init(start))
}
