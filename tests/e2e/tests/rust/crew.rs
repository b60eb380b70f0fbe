//! Four writers and every kind of watcher behind them, on a server that comes and goes.

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

use crate::host::Host;
use crate::ledger::Ledger;
use crate::world::{World, connect};
use crate::writers::{self, Done, Writer};

const WRITERS: usize = 4;
/// Written when everything else is done, so whoever has seen it has seen all.
const LAST: &str = "zz-last";
/// No stretch of writes takes longer on any machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Writers and watchers at work.
pub(crate) struct Crew {
    maps: Api<ConfigMap>,
    ledgers: Vec<Ledger>,
    writers: Vec<JoinHandle<Done>>,
    n_written: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
}

/// What a crew has to tell when everything was as it should be.
pub(crate) struct Summary {
    pub(crate) n_writes: usize,
    /// Writes of which the answer was lost, so that their writer had to look.
    pub(crate) n_in_doubt: u64,
}

impl Crew {
    /// Everybody starts, with a connection each.
    pub(crate) async fn start(host: &Host) -> Self {
        let kubeconfig = host.kubeconfig();
        let world = World::create(connect(&kubeconfig).await, "crew").await;
        let maps: Api<ConfigMap> = world.api();
        let ledgers = Ledger::of_every_kind(&world).await;
        let progress = Arc::new(watch::Sender::new(0));
        let n_written = progress.subscribe();
        let (stop, stopped) = watch::channel(false);
        let mut writers = Vec::new();
        for n in 0..WRITERS {
            let client = connect(&kubeconfig).await;
            let maps = Api::namespaced(client, &world.namespace);
            let writer = Writer::new(&format!("w{n}"), maps, progress.clone());
            writers.push(tokio::spawn(writer.write_until(stopped.clone())));
        }
        Self {
            maps,
            ledgers,
            writers,
            n_written,
            stop,
        }
    }

    /// Waits for so many more acknowledged writes.
    pub(crate) async fn written(&mut self, n_more: u64) {
        let until = *self.n_written.borrow() + n_more;
        let reached = self.n_written.wait_for(|n| *n >= until);
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached
            .expect("the writers get on")
            .expect("a writer is left");
    }

    /// Stops the writers and compares what they did, what is there and what the watchers saw.
    pub(crate) async fn finish(self) -> Summary {
        self.stop.send(true).unwrap();
        let done = tokio::time::timeout(PATIENCE, join_all(self.writers)).await;
        let done = done.expect("the writers end").into_iter();
        let done: Vec<Done> = done.map(Result::unwrap).collect();
        let last = config_map(LAST, []);
        self.maps
            .create(&PostParams::default(), &last)
            .await
            .unwrap();

        writers::check_collection(&self.maps, &done).await;
        let histories = writers::together(&done);
        writers::check_uids(&histories);
        for ledger in &self.ledgers {
            ledger.reached(LAST).await;
            ledger.check(&histories);
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
            "{n_writes} writes, {n_in_doubt} of them without an answer"
        )
    }
}
