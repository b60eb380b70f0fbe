//! Reconciles ManagedClusters: acceptance, availability, and what their agents need on the hub.

pub mod plan;
pub(crate) mod rights;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use polity_api::cluster::v1::ManagedCluster;
use polity_core::cluster::names as cluster_names;
use polity_core::{ClusterName, ObjectKey};
use polity_reconcile::{Cache, Requeue, SharedCache, WriteError, Writer};
use polity_runtime::Clock;
use serde_json::json;
use tracing::info;

use self::plan::{NamespaceState, ObservedCluster};
use self::rights::{AgentRights, agent_rights};
use super::model::{ClusterEntry, HubModel};
use super::requeue_at;
use crate::names;

/// The field manager of these writes.
const MANAGER: &str = "polity/managed-clusters";

/// Why a ManagedCluster could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("reading the namespace of the cluster")]
    Read(#[from] kube::Error),
}

/// The reconciler of ManagedClusters.
#[derive(Clone)]
pub(crate) struct Clusters {
    clock: Clock,
    model: Arc<HubModel>,
    pub(crate) rights: RightsCaches,
    namespaces: Api<Namespace>,
    clusters: Writer<ManagedCluster>,
    namespace_writer: Writer<Namespace>,
    accounts: Writer<ServiceAccount>,
    roles: Writer<Role>,
    bindings: Writer<RoleBinding>,
}

/// The rights of agents as they exist.
#[derive(Clone)]
pub(crate) struct RightsCaches {
    pub(crate) accounts: SharedCache<ObjectKey, Arc<ServiceAccount>>,
    pub(crate) roles: SharedCache<ObjectKey, Arc<Role>>,
    pub(crate) bindings: SharedCache<ObjectKey, Arc<RoleBinding>>,
}

impl Clusters {
    pub(crate) fn new(client: &Client, clock: Clock, model: Arc<HubModel>) -> Self {
        Self {
            clock,
            model,
            rights: RightsCaches {
                accounts: SharedCache::new(Cache::default()),
                roles: SharedCache::new(Cache::default()),
                bindings: SharedCache::new(Cache::default()),
            },
            namespaces: Api::all(client.clone()),
            clusters: Writer::new(client, MANAGER),
            namespace_writer: Writer::new(client, MANAGER),
            accounts: Writer::new(client, MANAGER),
            roles: Writer::new(client, MANAGER),
            bindings: Writer::new(client, MANAGER),
        }
    }

    /// Reconciles one ManagedCluster.
    pub(crate) async fn reconcile(&self, name: ClusterName) -> Result<Requeue, ClusterError> {
        self.model.listed().await;
        self.rights.listed().await;
        let Some(entry) = self.model.clusters.read(|all| all.get(&name).cloned()) else {
            return Ok(Requeue::Never);
        };
        if entry.object.metadata.deletion_timestamp.is_some() {
            return self.detach(&name, &entry).await;
        }
        let now = self.clock.now();
        let plan = self.plan(&name, &entry.object, now);
        if plan.wants_namespace {
            self.ensure_rights(&name).await?;
        } else {
            self.remove_rights(&name).await?;
        }
        let mut current = entry.object.clone();
        if let Some(object) = &plan.object {
            current = self.clusters.update(object).await?;
        }
        if plan.status.is_some() {
            // An agent may write conditions of the same status.
            let change = |found: &ManagedCluster| self.plan(&name, found, now).status;
            let (clock, clusters) = (&self.clock, &self.clusters);
            clusters.change_status(clock, &current, change).await?;
        }
        Ok(requeue_at(plan.recheck_at, now))
    }

    fn plan(
        &self,
        name: &ClusterName,
        cluster: &ManagedCluster,
        now: Timestamp,
    ) -> plan::ClusterPlan {
        let lease = self.model.leases.read(|all| all.get(name).cloned());
        let observed = ObservedCluster {
            cluster,
            lease: lease.as_ref(),
        };
        plan::plan(&observed, now)
    }

    fn namespace_state(&self, name: &ClusterName) -> NamespaceState {
        let found = self
            .model
            .namespaces
            .read(|all| all.get(&name.to_string()).copied());
        found.unwrap_or(NamespaceState::Missing)
    }

    async fn ensure_rights(&self, name: &ClusterName) -> Result<(), ClusterError> {
        match self.namespace_state(name) {
            NamespaceState::Active => {}
            NamespaceState::Missing => {
                self.namespace_writer
                    .apply(&rights::namespace(name))
                    .await?;
                info!(cluster = %name, "namespace of the cluster created");
            }
            // Its end wakes this cluster again.
            NamespaceState::Terminating => return Ok(()),
        }
        let AgentRights {
            account,
            role,
            binding,
        } = agent_rights(name);
        let key = agent_key(name);
        let RightsCaches {
            accounts,
            roles,
            bindings,
        } = &self.rights;
        let found = accounts.read(|all| all.get(&key).cloned());
        self.accounts
            .apply_if_changed(found.as_deref(), &account)
            .await?;
        let found = roles.read(|all| all.get(&key).cloned());
        self.roles.apply_if_changed(found.as_deref(), &role).await?;
        let found = bindings.read(|all| all.get(&key).cloned());
        self.bindings
            .apply_if_changed(found.as_deref(), &binding)
            .await?;
        Ok(())
    }

    async fn remove_rights(&self, name: &ClusterName) -> Result<(), ClusterError> {
        let key = agent_key(name);
        let RightsCaches {
            accounts,
            roles,
            bindings,
        } = &self.rights;
        // The binding first: what is left has no effect.
        if let Some(found) = bindings.read(|all| all.get(&key).cloned()) {
            self.bindings.delete(&found.metadata).await?;
        }
        if let Some(found) = roles.read(|all| all.get(&key).cloned()) {
            self.roles.delete(&found.metadata).await?;
        }
        if let Some(found) = accounts.read(|all| all.get(&key).cloned()) {
            self.accounts.delete(&found.metadata).await?;
        }
        Ok(())
    }

    /// Removes what the hub created for a cluster, then lets the cluster go.
    async fn detach(
        &self,
        name: &ClusterName,
        entry: &ClusterEntry,
    ) -> Result<Requeue, ClusterError> {
        self.remove_rights(name).await?;
        if self.namespace_state(name) == NamespaceState::Active
            && let Some(namespace) = self.namespaces.get_opt(name).await?
            && is_ours(&namespace.metadata)
        {
            self.namespace_writer.delete(&namespace.metadata).await?;
        }
        let finalizers = entry.object.finalizers();
        if finalizers
            .iter()
            .any(|one| one == cluster_names::CLUSTER_FINALIZER)
        {
            let mut rest = finalizers.to_vec();
            rest.retain(|one| one != cluster_names::CLUSTER_FINALIZER);
            let changes = json!({ "finalizers": rest });
            self.clusters
                .patch_metadata(&entry.object.metadata, changes)
                .await?;
            info!(cluster = %name, "cluster detached");
        }
        Ok(Requeue::Never)
    }
}

impl RightsCaches {
    async fn listed(&self) {
        self.accounts.listed().await;
        self.roles.listed().await;
        self.bindings.listed().await;
    }
}

fn agent_key(cluster: &ClusterName) -> ObjectKey {
    ObjectKey::namespaced(cluster.as_str(), names::AGENT)
}

fn is_ours(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.iter().flatten();
    labels
        .into_iter()
        .any(|(name, value)| name == names::MANAGED_BY && value == names::HUB)
}
