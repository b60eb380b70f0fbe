//! Propagates root policies: replicas in the namespaces of clusters, rollouts, and the status of the root.
//!
//! One reconcile reads everything about a root policy from the caches, asks [`polity_govern::plan()`], and carries out the
//! writes of the plan. It reads its own writes back from [`WrittenReplicas`], because the next plan must not be made from
//! a cache that lags behind: it could hand out more clusters than the strategy allows.

mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource as _};
use polity_api::cluster::v1::ManagedClusterConditionType;
use polity_api::policy::v1;
use polity_core::governance::names;
use polity_core::{ClusterName, ObjectKey};
use polity_govern::objects::{Binding, Policy, PolicySet, SubjectKind};
use polity_govern::place::Decisions;
use polity_govern::plan::{self, PROPAGATION, Plan, Severity, Turn, Write};
use polity_govern::replica::Unresolved;
use polity_govern::role::{Role, role};
use polity_govern::{Observed, plan as make_plan};
use polity_reconcile::{ObjectEvent, Requeue, WriteError, Writer, publish_event};
use polity_runtime::Clock;
use serde_json::json;
use tracing::{info, warn};

use self::written::WrittenReplicas;
use super::clusters::plan::NamespaceState;
use super::conditions::condition_status;
use super::model::{
    BindingIndex, HubModel, PolicyEntry, PolicyIndex, PolicySetIndex, sets_depended_on,
};
use super::requeue_at;

/// The field manager of these writes.
const MANAGER: &str = "polity/propagator";
/// How many replicas of one root policy are written at the same time.
const WRITES_AT_A_TIME: usize = 10;
/// The status of a root policy is written at most once in this time.
const STATUS_WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// The pause before a replica that could not be written is tried again.
const RETRY_UNWRITABLE: SignedDuration = SignedDuration::from_secs(10);

/// The propagator.
#[derive(Clone)]
pub(crate) struct Policies {
    client: Client,
    clock: Clock,
    model: Arc<HubModel>,
    policies: Writer<v1::Policy>,
    written: Arc<WrittenReplicas>,
    memory: Arc<Mutex<BTreeMap<ObjectKey, Memory>>>,
}

/// What is remembered about a root policy to spare the API server requests. A restart loses nothing by losing it.
#[derive(Debug, Default)]
struct Memory {
    status_written_at: Option<Timestamp>,
    /// The warnings of the last plan: an Event is sent when one appears, not with every plan.
    warnings: BTreeSet<String>,
    /// Clusters whose replica the API server refused, until when they are left out, and why.
    refused: BTreeMap<ClusterName, (Timestamp, String)>,
}

impl Policies {
    pub(crate) fn new(client: &Client, clock: Clock, model: Arc<HubModel>) -> Self {
        Self {
            client: client.clone(),
            clock,
            model,
            policies: Writer::new(client, MANAGER),
            written: Arc::default(),
            memory: Arc::default(),
        }
    }

    /// Reconciles the policy of this key, and its replicas if it is a root policy or was one.
    pub(crate) async fn reconcile(&self, key: ObjectKey) -> Result<Requeue, WriteError> {
        self.model.listed().await;
        let found = self.model.policies.read(|all| all.get(&key).cloned());
        let Some(entry) = found.filter(|entry| !entry.is_deleting) else {
            self.forget(&key);
            return self.delete_replicas(&key).await;
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        match role(&entry.policy, self.model.is_cluster_namespace(namespace)) {
            Role::Root => Box::pin(self.propagate(&key, &entry)).await,
            Role::Illegal => {
                self.policies.delete(&metadata_of(&entry.policy)).await?;
                warn!(policy = %key, "deleted a policy that is no replica from the namespace of a cluster");
                Ok(Requeue::Never)
            }
            Role::Replica { .. } | Role::Foreign => Ok(Requeue::Never),
        }
    }

    async fn propagate(&self, key: &ObjectKey, entry: &PolicyEntry) -> Result<Requeue, WriteError> {
        let now = self.clock.now();
        let plan = self.plan(key, &entry.policy, now);
        let failed = self.carry_out(key, &plan, now).await;
        let next_status = self.write_status(key, entry, &plan, now).await?;
        self.report(key, &entry.policy, &plan, now).await;
        if let Some(error) = failed {
            return Err(error);
        }
        let is_unwritable =
            |cluster: &plan::ClusterPlan| matches!(cluster.turn, Turn::Unwritable { .. });
        let retry = plan.clusters.values().any(is_unwritable);
        let retry = retry.then(|| now + RETRY_UNWRITABLE);
        let next = [plan.look_again_at, next_status, retry]
            .into_iter()
            .flatten()
            .min();
        Ok(requeue_at(next, now))
    }

    fn plan(&self, key: &ObjectKey, root: &Policy, now: Timestamp) -> Plan {
        let policy_sets = self.policy_sets(key, root);
        let bindings = self.bindings(key, &policy_sets);
        let decisions = self.decisions(&bindings);
        let replicas = self.replicas(key, now);
        let unwritable = self.unwritable(key, &decisions, &replicas, now);
        let clock_is_off = self.clocks_off(&decisions);
        let observed = Observed {
            root,
            bindings: &bindings,
            policy_sets: &policy_sets,
            decisions: &decisions,
            replicas: &replicas,
            unwritable: &unwritable,
            clock_is_off: &clock_is_off,
            templates: &Unresolved,
        };
        make_plan(&observed, now)
    }

    /// The sets that the policy is a member of, and those that it depends on.
    fn policy_sets(&self, key: &ObjectKey, root: &Policy) -> Vec<PolicySet> {
        self.model.policy_sets.read(|all| {
            let of_member = PolicySetIndex::Member(key.clone());
            let mut keys: BTreeSet<ObjectKey> = all.find(&of_member).cloned().collect();
            keys.extend(sets_depended_on(root));
            keys.iter()
                .filter_map(|key| all.get(key))
                .map(|entry| entry.set.clone())
                .collect()
        })
    }

    /// The bindings that name the policy or a set that it is a member of.
    fn bindings(&self, key: &ObjectKey, sets: &[PolicySet]) -> Vec<Binding> {
        let namespace = key.namespace.clone().unwrap_or_default();
        let of_policy =
            BindingIndex::Subject(namespace.clone(), SubjectKind::Policy, key.name.clone());
        let of_sets = sets
            .iter()
            .filter(|set| set.namespace == namespace)
            .map(|set| {
                BindingIndex::Subject(namespace.clone(), SubjectKind::PolicySet, set.name.clone())
            });
        let mut bindings = BTreeMap::new();
        for index in std::iter::once(of_policy).chain(of_sets) {
            for binding in self.model.bindings_of(&index) {
                bindings.insert(binding.name.clone(), binding.as_ref().clone());
            }
        }
        bindings.into_values().collect()
    }

    fn decisions(&self, bindings: &[Binding]) -> Vec<Decisions> {
        let references: BTreeSet<_> = bindings
            .iter()
            .filter_map(|binding| Some((binding.namespace.as_str(), binding.placement.as_ref()?)))
            .collect();
        references
            .into_iter()
            .filter_map(|(namespace, reference)| self.model.decided(namespace, reference))
            .collect()
    }

    /// The replicas of a root policy, as they were last written or seen.
    fn replicas(&self, key: &ObjectKey, now: Timestamp) -> BTreeMap<ClusterName, Policy> {
        let cached = self.cached_replicas(key);
        let mut replicas = BTreeMap::new();
        for entry in &cached {
            let cluster = ClusterName::from(entry.policy.namespace.as_str());
            replicas.insert(cluster, entry.policy.clone());
        }
        self.written.overlay(key, &mut replicas, now);
        replicas
    }

    fn cached_replicas(&self, key: &ObjectKey) -> Vec<Arc<PolicyEntry>> {
        let found: Vec<Arc<PolicyEntry>> = self.model.policies.read(|all| {
            let of_root = PolicyIndex::Root(key.clone());
            let keys = all.find(&of_root);
            keys.filter_map(|key| all.get(key).cloned()).collect()
        });
        found
            .into_iter()
            .filter(|entry| self.model.is_cluster_namespace(&entry.policy.namespace))
            .collect()
    }

    /// The clusters among those decided whose replica cannot be written now.
    fn unwritable(
        &self,
        key: &ObjectKey,
        decisions: &[Decisions],
        replicas: &BTreeMap<ClusterName, Policy>,
        now: Timestamp,
    ) -> BTreeMap<ClusterName, String> {
        let mut unwritable = self.remember(key, |memory| {
            memory.refused.retain(|_, (until, _)| *until > now);
            let refused = memory.refused.iter();
            refused
                .map(|(cluster, (_, why))| (cluster.clone(), why.clone()))
                .collect::<BTreeMap<_, _>>()
        });
        let decided = decisions
            .iter()
            .flat_map(|decisions| decisions.groups.iter());
        self.model.namespaces.read(|namespaces| {
            for cluster in decided.flat_map(|group| &group.clusters) {
                let state = namespaces.get(&cluster.to_string());
                let why = match state {
                    Some(NamespaceState::Active) => continue,
                    // What is there already can still be updated.
                    Some(NamespaceState::Terminating) if replicas.contains_key(cluster) => continue,
                    Some(NamespaceState::Terminating) => "its namespace is being deleted",
                    Some(NamespaceState::Missing) | None => "its namespace does not exist",
                };
                unwritable.insert(cluster.clone(), why.to_owned());
            }
        });
        unwritable
    }

    fn clocks_off(&self, decisions: &[Decisions]) -> BTreeSet<ClusterName> {
        let synced = ManagedClusterConditionType::ManagedClusterConditionClockSynced.as_str();
        let decided = decisions
            .iter()
            .flat_map(|decisions| decisions.groups.iter());
        self.model.clusters.read(|all| {
            let clusters = decided.flat_map(|group| &group.clusters);
            clusters
                .filter(|cluster| {
                    let entry = all.get(cluster);
                    let status = entry.and_then(|entry| entry.object.status.as_ref());
                    status.is_some_and(|status| {
                        condition_status(&status.conditions, synced) == Some("False")
                    })
                })
                .cloned()
                .collect()
        })
    }

    /// Carries out the writes of a plan in their order, several at a time. Returns an error that a retry can cure.
    async fn carry_out(&self, key: &ObjectKey, plan: &Plan, now: Timestamp) -> Option<WriteError> {
        let mut failed = None;
        let mut writes: Vec<BoxFuture<'_, _>> = Vec::new();
        for write in &plan.writes {
            writes.push(self.write(key, write, now).boxed());
        }
        let mut outcomes = stream::iter(writes).buffered(WRITES_AT_A_TIME);
        let mut written = plan.writes.iter();
        while let (Some(outcome), Some(write)) = (outcomes.next().await, written.next()) {
            let Err(error) = outcome else { continue };
            match error {
                // The watch brings the version that was missed, and with it the next reconcile.
                WriteError::Conflict { .. } | WriteError::AlreadyExists { .. } => {
                    failed.get_or_insert(error);
                }
                WriteError::NotFound { .. } | WriteError::Refused { .. } => {
                    let cluster = ClusterName::from(write.cluster());
                    let why = polity_core::causes::in_one_line(&error);
                    info!(policy = %key, %cluster, error = why, "replica was refused");
                    let until = now + RETRY_UNWRITABLE;
                    self.remember(key, |memory| memory.refused.insert(cluster, (until, why)));
                }
                _ => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed
    }

    async fn write(
        &self,
        root: &ObjectKey,
        write: &Write,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        match write {
            Write::Create(replica) => {
                let written = self.policies.create(&v1::Policy::from(replica)).await?;
                self.written.note(root, replica, None, &written, now);
            }
            Write::Update(replica) => {
                let before = Some(replica.resource_version.as_str());
                let written = self.policies.update(&v1::Policy::from(replica)).await?;
                self.written.note(root, replica, before, &written, now);
            }
            Write::Delete { cluster, name } => {
                let key = ObjectKey::namespaced(cluster.as_str(), name);
                let found = self.model.policies.read(|all| all.get(&key).cloned());
                if let Some(entry) = found {
                    self.policies.delete(&metadata_of(&entry.policy)).await?;
                    self.written.note_deleted(root, &entry.policy, now);
                }
            }
            Write::ShowStatus {
                cluster,
                name,
                status,
            } => self.show_status(cluster, name, status.as_str()).await?,
        }
        Ok(())
    }

    /// Shows the rollout status on a replica until its cluster reports. It is for people, so a failure does not matter.
    async fn show_status(&self, cluster: &str, name: &str, status: &str) -> Result<(), WriteError> {
        let api: Api<v1::Policy> = Api::namespaced(self.client.clone(), cluster);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "status": { "rolloutStatus": status } }));
        if let Err(error) = api.patch_status(name, &params, &patch).await {
            let error = &error as &dyn std::error::Error;
            info!(
                cluster,
                policy = name,
                error,
                "could not show the rollout status"
            );
        }
        Ok(())
    }

    /// Writes the status of the root unless it was written a moment ago. Returns when to try again.
    async fn write_status(
        &self,
        key: &ObjectKey,
        entry: &PolicyEntry,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, WriteError> {
        let Some(object) = entry.object.as_ref().filter(|_| plan.root_status_changed) else {
            return Ok(None);
        };
        let written_at = self.remember(key, |memory| memory.status_written_at);
        if let Some(next) = written_at.map(|at| at + STATUS_WINDOW)
            && next > now
        {
            return Ok(Some(next));
        }
        let status = v1::PolicyStatus::from(&plan.root_status);
        let change = |_: &v1::Policy| Some(status.clone());
        let (clock, policies) = (&self.clock, &self.policies);
        policies.change_status(clock, object, change).await?;
        self.remember(key, |memory| memory.status_written_at = Some(now));
        Ok(None)
    }

    /// Sends the Events of a plan. A warning is sent when it appears, and again after it was gone.
    async fn report(&self, key: &ObjectKey, root: &Policy, plan: &Plan, now: Timestamp) {
        let is_warning = |event: &&plan::Event| event.severity == Severity::Warning;
        let warnings: BTreeSet<String> = plan
            .events
            .iter()
            .filter(is_warning)
            .map(|event| event.message.clone())
            .collect();
        let known = self.remember(key, |memory| {
            std::mem::replace(&mut memory.warnings, warnings)
        });
        let due = plan
            .events
            .iter()
            .filter(|event| !(is_warning(event) && known.contains(&event.message)));
        let mut events: Vec<BoxFuture<'_, ()>> = Vec::new();
        for event in due {
            events.push(self.publish(root, event, now).boxed());
        }
        let mut events = stream::iter(events).buffered(WRITES_AT_A_TIME);
        while events.next().await.is_some() {}
    }

    async fn publish(&self, root: &Policy, event: &plan::Event, now: Timestamp) {
        let event = ObjectEvent {
            about: reference(root),
            reason: PROPAGATION,
            note: &event.message,
            is_warning: event.severity == Severity::Warning,
            manager: MANAGER,
            rank: 0,
        };
        publish_event(&self.client, &event, now).await;
    }

    /// Deletes the replicas of a root policy that does not exist.
    async fn delete_replicas(&self, key: &ObjectKey) -> Result<Requeue, WriteError> {
        for entry in self.cached_replicas(key) {
            if !entry.is_deleting {
                self.policies.delete(&metadata_of(&entry.policy)).await?;
            }
        }
        Ok(Requeue::Never)
    }

    fn remember<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(memory.entry(key.clone()).or_default())
    }

    fn forget(&self, key: &ObjectKey) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.remove(key);
        self.written.forget(key);
    }
}

/// The metadata that identifies a policy and the version that was read.
fn metadata_of(policy: &Policy) -> ObjectMeta {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    ObjectMeta {
        name: Some(policy.name.clone()),
        namespace: Some(policy.namespace.clone()),
        uid: given(&policy.uid),
        resource_version: given(&policy.resource_version),
        ..ObjectMeta::default()
    }
}

fn reference(policy: &Policy) -> ObjectReference {
    ObjectReference {
        api_version: Some(names::V1.to_owned()),
        kind: Some(v1::Policy::kind(&()).into_owned()),
        namespace: Some(policy.namespace.clone()),
        name: Some(policy.name.clone()),
        uid: Some(policy.uid.clone()),
        ..ObjectReference::default()
    }
}
