//! Reconciles policies: watches what concerns them, and for each reads, plans and writes until nothing is left to write.
//!
//! One policy is reconciled by one task at a time, from a state at least as new as its own last writes. Only the holder
//! of the lease may run this.

mod apply;
mod events;
mod observe;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use polity_reconcile::{
    Cache, Controller, ControllerMetrics, Queue, Requeue, SharedCache, Term, WriteError,
};
use polity_runtime::Clock;
use tokio::sync::watch as channel;
use tracing::{debug, info};

use self::apply::Outcome;
use self::watch::{IndexEntry, PolicyCache};
use crate::lifecycle::{Plan, PolicyError, Settings, Write};
use crate::metrics::PolicyMetrics;

pub use polity_core::PolicyKey;

pub(crate) use observe::{configuration_resource, configurations};

/// The name under which the controller writes.
const MANAGER: &str = "polity/lifecycle";
/// How many policies are reconciled at the same time.
const N_WORKERS: usize = 8;
/// How often a policy is read and planned in one reconcile; far more than any plan needs.
const MOST_ROUNDS: usize = 40;

/// Why a reconcile of a policy failed. It is retried.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A request to the API server failed.
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What is stored is not a policy.
    #[error("reading the policy")]
    Policy(#[from] PolicyError),
    /// The plans did not become empty.
    #[error("still something to write after {MOST_ROUNDS} rounds")]
    Restless,
}

/// The reconciler of policies.
#[derive(Clone)]
pub struct Lifecycle {
    client: Client,
    clock: Clock,
    settings: Settings,
    /// The certificates that webhooks trust. They take the place of those in the settings.
    ca_bundle: Arc<channel::Sender<String>>,
    policies: PolicyCache,
    metrics: Option<PolicyMetrics>,
    controller_metrics: ControllerMetrics,
}

impl Lifecycle {
    /// A reconciler that writes through this client.
    pub fn new(client: Client, clock: Clock, settings: Settings) -> Self {
        Self {
            client,
            clock,
            ca_bundle: Arc::new(channel::Sender::new(settings.ca_bundle.clone())),
            settings,
            policies: SharedCache::new(Cache::new(watch::index_entries)),
            metrics: None,
            controller_metrics: ControllerMetrics::default(),
        }
    }

    /// Counts the statuses that it writes, and what the controller kit counts.
    #[must_use]
    pub fn with_metrics(
        self,
        metrics: Option<PolicyMetrics>,
        controller_metrics: ControllerMetrics,
    ) -> Self {
        Self {
            metrics,
            controller_metrics,
            ..self
        }
    }

    /// Puts other certificates into every webhook.
    pub fn trust(&self, ca_bundle: &str) {
        self.ca_bundle.send_if_modified(|current| {
            let is_new = current != ca_bundle;
            ca_bundle.clone_into(current);
            is_new
        });
    }

    fn settings(&self) -> Settings {
        Settings {
            ca_bundle: self.ca_bundle.borrow().clone(),
            ..self.settings.clone()
        }
    }

    /// Watches and reconciles until the term ends.
    pub async fn run(self, term: &Term) {
        let mut controller = Controller::new("policies", self.clock.clone())
            .with_workers(N_WORKERS)
            .with_metrics(self.controller_metrics.clone());
        self.watch(&mut controller);
        let renewal = self.clone().requeue_on_renewal(controller.queue());
        controller.background(renewal);
        let reconcile = move |key: PolicyKey| {
            let lifecycle = self.clone();
            async move { lifecycle.reconcile(&key).await }
        };
        controller.run(term, reconcile).await;
    }

    /// Queues every policy whenever webhooks have to trust other certificates.
    async fn requeue_on_renewal(self, queue: Queue<PolicyKey>) {
        let mut ca_bundle = self.ca_bundle.subscribe();
        while ca_bundle.changed().await.is_ok() {
            let keys = self.policies.read(|policies| {
                let keys = policies.iter().map(|(key, _)| key.clone());
                keys.collect::<Vec<_>>()
            });
            for key in keys {
                queue.add(key);
            }
        }
    }

    /// Deletes revisions and webhooks whose policy no longer exists.
    pub async fn collect_orphans(&self) -> Result<(), ReconcileError> {
        let namespace = self.settings().namespace;
        for write in observe::orphans(&self.client, &namespace).await? {
            apply::delete_orphan(&self.client, &write).await?;
        }
        Ok(())
    }

    /// Reads, plans and writes for one policy until there is nothing left to write.
    pub async fn reconcile(&self, key: &PolicyKey) -> Result<Requeue, ReconcileError> {
        let mut refusal = None;
        for _ in 0..MOST_ROUNDS {
            let rivals = self.rivals(key);
            let observed = observe::observe(&self.client, key, &self.settings(), &rivals).await?;
            let Some(mut observed) = observed else {
                return Ok(Requeue::Never);
            };
            observed.refusal.clone_from(&refusal);
            let now = self.clock.now();
            let plan = Plan::of(&observed, now);
            if plan.steps.is_empty() {
                return Ok(match (plan.look_again_at, refusal) {
                    (_, Some(_)) => Requeue::WithBackoff,
                    (Some(when), None) => {
                        let delay = Duration::try_from(when.duration_since(now));
                        Requeue::After(delay.unwrap_or_default())
                    }
                    (None, None) => Requeue::Slowly,
                });
            }
            for step in &plan.steps {
                match apply::apply(&self.client, key, &observed, step).await? {
                    Outcome::Done(events) => {
                        for event in &events {
                            info!(
                                policy = key.name,
                                kind = key.kind.as_str(),
                                reason = event.reason.as_str(),
                                note = event.note,
                                "policy status changed"
                            );
                        }
                        if let (Write::UpdatePolicyStatus(status), Some(metrics)) =
                            (&step.write, &self.metrics)
                        {
                            metrics.count(&observed.policy, status);
                        }
                        events::publish(&self.client, &observed.policy, &events, now).await;
                    }
                    Outcome::Conflict => break,
                    Outcome::Refused(what) => {
                        debug!(policy = key.name, refusal = ?what, "the API server refused a write");
                        refusal = Some(what);
                        break;
                    }
                }
            }
        }
        Err(ReconcileError::Restless)
    }

    /// The other policies that would have the same classic id.
    fn rivals(&self, key: &PolicyKey) -> Vec<PolicyKey> {
        let entry = IndexEntry::classic_id(key);
        self.policies.read(|policies| {
            let same = policies.find(&entry);
            same.filter(|other| *other != key).cloned().collect()
        })
    }
}
