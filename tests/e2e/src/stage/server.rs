//! The API server of a stage: ours or the real one, killed and started again where it was.

use std::path::{Path, PathBuf};

use peers::{Cluster, Tool};

use crate::polity::{self, Polity};

/// An API server that keeps its place and its data.
#[derive(Debug)]
pub(super) enum Server {
    Embedded {
        data_dir: PathBuf,
        listen: String,
        running: Option<Polity>,
    },
    Real(Cluster),
}

impl Server {
    /// Whether a webhook is called as it was last written. Kubernetes learns of changes by watch.
    pub(super) fn learns_at_once(&self) -> bool {
        matches!(self, Self::Embedded { .. })
    }

    /// `polity apiserver`, with its data on disk as users have it.
    pub(super) fn embedded(folder: &Path) -> Self {
        let mut server = Self::Embedded {
            data_dir: folder.join("data"),
            listen: format!("127.0.0.1:{}", polity::free_port()),
            running: None,
        };
        server.start();
        server
    }

    /// The real Kubernetes; `None` after saying that the calling test is left out.
    pub(super) fn real() -> Option<Self> {
        Tool::Kubernetes.or_leave_out()?;
        let cluster = Cluster::start().unwrap_or_else(|error| panic!("{error:#}"));
        Some(Self::Real(cluster))
    }

    /// A kubeconfig with the administrator's credentials.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded { data_dir, .. } => data_dir.join("kubeconfig"),
            Self::Real(cluster) => cluster.kubeconfig().to_owned(),
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        match self {
            Self::Embedded { running, .. } => {
                running.take().map(Polity::kill);
            }
            Self::Real(cluster) => cluster.kill_api_server(),
        }
    }

    /// Starts it, on the port and with the data that it had.
    pub(super) fn start(&mut self) {
        match self {
            Self::Embedded {
                data_dir,
                listen,
                running,
            } => {
                let mut command = polity::command(data_dir);
                command.args(["apiserver", "--listen", listen, "--data-dir"]);
                let started = Polity::start(command.arg(data_dir));
                *running =
                    Some(started.unwrap_or_else(|ended| panic!("polity apiserver: {ended:?}")));
            }
            Self::Real(cluster) => cluster
                .start_api_server()
                .unwrap_or_else(|error| panic!("{error:#}")),
        }
    }
}
