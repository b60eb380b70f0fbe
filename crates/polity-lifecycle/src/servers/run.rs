//! Watches what concerns policy servers, and reconciles those that are concerned.
//!
//! Every object that a server owns is watched: whatever is edited or deleted is restored at once, not in the next slow
//! round.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join_all};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
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

/// How many policy servers are reconciled at the same time.
const N_WORKERS: usize = 2;
/// How long changes are gathered before a reconcile: one switch of a policy alone is several changes of revisions.
const GATHER: Duration = Duration::from_secs(1);

impl Servers {
    /// Watches and reconciles until the shutdown, with the authority that is current.
    pub async fn run(self, authorities: Receiver<Authorities>, shutdown: Shutdown) {
        let queue = Queue::new(self.clock.clone());
        let failures = Mutex::new(BTreeMap::new());
        let workers = (0..N_WORKERS).map(|_| self.work(&queue, &failures, &authorities));
        let work = async {
            tokio::select! {
                () = Box::pin(self.watch(&queue)) => {}
                () = self.renew(&queue, authorities.clone()) => {}
                _ = join_all(workers) => {}
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
                        "policy server reconcile failed"
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
        let servers = watch(
            Api::<PolicyServer>::all(self.client.clone()),
            (),
            watcher::Config::default(),
            |event| {
                each(event, |server| queue.add(server.name_any()));
            },
        );
        let revisions = watch(
            self.namespaced::<PolicyRevision>(),
            (),
            watcher::Config::default().labels(known::REVISION_POLICY_SERVER),
            |event| {
                each(event, |revision| {
                    let server = revision.labels().get(known::REVISION_POLICY_SERVER);
                    if let Some(server) = server {
                        queue.add_after(server.clone(), GATHER);
                    }
                });
            },
        );
        // Replicas renew their Lease all the time; only its loss matters here.
        let leases = watch(
            self.namespaced::<PartialObjectMeta<Lease>>(),
            (),
            owned(),
            |event| {
                if let watcher::Event::Delete(lease) = event {
                    wake(queue, lease, Duration::ZERO);
                }
            },
        );
        let objects = [
            owned_objects(queue, self.namespaced::<StatefulSet>()),
            owned_objects(queue, self.namespaced::<PartialObjectMeta<Secret>>()),
            owned_objects(queue, self.namespaced::<PartialObjectMeta<ConfigMap>>()),
            owned_objects(queue, self.namespaced::<PartialObjectMeta<Service>>()),
            owned_objects(
                queue,
                self.namespaced::<PartialObjectMeta<PersistentVolumeClaim>>(),
            ),
            owned_objects(
                queue,
                self.namespaced::<PartialObjectMeta<PodDisruptionBudget>>(),
            ),
            owned_objects(
                queue,
                self.namespaced::<PartialObjectMeta<ServiceAccount>>(),
            ),
            owned_objects(queue, self.namespaced::<PartialObjectMeta<Role>>()),
            owned_objects(queue, self.namespaced::<PartialObjectMeta<RoleBinding>>()),
            owned_objects(
                queue,
                Api::<PartialObjectMeta<ClusterRoleBinding>>::all(self.client.clone()),
            ),
        ];
        tokio::join!(servers, revisions, leases, join_all(objects));
    }

    /// Reconciles every server when the authority changes.
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

/// Selects the objects that servers own.
fn owned() -> watcher::Config {
    watcher::Config::default().labels(known::WORKLOAD_POLICY_SERVER)
}

/// Watches the objects of one kind that servers own. A deleted object is restored at once: the deletion of a key revokes
/// it, and without a Service no request is judged.
fn owned_objects<K>(queue: &Queue<String>, api: Api<K>) -> BoxFuture<'_, ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned + Send + 'static,
{
    watch(api, (), owned(), |event| match event {
        watcher::Event::Delete(object) => wake(queue, object, Duration::ZERO),
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            wake(queue, object, GATHER);
        }
        watcher::Event::Init | watcher::Event::InitDone => {}
    })
    .boxed()
}

/// Asks for a reconcile of the server that an object belongs to.
fn wake(queue: &Queue<String>, object: &impl kube::ResourceExt, delay: Duration) {
    if let Some(server) = object.labels().get(known::WORKLOAD_POLICY_SERVER) {
        queue.add_after(server.clone(), delay);
    }
}

fn each<K: Resource>(event: &watcher::Event<K>, mut see: impl FnMut(&K)) {
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    match event {
        Apply(object) | InitApply(object) | Delete(object) => see(object),
        Init | InitDone => {}
    }
}
