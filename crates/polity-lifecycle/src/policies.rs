//! Reconciles policies: watches what concerns them, and for each reads, plans and writes until nothing is left to write.
//!
//! One policy is reconciled by one task at a time, from a state at least as new as its own last writes. Only the holder
//! of the lease may run this.

mod apply;
mod events;
mod observe;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use polity_runtime::{Clock, Shutdown};
use tracing::{debug, info, warn};

use self::apply::Outcome;
use self::watch::Index;
use crate::lifecycle::{Plan, PolicyError, Settings, Write};
use crate::metrics::PolicyMetrics;
use crate::shell::{Queue, pause, slow_round};

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
    settings: Arc<Mutex<Settings>>,
    index: Arc<Mutex<Index>>,
    queue: Arc<Queue<PolicyKey>>,
    metrics: Option<PolicyMetrics>,
    /// How often each policy failed in a row.
    failures: Arc<Mutex<BTreeMap<PolicyKey, u32>>>,
}

impl Lifecycle {
    /// A reconciler that writes through this client.
    pub fn new(client: Client, clock: Clock, settings: Settings) -> Self {
        Self {
            queue: Arc::new(Queue::new(clock.clone())),
            index: Arc::default(),
            failures: Arc::default(),
            client,
            clock,
            settings: Arc::new(Mutex::new(settings)),
            metrics: None,
        }
    }

    /// Counts the statuses it writes.
    #[must_use]
    pub fn with_metrics(self, metrics: Option<PolicyMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Puts other certificates into every webhook.
    pub fn trust(&self, ca_bundle: &str) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if settings.ca_bundle == ca_bundle {
            return;
        }
        ca_bundle.clone_into(&mut settings.ca_bundle);
        drop(settings);
        for key in self.index(|index| index.keys()) {
            self.queue.add(key);
        }
    }

    fn settings(&self) -> Settings {
        let settings = self.settings.lock();
        settings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches and works until the shutdown.
    pub async fn run(self, shutdown: Shutdown) {
        let workers = (0..N_WORKERS).map(|_| self.work());
        let watches = Box::pin(watch::run(&self));
        let work = async {
            tokio::select! {
                () = watches => {}
                _ = futures::future::join_all(workers) => {}
            }
        };
        let _ = Box::pin(shutdown.run_until(work)).await;
    }

    async fn work(&self) {
        loop {
            let key = self.queue.next().await;
            let again = match Box::pin(self.reconcile(&key)).await {
                Ok(next) => self.succeeded(&key, next),
                Err(error) => Some(self.failed(&key, &error)),
            };
            if let Some(delay) = again {
                self.queue.add_after(key.clone(), delay);
            }
            self.queue.done(&key);
        }
    }

    /// Deletes revisions and webhooks whose policy no longer exists.
    pub async fn collect_orphans(&self) -> Result<(), ReconcileError> {
        let namespace = self.settings().namespace;
        for write in observe::orphans(&self.client, &namespace).await? {
            apply::delete_orphan(&self.client, &namespace, &write).await?;
        }
        Ok(())
    }

    /// Reads, plans and writes for one policy until there is nothing left to write.
    pub async fn reconcile(&self, key: &PolicyKey) -> Result<Next, ReconcileError> {
        let mut refusal = None;
        for _ in 0..MOST_ROUNDS {
            let rivals = self.index(|index| index.rivals(key));
            let observed = observe::observe(&self.client, key, &self.settings(), &rivals).await?;
            let Some(mut observed) = observed else {
                return Ok(Next::Gone);
            };
            observed.refusal.clone_from(&refusal);
            let now = self.clock.now();
            let plan = Plan::of(&observed, now);
            if plan.steps.is_empty() {
                return Ok(match (plan.look_again_at, refusal) {
                    (_, Some(_)) => Next::Retry,
                    (Some(when), None) => {
                        let delay = Duration::try_from(when.duration_since(now));
                        Next::After(delay.unwrap_or_default())
                    }
                    (None, None) => Next::Slowly,
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

    fn succeeded(&self, key: &PolicyKey, next: Next) -> Option<Duration> {
        let n_failures = self.count(key, next == Next::Retry);
        match next {
            Next::Gone => None,
            Next::After(delay) => Some(delay),
            Next::Slowly => Some(slow_round()),
            Next::Retry => Some(pause(n_failures)),
        }
    }

    fn failed(&self, key: &PolicyKey, error: &ReconcileError) -> Duration {
        warn!(
            policy = key.name,
            kind = key.kind.as_str(),
            error = error as &dyn std::error::Error,
            "policy reconcile failed"
        );
        pause(self.count(key, true))
    }

    fn count(&self, key: &PolicyKey, has_failed: bool) -> u32 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_failed {
            failures.remove(key);
            return 0;
        }
        let count = failures.entry(key.clone()).or_default();
        *count += 1;
        *count
    }

    fn index<T>(&self, ask: impl FnOnce(&mut Index) -> T) -> T {
        ask(&mut self.index.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// When to reconcile a policy again, if nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Never: it does not exist.
    Gone,
    /// After this time.
    After(Duration),
    /// With the usual slow round.
    Slowly,
    /// Soon: the API server refused something.
    Retry,
}
