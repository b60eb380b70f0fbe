//! Runs the real binary with a data directory and a port that stay the same across restarts and kills.

use std::path::PathBuf;

use e2e::polity::{self, Polity};
use kube::config::Kubeconfig;
use rustix::process::Signal;
use tempfile::TempDir;

/// A server that can be stopped and restarted.
pub(crate) struct Host {
    folder: TempDir,
    port: u16,
    running: Option<Polity>,
}

impl Host {
    /// Starts the server with an empty directory.
    pub(crate) fn start() -> Self {
        let mut host = Self {
            folder: polity::folder(),
            port: 0,
            running: None,
        };
        host.start_again();
        let kubeconfig = Kubeconfig::read_from(host.kubeconfig()).unwrap();
        let url = kubeconfig.clusters[0]
            .cluster
            .as_ref()
            .unwrap()
            .server
            .clone()
            .unwrap();
        host.port = url.rsplit(':').next().unwrap().parse().unwrap();
        host
    }

    /// Starts the server with its existing data.
    pub(crate) fn start_again(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let data = self.folder.path().join("data");
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = polity::command(self.folder.path());
        command
            .arg("apiserver")
            .arg("--data-dir")
            .arg(data)
            .args(["--listen", &listen]);
        let started = tokio::task::block_in_place(|| Polity::start(&mut command));
        self.running = Some(started.unwrap_or_else(|ended| panic!("it does not start: {ended:?}")));
    }

    /// A kubeconfig with administrator credentials.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }

    /// Sends SIGTERM and waits until the process exits with success.
    pub(crate) fn terminate(&mut self) {
        let running = self.running.take().expect("it runs");
        running.signal(Signal::TERM);
        let ended = tokio::task::block_in_place(|| running.wait());
        assert!(ended.status.success(), "{ended:?}");
    }

    /// Sends SIGKILL and waits until the process is gone.
    pub(crate) fn kill(&mut self) {
        let running = self.running.take().expect("it runs");
        tokio::task::block_in_place(|| running.kill());
    }
}
