//! What wakes a policy server: itself, its workload, the loss of its keys, and what its policies serve.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt as _};
use polity_api::policies::names as known;
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_runtime::Shutdown;
use tokio::sync::watch::Receiver;
use tracing::warn;

use super::{Next, Servers};
use crate::certificates::Authorities;
use crate::shell::{Queue, pause, slow_round, watch};

/// How many policy servers are looked at side by side.
const N_WORKERS: usize = 2;
/// How long changes of revisions are gathered: a switch alone is several.
const GATHER: Duration = Duration::from_secs(1);

impl Servers {
    /// Watches and works until the shutdown, with the authority that is current.
    pub async fn run(self, authorities: Receiver<Authorities>, shutdown: Shutdown) {
        let queue = Queue::new(self.clock.clone());
        let failures = Mutex::new(BTreeMap::new());
        let workers = (0..N_WORKERS).map(|_| self.work(&queue, &failures, &authorities));
        let work = async {
            tokio::select! {
                () = Box::pin(self.watch(&queue)) => {}
                () = self.renew(&queue, authorities.clone()) => {}
                _ = futures::future::join_all(workers) => {}
            }
        };
        let _ = Box::pin(shutdown.run_until(work)).await;
    }

    async fn work(
        &self,
        queue: &Queue<String>,
        failures: &Mutex<BTreeMap<String, u32>>,
        authorities: &Receiver<Authorities>,
    ) {
        let count = |name: &String, has_failed: bool| {
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            if !has_failed {
                failures.remove(name);
                return 0;
            }
            let n_failures = failures.entry(name.clone()).or_default();
            *n_failures += 1;
            *n_failures
        };
        loop {
            let name = queue.next().await;
            let current = authorities.borrow().clone();
            let again = match Box::pin(self.reconcile(&name, &current)).await {
                Ok(next) => {
                    count(&name, false);
                    match next {
                        Next::Gone => None,
                        Next::After(delay) => Some(delay),
                        Next::Slowly => Some(slow_round()),
                    }
                }
                Err(error) => {
                    warn!(
                        name,
                        error = &error as &dyn std::error::Error,
                        "could not bring the policy server forward"
                    );
                    Some(pause(count(&name, true)))
                }
            };
            if let Some(delay) = again {
                queue.add_after(name.clone(), delay);
            }
            queue.done(&name);
        }
    }

    async fn watch(&self, queue: &Queue<String>) {
        let label = |object: &BTreeMap<String, String>, key: &str| object.get(key).cloned();
        let servers = watch(
            Api::<PolicyServer>::all(self.client.clone()),
            (),
            watcher::Config::default(),
            |event| {
                each(event, |server| queue.add(server.name_any()));
            },
        );
        let workloads = watch(
            self.namespaced::<StatefulSet>(),
            (),
            watcher::Config::default().labels(known::WORKLOAD_POLICY_SERVER),
            |event| {
                each(event, |workload| {
                    if let Some(server) = label(workload.labels(), known::WORKLOAD_POLICY_SERVER) {
                        queue.add_after(server, GATHER);
                    }
                });
            },
        );
        // Whoever deletes a key revokes it: the next one is made at once, not in the next slow round.
        let secrets = watch(
            self.namespaced::<PartialObjectMeta<Secret>>(),
            (),
            watcher::Config::default().labels(known::WORKLOAD_POLICY_SERVER),
            |event| {
                if let watcher::Event::Delete(secret) = event
                    && let Some(server) = label(secret.labels(), known::WORKLOAD_POLICY_SERVER)
                {
                    queue.add(server);
                }
            },
        );
        let revisions = watch(
            self.namespaced::<PolicyRevision>(),
            (),
            watcher::Config::default().labels(known::REVISION_POLICY_SERVER),
            |event| {
                each(event, |revision| {
                    if let Some(server) = label(revision.labels(), known::REVISION_POLICY_SERVER) {
                        queue.add_after(server, GATHER);
                    }
                });
            },
        );
        tokio::join!(servers, workloads, secrets, revisions);
    }

    /// Has another look at every server when the authority changes.
    async fn renew(&self, queue: &Queue<String>, mut authorities: Receiver<Authorities>) {
        while authorities.changed().await.is_ok() {
            let servers: Api<PolicyServer> = Api::all(self.client.clone());
            match servers
                .list_metadata(&kube::api::ListParams::default())
                .await
            {
                Ok(all) => all.iter().for_each(|server| queue.add(server.name_any())),
                Err(error) => warn!(
                    error = &error as &dyn std::error::Error,
                    "could not list the policy servers"
                ),
            }
        }
        std::future::pending::<()>().await;
    }
}

fn each<K: Resource>(event: &watcher::Event<K>, mut see: impl FnMut(&K)) {
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    match event {
        Apply(object) | InitApply(object) | Delete(object) => see(object),
        Init | InitDone => {}
    }
}
