//! Four writers and a watcher of every kind, on a server that is stopped and killed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use polity_testing::objects::config_map;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::event_log::EventLog;
use crate::host::Host;
use crate::test_namespace::{TestNamespace, connect};
use crate::writers::{self, Writer, WriterResult};

const WRITERS: usize = 4;
/// Written last: a watcher that has seen it has seen all changes.
const LAST: &str = "zz-last";
/// Upper limit for a number of writes, also on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Running writers and watchers.
pub(crate) struct Workload {
    maps: Api<ConfigMap>,
    logs: Vec<EventLog>,
    writers: Vec<JoinHandle<WriterResult>>,
    n_written: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
}

/// The counts of a workload without violations.
pub(crate) struct Summary {
    pub(crate) n_writes: usize,
    /// Writes whose response was lost, so that the writer had to read the object.
    pub(crate) n_in_doubt: u64,
}

impl Workload {
    /// Starts writers and watchers, each with its own connection.
    pub(crate) async fn start(host: &Host) -> Self {
        let kubeconfig = host.kubeconfig();
        let test_namespace = TestNamespace::create(connect(&kubeconfig).await, "workload").await;
        let maps: Api<ConfigMap> = test_namespace.api();
        let logs = EventLog::of_every_kind(&test_namespace).await;
        let progress = Arc::new(watch::Sender::new(0));
        let n_written = progress.subscribe();
        let (stop, stopped) = watch::channel(false);
        let mut writers = Vec::new();
        for n in 0..WRITERS {
            let client = connect(&kubeconfig).await;
            let maps = Api::namespaced(client, &test_namespace.namespace);
            let writer = Writer::new(&format!("w{n}"), maps, progress.clone());
            writers.push(tokio::spawn(writer.write_until(stopped.clone())));
        }
        Self {
            maps,
            logs,
            writers,
            n_written,
            stop,
        }
    }

    /// Waits until the server has acknowledged `n_more` further writes.
    pub(crate) async fn written(&mut self, n_more: u64) {
        let until = *self.n_written.borrow() + n_more;
        let reached = self.n_written.wait_for(|n| *n >= until);
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        reached
            .expect("the writers get on")
            .expect("a writer is left");
    }

    /// Stops the writers, and compares their histories with the stored objects and with the events of the watchers.
    pub(crate) async fn finish(self) -> Summary {
        self.stop.send(true).unwrap();
        let done = tokio::time::timeout(TIMEOUT, join_all(self.writers)).await;
        let done = done.expect("the writers end").into_iter();
        let done: Vec<WriterResult> = done.map(Result::unwrap).collect();
        let last = config_map(LAST, []);
        self.maps
            .create(&PostParams::default(), &last)
            .await
            .unwrap();

        writers::check_collection(&self.maps, &done).await;
        let histories = writers::together(&done);
        writers::check_uids(&histories);
        for log in &self.logs {
            log.reached(LAST).await;
            log.check(&histories);
        }
        Summary {
            n_writes: histories.values().map(Vec::len).sum(),
            n_in_doubt: done.iter().map(|done| done.n_in_doubt).sum(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            n_writes,
            n_in_doubt,
        } = self;
        write!(
            out,
            "{n_writes} writes, {n_in_doubt} of them without a response"
        )
    }
}
