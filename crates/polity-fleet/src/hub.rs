//! The hub: registers clusters, schedules placements, and propagates policies to the namespaces of clusters.
//!
//! One watch for each kind fills the caches of the model. Each controller has a queue, reads the caches and
//! writes through the API server; the controllers meet in no other way.

mod cluster_sets;
pub mod clusters;
pub mod conditions;
mod model;
pub mod placements;
mod policies;
mod policy_sets;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use polity_reconcile::{Controller, ControllerMetrics, Requeue, Term};
use polity_runtime::Clock;

use self::cluster_sets::ClusterSets;
use self::clusters::Clusters;
use self::model::HubModel;
use self::placements::Placements;
use self::policies::Policies;
use self::policy_sets::PolicySets;
use self::watches::{HubQueues, HubWatches};

/// How many root policies are reconciled at the same time.
const ROOT_POLICY_WORKERS: usize = 4;
/// How many clusters are reconciled at the same time.
const CLUSTER_WORKERS: usize = 4;

/// The controllers of a hub, as one unit that a process runs in each of its terms.
#[derive(Clone)]
pub struct HubController {
    /// The client that reads and, during a term, writes.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where watches and reconciles are counted.
    pub metrics: ControllerMetrics,
}

impl HubController {
    /// Runs until the term ends.
    pub async fn run(&self, term: &Term) {
        let client = term.guard(&self.client);
        let model = Arc::new(HubModel::default());
        let mut clusters = self
            .controller("managed-clusters")
            .with_workers(CLUSTER_WORKERS);
        let sets = self.controller("managed-cluster-sets");
        let set_bindings = self.controller("managed-cluster-set-bindings");
        let placements = self.controller("placements");
        let policies = self
            .controller("root-policies")
            .with_workers(ROOT_POLICY_WORKERS);
        let policy_sets = self.controller("policy-sets");
        let queues = HubQueues {
            clusters: clusters.queue(),
            cluster_sets: sets.queue(),
            set_bindings: set_bindings.queue(),
            placements: placements.queue(),
            policies: policies.queue(),
            policy_sets: policy_sets.queue(),
        };
        let (clock, of) = (&self.clock, || Arc::clone(&model));
        let cluster_reconciler = Clusters::new(&client, clock.clone(), of());
        let set_reconciler = ClusterSets::new(&client, clock.clone(), of());
        let binding_reconciler = set_reconciler.clone();
        let scheduler = Placements::new(&client, clock.clone(), of(), placements.queue());
        let propagator = Policies::new(&client, clock.clone(), of());
        let set_status = PolicySets::new(&client, clock.clone(), of());
        HubWatches {
            client: &self.client,
            clock: clock.clone(),
            model: of(),
            queues: queues.clone(),
        }
        .attach(&mut clusters, &cluster_reconciler.rights);
        for name in cluster_sets::BUILT_IN {
            queues.cluster_sets.add(name.to_owned());
        }
        tokio::join!(
            Box::pin(clusters.run(term, move |name| {
                let reconciler = cluster_reconciler.clone();
                async move { reconciler.reconcile(name).await }
            })),
            Box::pin(sets.run(term, move |name| {
                let reconciler = set_reconciler.clone();
                async move { reconciler.reconcile(name).await }
            })),
            Box::pin(set_bindings.run(term, move |key| {
                let reconciler = binding_reconciler.clone();
                async move { reconciler.reconcile_binding(key).await }
            })),
            Box::pin(placements.run(term, move |job| {
                let scheduler = scheduler.clone();
                async move { scheduler.reconcile(job).await }
            })),
            Box::pin(policies.run(term, move |key| {
                let propagator = propagator.clone();
                async move { propagator.reconcile(key).await }
            })),
            Box::pin(policy_sets.run(term, move |key| {
                let set_status = set_status.clone();
                async move { set_status.reconcile(key).await }
            })),
        );
    }

    fn controller<K>(&self, name: &'static str) -> Controller<K>
    where
        K: Ord + Clone + std::fmt::Display + Send + Sync + 'static,
    {
        Controller::new(name, self.clock.clone()).with_metrics(self.metrics.clone())
    }
}

/// Requeues a key at a time, or with the slow resync.
pub(crate) fn requeue_at(at: Option<Timestamp>, now: Timestamp) -> Requeue {
    match at {
        None => Requeue::Slowly,
        Some(at) => {
            let wait = Duration::try_from(now.duration_until(at)).unwrap_or_default();
            Requeue::After(wait)
        }
    }
}
