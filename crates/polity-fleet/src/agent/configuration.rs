//! Evaluates configuration policies, corrects what they enforce, and reports compliance. See docs/spec/governance.md#11.
//!
//! A policy is evaluated when it changes, when something that it read changes, or when its interval is over. The
//! evaluation reads the watched objects of the cluster; a kind that is not watched yet is watched first.

mod carry_out;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use polity_api::policy::v1;
use polity_comply::when::{self, News, When};
use polity_comply::{
    Conclusion, ConfigurationPolicy, Evaluation, GoTemplates, Options, Outcome, Status, evaluate,
};
use polity_core::governance::names;
use polity_core::{GroupVersionKind, ObjectKey};
use polity_reconcile::{Requeue, WriteError, Writer};
use polity_runtime::Clock;
use polity_source::cluster::{LiveReader, TemplateHost};
use polity_template::{Limits, Rules};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tracing::{info, warn};

use self::reads::{Reads, RecordingCluster};
use super::Agent;
use super::objects::{DiscoveryError, ManagedObjects, ReadId, Reader};
use crate::hub::requeue_at;

/// The field manager of these writes.
const MANAGER: &str = "polity/configuration-policies";
/// How many rounds of kinds that turn out to be read are watched for one evaluation.
const MAX_ROUNDS: usize = 10;

/// Why a configuration policy could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigurationError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The controller of configuration policies.
#[derive(Clone)]
pub(crate) struct ConfigurationPolicies {
    namespace: String,
    clock: Clock,
    client: Client,
    objects: Arc<ManagedObjects>,
    policies: Writer<DynamicObject>,
    events: Writer<Event>,
    memory: Arc<Mutex<BTreeMap<String, Memory>>>,
    changed_reads: ChangedReads,
}

/// The configuration policies that have read something that changed since their last evaluation.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangedReads(Arc<Mutex<BTreeSet<String>>>);

impl ChangedReads {
    pub(super) fn note(&self, name: &str) {
        self.lock().insert(name.to_owned());
    }

    fn take(&self, name: &str) -> bool {
        self.lock().remove(name)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Every change is a single insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is remembered about a policy. After a restart, every policy is evaluated once.
#[derive(Debug, Clone, Default)]
struct Memory {
    is_evaluated: bool,
    started_at: Option<Timestamp>,
    recreate_timed_out: bool,
}

impl ConfigurationPolicies {
    pub(super) fn new(
        agent: &Agent,
        client: &Client,
        objects: Arc<ManagedObjects>,
        changed_reads: ChangedReads,
    ) -> Self {
        let kind = ApiResource::erase::<v1::ConfigurationPolicy>(&());
        Self {
            namespace: agent.namespace.clone(),
            clock: agent.clock.clone(),
            client: client.clone(),
            objects,
            policies: Writer::of_kind(client, kind, MANAGER),
            events: Writer::new(client, MANAGER),
            memory: Arc::default(),
            changed_reads,
        }
    }

    /// Reconciles one configuration policy.
    pub(super) async fn reconcile(&self, name: String) -> Result<Requeue, ConfigurationError> {
        let reader = Reader::Configuration(name.clone());
        if !self.objects.watch(&kind(), &reader).await? {
            return Ok(Requeue::Never);
        }
        let key = ObjectKey::namespaced(&self.namespace, &name);
        let found = self
            .objects
            .model()
            .with_cache(|cache| cache.get(&kind(), &key).cloned());
        let Some(object) = found else {
            self.objects.set_reads(&reader, BTreeSet::new());
            self.memory().remove(&name);
            return Ok(Requeue::Never);
        };
        let policy = match ConfigurationPolicy::from_json(&object) {
            Ok(policy) => policy,
            Err(errors) => {
                let errors = polity_core::field::join(&errors);
                warn!(policy = name, errors, "the configuration policy is invalid");
                return Ok(Requeue::Slowly);
            }
        };
        let status = Status::from_json(&object["status"]);
        let now = self.clock.now();
        match self.due(&name, &policy, &status, now) {
            When::Now => {}
            When::At(at) => return Ok(requeue_at(Some(at), now)),
            When::OnChange | When::Never => return Ok(Requeue::Slowly),
        }
        if let Some(wait) = self.throttled(&name, now) {
            self.changed_reads.note(&name);
            return Ok(Requeue::After(wait));
        }
        if policy.deleting {
            return Ok(Box::pin(self.delete(&object, &policy, &status)).await?);
        }
        self.set_finalizer(&object, &policy).await?;
        Box::pin(self.evaluate(&object, &policy, &status)).await
    }

    fn due(
        &self,
        name: &str,
        policy: &ConfigurationPolicy,
        status: &Status,
        now: Timestamp,
    ) -> When {
        let reads_changed = self.changed_reads.take(name);
        let memory = self.memory().get(name).cloned().unwrap_or_default();
        if !memory.is_evaluated {
            return When::Now;
        }
        let news = News {
            // The list of namespaces is one of the reads.
            namespaces_changed: false,
            recreate_timed_out: memory.recreate_timed_out,
            reads_changed,
        };
        when::when(policy, status, news, now)
    }

    fn throttled(&self, name: &str, now: Timestamp) -> Option<Duration> {
        let mut memory = self.memory();
        let memory = memory.entry(name.to_owned()).or_default();
        let wait = when::throttle(memory.started_at, now);
        if wait.is_none() {
            memory.started_at = Some(now);
        }
        wait
    }

    async fn evaluate(
        &self,
        object: &Value,
        policy: &ConfigurationPolicy,
        previous: &Status,
    ) -> Result<Requeue, ConfigurationError> {
        let reader = Reader::Configuration(policy.name.clone());
        for _ in 0..MAX_ROUNDS {
            let reads = self.look(policy);
            if reads.unwatched.is_empty() {
                break;
            }
            for gvk in &reads.unwatched {
                self.objects.watch(gvk, &reader).await?;
            }
        }
        let now = self.clock.now();
        let (evaluation, reads) = self.evaluation(policy, now);
        self.objects.set_reads(&reader, ids_of(&reads));
        let writes: Vec<_> = evaluation
            .writes()
            .map(|(finding, write)| (finding.clone(), write.clone()))
            .collect();
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (finding, write) in &writes {
            outcomes.push(self.carry_out(finding, write).await);
        }
        let conclusion = self.conclude(&evaluation, previous, &outcomes, now);
        let recreate_timed_out = outcomes.iter().any(carry_out::is_still_there);
        self.prune(&conclusion.prune).await;
        let status = conclusion.status.to_json(now, &object["status"]);
        self.write_status(object, &status).await?;
        let n_messages = conclusion.messages.len();
        for (index, message) in conclusion.messages.iter().enumerate() {
            if index + 1 < n_messages || conclusion.changed {
                self.report(object, policy, message).await?;
            }
        }
        if conclusion.changed {
            let compliant = conclusion.status.state.as_str();
            info!(
                policy = policy.name,
                compliant, "configuration policy evaluated"
            );
        }
        let mut memory = self.memory();
        let memory = memory.entry(policy.name.clone()).or_default();
        memory.is_evaluated = true;
        memory.recreate_timed_out = recreate_timed_out;
        let next = when::when(policy, &conclusion.status, News::default(), now);
        Ok(match next {
            _ if recreate_timed_out => Requeue::After(when::THROTTLE),
            When::OnChange if !reads.not_served.is_empty() => {
                Requeue::After(when::MISSING_KIND_RETRY)
            }
            When::At(at) => requeue_at(Some(at), now),
            When::Now | When::OnChange | When::Never => Requeue::Slowly,
        })
    }

    fn evaluation<'p>(
        &self,
        policy: &'p ConfigurationPolicy,
        now: Timestamp,
    ) -> (Evaluation<'p>, Reads) {
        let updates = LiveReader::new(self.client.clone(), Handle::current());
        let state_of = |gvk: &GroupVersionKind| self.objects.state_of(gvk);
        let cluster = RecordingCluster::new(self.objects.model(), &updates, &state_of, now);
        let templates = GoTemplates::new(&cluster, Rules::default(), Limits::default());
        let evaluation = evaluate(policy, &cluster, &templates, Options::default());
        let reads = cluster.take_reads();
        (evaluation, reads)
    }

    fn conclude(
        &self,
        evaluation: &Evaluation<'_>,
        previous: &Status,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> Conclusion {
        // Custom messages read nothing but their data.
        let host = TemplateHost::new(self.objects.model(), now);
        let templates = GoTemplates::new(&host, Rules::default(), Limits::default());
        evaluation.conclude(previous, outcomes, &templates, now)
    }

    /// Finds out which kinds an evaluation reads. Nothing is asked of the API server.
    fn look(&self, policy: &ConfigurationPolicy) -> Reads {
        let state_of = |gvk: &GroupVersionKind| self.objects.state_of(gvk);
        let updates = carry_out::NoUpdates;
        let now = self.clock.now();
        let cluster = RecordingCluster::new(self.objects.model(), &updates, &state_of, now);
        let templates = GoTemplates::new(&cluster, Rules::default(), Limits::default());
        drop(evaluate(policy, &cluster, &templates, Options::default()));
        cluster.take_reads()
    }

    async fn write_status(&self, object: &Value, status: &Value) -> Result<(), WriteError> {
        let Ok(current) = serde_json::from_value::<DynamicObject>(object.clone()) else {
            return Ok(());
        };
        let change = |_: &DynamicObject| Some(status.clone());
        let written = self
            .policies
            .change_status(&self.clock, &current, change)
            .await;
        match written {
            // Its deletion brings the policy back here.
            Err(WriteError::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Adds the finalizer to a policy that prunes, and removes it from one that does not.
    async fn set_finalizer(
        &self,
        object: &Value,
        policy: &ConfigurationPolicy,
    ) -> Result<(), WriteError> {
        use polity_comply::policy::PruneBehavior;
        let is_wanted = policy.enforces() && policy.prune != PruneBehavior::None;
        let Ok(current) = serde_json::from_value::<DynamicObject>(object.clone()) else {
            return Ok(());
        };
        let mut finalizers = current.metadata.finalizers.clone().unwrap_or_default();
        let has = finalizers.iter().any(|one| one == names::PRUNE_FINALIZER);
        if has == is_wanted {
            return Ok(());
        }
        match is_wanted {
            true => finalizers.push(names::PRUNE_FINALIZER.to_owned()),
            false => finalizers.retain(|one| one != names::PRUNE_FINALIZER),
        }
        let changes = json!({ "finalizers": finalizers });
        self.policies
            .patch_metadata(&current.metadata, changes)
            .await?;
        Ok(())
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<String, Memory>> {
        // Every change is complete or has not begun.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of configuration policies.
pub(super) fn kind() -> GroupVersionKind {
    GroupVersionKind::new(names::GROUP, "v1", "ConfigurationPolicy")
}

pub(super) fn is_configuration_policy(gvk: &GroupVersionKind) -> bool {
    *gvk == kind()
}

fn ids_of(reads: &Reads) -> BTreeSet<ReadId> {
    let objects = reads.objects.iter().cloned().map(ReadId::Object);
    let lists = reads.lists.iter().cloned().map(ReadId::List);
    objects.chain(lists).collect()
}
