//! The shell of policy servers: makes their objects so, keeps their certificates good, and says how far it got.
//!
//! Every object is applied whole under our own field manager; one of the same name that is somebody else's is left
//! alone and named in the status.

mod cache;
mod callers;
mod ensure;
mod run;
mod secrets;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use polity_api::policies::names as known;
use polity_api::policies::v1::{PolicyRevision, PolicyServer, PolicyServerConditionType};
use polity_runtime::Clock;
use polity_runtime::write::{WriteError, Writer};

use crate::certificates::Authorities;
use crate::names;
use crate::objects::{self, Configs, Setup};
use callers::Caller;
use ensure::{check_owner, is_owned_by};

pub use secrets::{SecretError, ensure_authorities, ensure_webhook_certificate};

/// The name under which the objects of policy servers are written.
const MANAGER: &str = "polity/policy-servers";
/// How soon a server is looked at again that is being deleted and still has webhooks, or whose webhooks do not trust
/// a new authority yet.
const RECHECK: Duration = Duration::from_secs(2);
/// How soon to look again whether something that is in the way has gone; what a deleted server of the same name left
/// behind goes by itself.
const IN_THE_WAY: Duration = Duration::from_secs(5);

/// Why an object of a policy server is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The API server, or the way to it.
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    /// The write did not happen.
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
        /// Whose it is.
        owner: String,
    },
    /// The claim of the cache finds no volume.
    #[error("the claim {claim} is not bound: {words}")]
    Unbound {
        /// The claim.
        claim: String,
        /// What is said about it.
        words: String,
    },
    /// Whoever calls the server would refuse what it is about to show.
    #[error(
        "waiting until every webhook trusts the new authority; the certificate before serves on"
    )]
    NotTrustedYet,
    /// The server asks for signatures to be verified.
    #[error(
        "verificationConfig is set, and this release cannot verify signatures: nothing is served unverified"
    )]
    Verification,
}

/// When a policy server wants to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It does not exist.
    Gone,
    /// After this time.
    After(Duration),
    /// With the usual slow round.
    Slowly,
}

/// What the shell needs to do its work.
#[derive(Clone)]
pub struct Servers {
    client: Client,
    clock: Clock,
    setup: Arc<Setup>,
}

impl Servers {
    /// A shell that sets up policy servers in this way.
    pub fn new(client: Client, clock: Clock, setup: Setup) -> Self {
        Self {
            client,
            clock,
            setup: Arc::new(setup),
        }
    }

    /// Makes one policy server so.
    pub async fn reconcile(
        &self,
        name: &str,
        authorities: &Authorities,
    ) -> Result<Next, ServerError> {
        let servers: Api<PolicyServer> = Api::all(self.client.clone());
        let Some(server) = servers.get_opt(name).await? else {
            return Ok(Next::Gone);
        };
        if server.metadata.deletion_timestamp.is_some() {
            return self.release(&servers, server).await;
        }
        let finalizers = server.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|one| one == known::FINALIZER) {
            let mut held = server.clone();
            let kept = finalizers
                .into_iter()
                .filter(|one| one != known::OLD_FINALIZER);
            held.metadata.finalizers = Some(kept.chain([known::FINALIZER.to_owned()]).collect());
            servers.replace(name, &PostParams::default(), &held).await?;
            return Ok(Next::After(Duration::ZERO));
        }
        let made = self.make(&server, authorities).await;
        let workload: Api<StatefulSet> = self.namespaced();
        let workload = workload.get_opt(&names::stateful_set(name)).await?;
        let n_replicas = workload
            .and_then(|workload| workload.status)
            .map(|status| status.replicas);
        let status = status::of(&server, &made, n_replicas, self.clock.now());
        let writer = Writer::new(servers, (), MANAGER);
        writer.apply_status(&server, &status).await?;
        let mut next = if self.is_cache_bound(&server).await? {
            Next::Slowly
        } else {
            Next::After(cache::PATIENCE)
        };
        for error in made.into_iter().filter_map(|(_, result)| result.err()) {
            match error {
                ServerError::Api(_) | ServerError::Write(_) | ServerError::Secret(_) => {
                    return Err(error);
                }
                // What a user has to mend is in the status.
                ServerError::Foreign { .. } => next = Next::After(IN_THE_WAY),
                ServerError::NotTrustedYet => next = Next::After(RECHECK),
                ServerError::Unbound { .. } | ServerError::Verification => {}
            }
        }
        Ok(next)
    }

    /// Makes every object, and answers what came of each.
    async fn make(
        &self,
        server: &PolicyServer,
        authorities: &Authorities,
    ) -> Vec<(PolicyServerConditionType, Result<(), ServerError>)> {
        use PolicyServerConditionType as Type;
        if server.spec.verification_config.is_some() {
            return vec![(Type::StatefulSetReconciled, Err(ServerError::Verification))];
        }
        let setup = &*self.setup;
        let now = self.clock.now();
        vec![
            (Type::CARootSecretReconciled, Ok(())),
            (
                Type::CertSecretReconciled,
                secrets::ensure(&self.client, setup, server, authorities, now).await,
            ),
            (Type::ConfigMapReconciled, self.make_config(server).await),
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
        ]
    }

    async fn make_config(&self, server: &PolicyServer) -> Result<(), ServerError> {
        let revisions: Api<PolicyRevision> = self.namespaced();
        let selector = format!("{}={}", known::REVISION_POLICY_SERVER, server.name_any());
        let revisions = revisions
            .list(&ListParams::default().labels(&selector))
            .await?;
        let mut serving: Vec<_> = revisions
            .into_iter()
            .filter(|one| one.spec.enabled && one.annotations().contains_key(known::SERVING))
            .collect();
        // While an update drains, two generations of a policy serve: scripts see the newer one.
        serving.sort_by_key(|one| one.spec.policy_generation);
        let config: ConfigMap = objects::config_map(server, &self.setup, &serving);
        self.ensure(server, &config).await
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
            Writer::new(budgets, (), MANAGER).delete(&found).await?;
        }
        Ok(())
    }

    /// The workload, once its replicas can do what they have to: report, and choose a leader.
    async fn make_workload(&self, server: &PolicyServer) -> Result<(), ServerError> {
        let setup = &*self.setup;
        self.ensure(server, &objects::role(server, setup)).await?;
        self.ensure(server, &objects::role_binding(server, setup))
            .await?;
        let leases: Api<Lease> = self.namespaced();
        let lease = objects::lease(server, setup);
        match leases.get_opt(&lease.name_any()).await? {
            Some(found) => check_owner(&found, server)?,
            None => drop(leases.create(&PostParams::default(), &lease).await?),
        }
        let configs = self.configs(server).await?;
        self.ensure(server, &objects::stateful_set(server, setup, &configs))
            .await
    }

    async fn configs(&self, server: &PolicyServer) -> Result<Configs, ServerError> {
        let maps: Api<ConfigMap> = self.namespaced();
        let sigstore_trust = match &server.spec.sigstore_trust_config {
            Some(name) => {
                let map = maps.get_opt(name).await?;
                map.and_then(|map| map.data?.remove("sigstore-trust-config"))
            }
            None => None,
        };
        Ok(Configs {
            verification: None,
            sigstore_trust,
        })
    }

    /// Lets a policy server go once nobody is called under its name any more.
    async fn release(
        &self,
        servers: &Api<PolicyServer>,
        mut server: PolicyServer,
    ) -> Result<Next, ServerError> {
        let service = names::policy_server(&server.name_any());
        let callers = Caller::list(&self.client, &self.setup.namespace, &service).await?;
        if !callers.is_empty() {
            return Ok(Next::After(RECHECK));
        }
        let Some(finalizers) = server.metadata.finalizers.as_mut() else {
            return Ok(Next::Gone);
        };
        finalizers.retain(|one| one != known::FINALIZER && one != known::OLD_FINALIZER);
        match servers
            .replace(&server.name_any(), &PostParams::default(), &server)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Next::Gone),
            other => other.map(|_| Next::Gone).map_err(ServerError::from),
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
