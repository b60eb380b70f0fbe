//! The controller of one process: it works while it leads, renews the authority, and stops in order.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use polity_runtime::lease::{BadTiming, Election, Elector, Leadership, LeaseTiming};
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::certificates::{Authorities, CHECK_EVERY};
use crate::defaults::Defaults;
use crate::lifecycle::Settings;
use crate::metrics::PolicyMetrics;
use crate::objects::Setup;
use crate::policies::Lifecycle;
use crate::servers::{SecretError, Servers, ensure_authorities};
use crate::webhooks::Registration;

/// The Lease of the controllers.
pub const CONTROLLER_LEASE: &str = "a4ddbf36.kubewarden.io";
/// How often revisions and webhooks without a policy are looked for.
const ORPHANS_EVERY: Duration = Duration::from_mins(10);
/// The pause after the authority could not be read or renewed.
const RETRY: Duration = Duration::from_secs(5);

/// Why the controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The timing of the election.
    #[error("taking part in the election")]
    Election(#[from] BadTiming),
}

/// The parts and settings of a controller.
#[derive(Clone)]
pub struct Controller {
    /// The client that reads and writes.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// How policies are handled; the bundle of authorities is filled in.
    pub settings: Settings,
    /// How policy servers are set up.
    pub setup: Setup,
    /// Its name in the election; `None` works without one.
    pub identity: Option<String>,
    /// Where it counts statuses.
    pub metrics: Option<PolicyMetrics>,
    /// The configurations of the webhooks that this process serves; they are restored while it leads. `None` when it
    /// serves none.
    pub registration: Option<Registration>,
}

impl Controller {
    /// Works until the shutdown, while it leads. The lease is released when all work has ended.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), ControllerError> {
        self.run_with_defaults(None, shutdown).await
    }

    /// Runs, and applies the recommended policies in a ConfigMap of this name.
    pub async fn run_with_defaults(
        self,
        config_map: Option<String>,
        shutdown: Shutdown,
    ) -> Result<(), ControllerError> {
        let defaults = config_map.map(|name| {
            let (client, clock) = (self.client.clone(), self.clock.clone());
            Defaults::new(client, clock, &self.settings.namespace, &name)
        });
        let Some(identity) = self.identity.clone() else {
            Box::pin(self.lead(defaults.as_ref(), shutdown)).await;
            return Ok(());
        };
        let elector = Elector::new(identity, LeaseTiming::default())?;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let (election, mut leadership) =
            Election::new(leases, CONTROLLER_LEASE, elector, self.clock.clone());
        let ended = Shutdown::new();
        let taking_part = election.run(ended.clone());
        let working = async {
            let is_leading = |now: &Leadership| matches!(now, Leadership::Leading { .. });
            let terms = async {
                while leadership.wait_for(is_leading).await.is_ok() {
                    let term = shutdown.child();
                    let lost = async {
                        let _ = leadership.wait_for(|now| !is_leading(now)).await;
                        term.trigger();
                    };
                    tokio::join!(self.lead(defaults.as_ref(), term.clone()), async {
                        tokio::select! {
                            () = lost => {}
                            () = term.triggered() => {}
                        }
                    });
                }
            };
            let _ = Box::pin(shutdown.run_until(terms)).await;
            ended.trigger();
        };
        tokio::join!(taking_part, working);
        Ok(())
    }

    /// One term as the leader: first the certificates, then everything that needs them.
    async fn lead(&self, defaults: Option<&Defaults>, term: Shutdown) {
        let Some(authorities) = Box::pin(term.run_until(self.first_authorities())).await else {
            return;
        };
        let mut settings = self.settings.clone();
        settings.ca_bundle = authorities.bundle();
        let lifecycle = Lifecycle::new(self.client.clone(), self.clock.clone(), settings)
            .with_metrics(self.metrics.clone());
        let servers = Servers::new(self.client.clone(), self.clock.clone(), self.setup.clone());
        let (renewed, current) = watch::channel(authorities);
        info!("leading");
        tokio::join!(
            lifecycle.clone().run(term.clone()),
            servers.run(current, term.clone()),
            Box::pin(term.run_until(self.renew(&lifecycle, &renewed))),
            Box::pin(term.run_until(self.collect(&lifecycle))),
            Box::pin(async {
                if let Some(registration) = &self.registration {
                    let _ = Box::pin(term.run_until(registration.keep())).await;
                }
            }),
            Box::pin(async {
                if let Some(defaults) = defaults {
                    defaults.run(term.clone()).await;
                }
            }),
        );
    }

    async fn first_authorities(&self) -> Authorities {
        loop {
            match self.authorities().await {
                Ok(authorities) => return authorities,
                Err(error) => self.complain(&error).await,
            }
        }
    }

    /// Renews the authority. Webhooks trust the new one before any policy server serves with it.
    async fn renew(&self, lifecycle: &Lifecycle, renewed: &watch::Sender<Authorities>) {
        loop {
            self.clock.sleep(CHECK_EVERY).await;
            match self.authorities().await {
                Ok(authorities) => {
                    lifecycle.trust(&authorities.bundle());
                    self.clock.sleep(self.settings.drain).await;
                    renewed.send_replace(authorities);
                }
                Err(error) => self.complain(&error).await,
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

    async fn authorities(&self) -> Result<Authorities, SecretError> {
        ensure_authorities(&self.client, &self.settings.namespace, self.clock.now()).await
    }

    async fn complain(&self, error: &SecretError) {
        warn!(
            error = error as &dyn std::error::Error,
            "could not read or renew the certificate authority"
        );
        self.clock.sleep(RETRY).await;
    }
}
