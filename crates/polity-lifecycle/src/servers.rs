//! Reconciles PolicyServers: applies their objects, renews their certificates, and writes their status.
//!
//! Every object is applied under our own field manager. An object of the same name that another owner made is never
//! changed; the status names it.

mod cache;
mod callers;
mod ensure;
mod run;
mod secrets;
mod status;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use polity_api::policies::names as known;
use polity_api::policies::v1::{PolicyRevision, PolicyServer, PolicyServerConditionType};
use polity_reconcile::{ControllerMetrics, Requeue, WriteError, Writer};
use polity_runtime::Clock;

use crate::certificates::Authorities;
use crate::names;
use crate::objects::{self, Setup};
use crate::webhooks::ServedPolicies;
use callers::Caller;
use ensure::is_owned_by;
use status::Counts;

pub use secrets::{SecretError, ensure_authorities, ensure_webhook_certificate};

/// The name under which the objects of policy servers are written.
const MANAGER: &str = "polity/policy-servers";
/// The pause before the next look at a server that is being deleted while webhooks still call it, or whose webhooks do
/// not trust a new authority yet.
const RECHECK: Duration = Duration::from_secs(2);
/// The pause before the next look at an object of another owner that has a name this server needs. The objects of a
/// deleted server of the same name are garbage collected.
const IN_THE_WAY: Duration = Duration::from_secs(5);

/// Why an object of a policy server could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A request to the API server failed.
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A certificate could not be made or stored.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// An object of this name is not ours.
    #[error("{kind} {name} is {owner} and is left alone")]
    Foreign {
        /// The kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// Its owner.
        owner: String,
    },
    /// The claim of the cache finds no volume.
    #[error("the claim {claim} is not bound: {words}")]
    Unbound {
        /// The claim.
        claim: String,
        /// The last Event about it.
        words: String,
    },
    /// Some webhook would refuse the new serving certificate.
    #[error(
        "waiting until every webhook trusts the new authority; the previous certificate is served meanwhile"
    )]
    NotTrustedYet,
    /// Webhooks still call a server that is being deleted.
    #[error("webhooks of policies that still call this server: {n_callers}")]
    StillCalled {
        /// How many.
        n_callers: usize,
    },
    /// The server asks for signatures to be verified.
    #[error(
        "verificationConfig is set, and this release cannot verify signatures: nothing is served unverified"
    )]
    Verification,
}

/// What became of the objects that one condition reports about: its message, or why they could not be applied.
type Outcome = (PolicyServerConditionType, Result<String, ServerError>);

/// The reconciler of PolicyServers.
#[derive(Clone)]
pub struct Servers {
    client: Client,
    clock: Clock,
    setup: Arc<Setup>,
    metrics: ControllerMetrics,
}

impl Servers {
    /// A reconciler that writes through this client.
    pub fn new(client: Client, clock: Clock, setup: Setup) -> Self {
        Self {
            client,
            clock,
            setup: Arc::new(setup),
            metrics: ControllerMetrics::default(),
        }
    }

    /// Counts what the controller kit counts.
    #[must_use]
    pub fn with_metrics(self, metrics: ControllerMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Reconciles one PolicyServer.
    pub async fn reconcile(
        &self,
        name: &str,
        authorities: &Authorities,
    ) -> Result<Requeue, ServerError> {
        let servers: Api<PolicyServer> = Api::all(self.client.clone());
        let Some(server) = servers.get_opt(name).await? else {
            return Ok(Requeue::Never);
        };
        let writer = Writer::new(&self.client, MANAGER);
        if server.metadata.deletion_timestamp.is_some() {
            return self.release(&writer, server).await;
        }
        let finalizers = server.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|one| one == known::FINALIZER) {
            let mut held = server.clone();
            let kept = finalizers
                .into_iter()
                .filter(|one| one != known::OLD_FINALIZER);
            held.metadata.finalizers = Some(kept.chain([known::FINALIZER.to_owned()]).collect());
            writer.update(&held).await?;
            return Ok(Requeue::After(Duration::ZERO));
        }
        let revisions = self.revisions(name).await?;
        let outcomes = self.make(&server, &revisions, authorities).await;
        let counts = self.counts(name, &revisions).await?;
        let status = status::of(&server, &outcomes, counts, self.clock.now());
        writer.apply_status(&server, &status).await?;
        let mut next = if self.is_cache_bound(&server).await? {
            Requeue::Slowly
        } else {
            Requeue::After(cache::PATIENCE)
        };
        for error in outcomes.into_iter().filter_map(|(_, result)| result.err()) {
            match error {
                ServerError::Api(_) | ServerError::Write(_) | ServerError::Secret(_) => {
                    return Err(error);
                }
                // The status shows what a user has to change.
                ServerError::Foreign { .. } => next = Requeue::After(IN_THE_WAY),
                ServerError::NotTrustedYet => next = Requeue::After(RECHECK),
                ServerError::Unbound { .. }
                | ServerError::Verification
                | ServerError::StillCalled { .. } => {}
            }
        }
        Ok(next)
    }

    /// The replicas of a server, and the policies that it serves.
    async fn counts(
        &self,
        name: &str,
        revisions: &[PolicyRevision],
    ) -> Result<Counts, ServerError> {
        let workloads: Api<StatefulSet> = self.namespaced();
        let workload = workloads.get_opt(&names::stateful_set(name)).await?;
        let status = workload.and_then(|workload| workload.status);
        let served = ServedPolicies::of(revisions, false);
        Ok(Counts {
            n_replicas: status.as_ref().map_or(0, |status| status.replicas),
            n_ready: status
                .and_then(|status| status.ready_replicas)
                .unwrap_or_default(),
            n_policies: i32::try_from(served.n_protecting + served.n_monitoring).ok(),
        })
    }

    /// Applies every object. Each outcome is the condition that reports it.
    async fn make(
        &self,
        server: &PolicyServer,
        revisions: &[PolicyRevision],
        authorities: &Authorities,
    ) -> Vec<Outcome> {
        use PolicyServerConditionType as Type;
        if server.spec.verification_config.is_some() {
            return vec![(Type::StatefulSetReconciled, Err(ServerError::Verification))];
        }
        let setup = &*self.setup;
        let now = self.clock.now();
        let outcomes = [
            (Type::CARootSecretReconciled, Ok(())),
            (
                Type::CertSecretReconciled,
                secrets::ensure(&self.client, setup, server, authorities, now).await,
            ),
            (
                Type::ConfigMapReconciled,
                self.make_config(server, revisions).await,
            ),
            (Type::ServiceReconciled, self.make_services(server).await),
            (
                Type::PodDisruptionBudgetReconciled,
                self.make_budget(server).await,
            ),
            (Type::CacheReconciled, self.make_claim(server).await),
            (
                Type::StatefulSetReconciled,
                self.make_workload(server).await,
            ),
        ];
        outcomes
            .into_iter()
            .map(|(type_, result)| {
                (
                    type_,
                    result.map(|()| status::success(type_, server, setup)),
                )
            })
            .collect()
    }

    async fn make_config(
        &self,
        server: &PolicyServer,
        revisions: &[PolicyRevision],
    ) -> Result<(), ServerError> {
        let mut serving: Vec<_> = revisions
            .iter()
            .filter(|one| one.spec.enabled && one.annotations().contains_key(known::SERVING))
            .cloned()
            .collect();
        // While an update drains, two generations of a policy serve; the newer one is written.
        serving.sort_by_key(|one| one.spec.policy_generation);
        let config: ConfigMap = objects::config_map(server, &self.setup, &serving);
        self.ensure(server, &config).await
    }

    /// The revisions that are meant for a server.
    async fn revisions(&self, server: &str) -> Result<Vec<PolicyRevision>, ServerError> {
        let revisions: Api<PolicyRevision> = self.namespaced();
        let selector = format!("{}={server}", known::REVISION_POLICY_SERVER);
        let of_server = ListParams::default().labels(&selector);
        Ok(revisions.list(&of_server).await?.items)
    }

    async fn make_services(&self, server: &PolicyServer) -> Result<(), ServerError> {
        self.ensure(server, &objects::service(server, &self.setup))
            .await?;
        self.ensure(server, &objects::peers(server, &self.setup))
            .await
    }

    async fn make_budget(&self, server: &PolicyServer) -> Result<(), ServerError> {
        if let Some(budget) = objects::disruption_budget(server, &self.setup) {
            return self.ensure(server, &budget).await;
        }
        let budgets: Api<PodDisruptionBudget> = self.namespaced();
        let found = budgets
            .get_opt(&names::policy_server(&server.name_any()))
            .await?;
        if let Some(found) = found.filter(|found| is_owned_by(found, server)) {
            let writer = Writer::<PodDisruptionBudget>::new(&self.client, MANAGER);
            writer.delete(&found.metadata).await?;
        }
        Ok(())
    }

    /// Removes the finalizer of a policy server once no webhook calls it any more.
    async fn release(
        &self,
        writer: &Writer<PolicyServer>,
        mut server: PolicyServer,
    ) -> Result<Requeue, ServerError> {
        let service = names::policy_server(&server.name_any());
        let callers = Caller::list(&self.client, &self.setup.namespace, &service).await?;
        if !callers.is_empty() {
            let status = status::of_deletion(&server, callers.len(), self.clock.now());
            writer.apply_status(&server, &status).await?;
            return Ok(Requeue::After(RECHECK));
        }
        let Some(finalizers) = server.metadata.finalizers.as_mut() else {
            return Ok(Requeue::Never);
        };
        finalizers.retain(|one| one != known::FINALIZER && one != known::OLD_FINALIZER);
        match writer.update(&server).await {
            Ok(_) | Err(WriteError::NotFound { .. }) => Ok(Requeue::Never),
            Err(error) => Err(error.into()),
        }
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.setup.namespace)
    }
}

/// Data of a Secret as text.
fn texts(secret: &k8s_openapi::api::core::v1::Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), String::from_utf8(value.0.clone()).ok()?)))
        .collect()
}
