//! The agent of a managed cluster: it copies policies from the hub, applies their templates, and reports compliance.
//!
//! The agent reads and writes one namespace of the hub, that of its cluster, and works in one namespace of the managed
//! cluster. It goes on when one of the two API servers does not answer, and catches up afterwards.

mod compliance_event;
mod configuration;
pub mod heartbeat;
mod model;
mod objects;
pub mod spec_sync;
pub mod status_sync;
mod template_sync;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use polity_reconcile::{Controller, ControllerMetrics, Term};
use polity_runtime::Clock;

use self::configuration::{ChangedReads, ConfigurationPolicies};
use self::heartbeat::Heartbeat;
use self::model::AgentModel;
use self::objects::ManagedObjects;
use self::spec_sync::SpecSyncer;
use self::status_sync::StatusSyncer;
use self::template_sync::TemplateSyncer;
use self::watches::{AgentQueues, AgentWatches};

/// How many policies each controller reconciles at the same time.
const WORKERS: usize = 2;

/// The agent of one cluster.
#[derive(Clone)]
pub struct Agent {
    /// The name of the cluster, which is also its namespace on the hub.
    pub cluster: String,
    /// The namespace of the policies on the managed cluster.
    pub namespace: String,
    /// The client of the hub, with the rights of this cluster's agent.
    pub hub_client: Client,
    /// The client of the managed cluster.
    pub managed_client: Client,
    /// The time.
    pub clock: Clock,
    /// How often the agent renews its Lease.
    pub heartbeat: Duration,
    /// Where watches and reconciles are counted.
    pub metrics: ControllerMetrics,
}

impl Agent {
    /// Runs until the term ends.
    pub async fn run(&self, term: &Term) {
        let managed_client = term.guard(&self.managed_client);
        let hub_client = term.guard(&self.hub_client);
        let mut specs = self.controller("policy-spec-sync");
        let templates = self.controller("policy-template-sync");
        let statuses = self.controller("policy-status-sync");
        let configurations = self.controller("configuration-policies");
        let changed_reads = ChangedReads::default();
        let queues = AgentQueues {
            configurations: configurations.queue(),
            changed_reads: changed_reads.clone(),
            specs: specs.queue(),
            templates: templates.queue(),
            statuses: statuses.queue(),
        };
        let model = Arc::new(AgentModel::default());
        let objects = Arc::new(ManagedObjects::new(self, queues.clone()));
        AgentWatches {
            agent: self,
            model: Arc::clone(&model),
            objects: Arc::clone(&objects),
            queues: queues.clone(),
        }
        .attach(&mut specs);
        let heartbeat = Heartbeat::new(self, &hub_client, Arc::clone(&model));
        let spec_syncer =
            SpecSyncer::new(self, &managed_client, Arc::clone(&model), queues.clone());
        let template_syncer = TemplateSyncer::new(
            self,
            &managed_client,
            Arc::clone(&model),
            Arc::clone(&objects),
            queues.clone(),
        );
        let evaluator = ConfigurationPolicies::new(self, &managed_client, objects, changed_reads);
        let status_syncer = StatusSyncer::new(
            self,
            &hub_client,
            &managed_client,
            model,
            template_syncer.clone(),
        );
        tokio::join!(
            Box::pin(term.run_until(heartbeat.run())),
            Box::pin(specs.run(term, move |name| {
                let syncer = spec_syncer.clone();
                async move { syncer.reconcile(name).await }
            })),
            Box::pin(templates.run(term, move |name| {
                let syncer = template_syncer.clone();
                async move { syncer.reconcile(name).await }
            })),
            Box::pin(configurations.run(term, move |name| {
                let evaluator = evaluator.clone();
                async move { evaluator.reconcile(name).await }
            })),
            Box::pin(statuses.run(term, move |name| {
                let syncer = status_syncer.clone();
                async move { syncer.reconcile(name).await }
            })),
        );
    }

    fn controller(&self, name: &'static str) -> Controller<String> {
        Controller::new(name, self.clock.clone())
            .with_workers(WORKERS)
            .with_metrics(self.metrics.clone())
    }
}
