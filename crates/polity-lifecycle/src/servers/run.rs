//! Watches what concerns policy servers, and reconciles those that are concerned.
//!
//! Every object that a server owns is watched: whatever is edited or deleted is restored at once, not in the next slow
//! round.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt as _};
use polity_api::policies::names as known;
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_reconcile::{Controller, Queue, Seen, Term, Watch};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;
use tracing::warn;

use super::Servers;
use crate::certificates::Authorities;

/// How many policy servers are reconciled at the same time.
const N_WORKERS: usize = 2;
/// How long changes are gathered before a reconcile: one switch of a policy alone is several changes of revisions.
const GATHER: Duration = Duration::from_secs(1);

impl Servers {
    /// Watches and reconciles until the term ends, with the authority that is current.
    pub async fn run(self, authorities: Receiver<Authorities>, term: &Term) {
        let mut controller = Controller::new("policy-servers", self.clock.clone())
            .with_workers(N_WORKERS)
            .with_metrics(self.metrics.clone());
        self.watch(&mut controller);
        let renewal = self.clone();
        let renewal = renewal.requeue_on_renewal(controller.queue(), authorities.clone());
        controller.background(renewal);
        let reconcile = move |name: String| {
            let (servers, current) = (self.clone(), authorities.borrow().clone());
            async move { servers.reconcile(&name, &current).await }
        };
        controller.run(term, reconcile).await;
    }

    fn watch(&self, controller: &mut Controller<String>) {
        controller.watch(
            Watch::<PolicyServer>::all(&self.client),
            |server| Some(server.name_any()),
            |queue, server, _| queue.add(server.clone()),
        );
        controller.watch(
            self.watch_namespaced::<PolicyRevision>()
                .labels(known::REVISION_POLICY_SERVER),
            |revision| {
                let server = revision.labels().get(known::REVISION_POLICY_SERVER);
                server.cloned()
            },
            |queue, server, _| queue.add_after(server.clone(), GATHER),
        );
        // Replicas renew their Lease all the time; only its loss matters here.
        controller.watch(
            self.watch_namespaced::<PartialObjectMeta<Lease>>()
                .labels(known::WORKLOAD_POLICY_SERVER),
            server_of,
            |queue, server, seen| {
                if seen == Seen::Deleted {
                    queue.add(server.clone());
                }
            },
        );
        watch_owned(controller, self.watch_namespaced::<StatefulSet>());
        self.watch_owned::<Secret>(controller);
        self.watch_owned::<ConfigMap>(controller);
        self.watch_owned::<Service>(controller);
        self.watch_owned::<PersistentVolumeClaim>(controller);
        self.watch_owned::<PodDisruptionBudget>(controller);
        self.watch_owned::<ServiceAccount>(controller);
        self.watch_owned::<Role>(controller);
        self.watch_owned::<RoleBinding>(controller);
        watch_owned(
            controller,
            Watch::<PartialObjectMeta<ClusterRoleBinding>>::all(&self.client),
        );
    }

    /// Watches the metadata of the objects of one kind that servers own.
    fn watch_owned<K>(&self, controller: &mut Controller<String>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        watch_owned(controller, self.watch_namespaced::<PartialObjectMeta<K>>());
    }

    fn watch_namespaced<K>(&self) -> Watch<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Watch::namespaced(&self.client, &self.setup.namespace)
    }

    /// Queues every server whenever the authority changes.
    async fn requeue_on_renewal(
        self,
        queue: Queue<String>,
        mut authorities: Receiver<Authorities>,
    ) {
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
    }
}

/// Watches the objects of one kind that servers own. A deleted object is restored at once: the deletion of a key revokes
/// it, and without a Service no request is judged.
fn watch_owned<K>(controller: &mut Controller<String>, watch: Watch<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    controller.watch(
        watch.labels(known::WORKLOAD_POLICY_SERVER),
        server_of,
        |queue, server, seen| match seen {
            Seen::Deleted => queue.add(server.clone()),
            Seen::Applied => queue.add_after(server.clone(), GATHER),
        },
    );
}

/// The server that an object belongs to.
fn server_of(object: &impl Resource) -> Option<String> {
    let labels = object.meta().labels.as_ref();
    labels?.get(known::WORKLOAD_POLICY_SERVER).cloned()
}
