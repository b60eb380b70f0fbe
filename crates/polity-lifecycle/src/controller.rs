//! The controllers of policies and policy servers, as one unit that a process runs in each of its terms.

use std::time::Duration;

use kube::Client;
use polity_reconcile::{ControllerMetrics, Term};
use polity_runtime::Clock;
use tokio::sync::watch;
use tracing::warn;

use crate::certificates::{Authorities, CHECK_EVERY};
use crate::defaults::Defaults;
use crate::lifecycle::Settings;
use crate::metrics::PolicyMetrics;
use crate::objects::Setup;
use crate::policies::Lifecycle;
use crate::servers::{SecretError, Servers, ensure_authorities};
use crate::webhooks::Registration;

/// The Lease of the process that runs these controllers.
pub const CONTROLLER_LEASE: &str = "a4ddbf36.kubewarden.io";
/// How often revisions and webhooks without a policy are looked for.
const ORPHANS_EVERY: Duration = Duration::from_mins(10);
/// The pause after the authority could not be read or renewed.
const RETRY: Duration = Duration::from_secs(5);

/// The controllers of policies, policy servers, recommended policies and our own webhook configurations.
#[derive(Clone)]
pub struct LifecycleController {
    /// The client that reads and, during a term, writes.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// How policies are handled; the bundle of authorities is filled in.
    pub settings: Settings,
    /// How policy servers are set up.
    pub setup: Setup,
    /// The ConfigMap with recommended policies; `None` applies none.
    pub defaults_config_map: Option<String>,
    /// Where statuses are counted.
    pub policy_metrics: Option<PolicyMetrics>,
    /// Where watches and reconciles are counted.
    pub controller_metrics: ControllerMetrics,
    /// The configurations of the webhooks that this process serves; they are restored during a term. `None` when it
    /// serves none.
    pub registration: Option<Registration>,
}

impl LifecycleController {
    /// Runs until the term ends: first the certificates, then everything that needs them.
    pub async fn run(&self, term: &Term) {
        let client = term.guard(&self.client);
        let first = Box::pin(self.first_authorities(&client));
        let Some(authorities) = term.run_until(first).await else {
            return;
        };
        let mut settings = self.settings.clone();
        settings.ca_bundle = authorities.bundle();
        let (clock, metrics) = (&self.clock, &self.controller_metrics);
        let lifecycle = Lifecycle::new(client.clone(), clock.clone(), settings)
            .with_metrics(self.policy_metrics.clone(), metrics.clone());
        let servers = Servers::new(client.clone(), clock.clone(), self.setup.clone())
            .with_metrics(metrics.clone());
        let defaults = self.defaults_config_map.as_deref().map(|config_map| {
            let (client, namespace) = (client.clone(), &self.settings.namespace);
            Defaults::new(client, clock.clone(), namespace, config_map)
                .with_metrics(metrics.clone())
        });
        let registration = self.registration.clone();
        let (renewed, current) = watch::channel(authorities);
        tokio::join!(
            Box::pin(lifecycle.clone().run(term)),
            Box::pin(servers.run(current, term)),
            Box::pin(term.run_until(self.renew(&client, &lifecycle, &renewed))),
            Box::pin(term.run_until(self.collect(&lifecycle))),
            Box::pin(async {
                if let Some(registration) = registration {
                    registration.keep(metrics.clone(), term).await;
                }
            }),
            Box::pin(async {
                if let Some(defaults) = defaults {
                    defaults.run(term).await;
                }
            }),
        );
    }

    async fn first_authorities(&self, client: &Client) -> Authorities {
        loop {
            match self.authorities(client).await {
                Ok(authorities) => return authorities,
                Err(error) => self.report(&error).await,
            }
        }
    }

    /// Renews the authority. Webhooks trust the new one before any policy server serves with it.
    async fn renew(
        &self,
        client: &Client,
        lifecycle: &Lifecycle,
        renewed: &watch::Sender<Authorities>,
    ) {
        loop {
            self.clock.sleep(CHECK_EVERY).await;
            match self.authorities(client).await {
                Ok(authorities) => {
                    lifecycle.trust(&authorities.bundle());
                    self.clock.sleep(self.settings.drain).await;
                    renewed.send_replace(authorities);
                }
                Err(error) => self.report(&error).await,
            }
        }
    }

    async fn collect(&self, lifecycle: &Lifecycle) {
        loop {
            if let Err(error) = lifecycle.collect_orphans().await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not collect objects without a policy"
                );
            }
            self.clock.sleep(ORPHANS_EVERY).await;
        }
    }

    async fn authorities(&self, client: &Client) -> Result<Authorities, SecretError> {
        ensure_authorities(client, &self.settings.namespace, self.clock.now()).await
    }

    async fn report(&self, error: &SecretError) {
        warn!(
            error = error as &dyn std::error::Error,
            "could not read or renew the certificate authority"
        );
        self.clock.sleep(RETRY).await;
    }
}
