//! The API server of an installation, embedded or real. It keeps its port and its data across a kill and a restart.

use std::path::{Path, PathBuf};

use peers::{Cluster, Tool};

use crate::polity::{self, Polity};

/// An API server that can be restarted with the same port and data.
#[derive(Debug)]
pub(super) enum ApiServer {
    Embedded {
        data_dir: PathBuf,
        listen: String,
        running: Option<Polity>,
    },
    Real(Cluster),
}

impl ApiServer {
    /// Whether a changed webhook takes effect with the write. Kubernetes learns of changes through a watch.
    pub(super) fn applies_webhook_changes_at_once(&self) -> bool {
        matches!(self, Self::Embedded { .. })
    }

    /// `polity apiserver` with its data on disk.
    pub(super) fn embedded(folder: &Path) -> Self {
        let mut server = Self::Embedded {
            data_dir: folder.join("data"),
            listen: format!("127.0.0.1:{}", polity::free_port()),
            running: None,
        };
        server.start();
        server
    }

    /// The real Kubernetes. Returns `None` after printing that the calling test is skipped.
    pub(super) fn real() -> Option<Self> {
        Tool::Kubernetes.or_skip()?;
        let cluster = Cluster::start().unwrap_or_else(|error| panic!("{error:#}"));
        Some(Self::Real(cluster))
    }

    /// A kubeconfig with administrator credentials.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded { data_dir, .. } => data_dir.join("kubeconfig"),
            Self::Real(cluster) => cluster.kubeconfig().to_owned(),
        }
    }

    /// Sends SIGKILL.
    pub(super) fn kill(&mut self) {
        match self {
            Self::Embedded { running, .. } => {
                running.take().map(Polity::kill);
            }
            Self::Real(cluster) => cluster.kill_api_server(),
        }
    }

    /// Starts the server on its port with its data.
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
