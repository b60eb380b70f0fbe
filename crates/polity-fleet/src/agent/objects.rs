//! The objects of the managed cluster that policies are about: one watch for each kind that is read, started when the
//! kind is first needed and shared by everything that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::discovery::{self, Scope};
use polity_comply::Kind;
use polity_core::governance::names;
use polity_core::{GroupVersionKind, ObjectKey};
use polity_reconcile::{Cache, Change, ControllerMetrics, SharedCache, Watch};
use polity_source::cluster::ClusterModel;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::Agent;
use super::configuration::is_configuration_policy;
use super::watches::{AgentQueues, Definition};

/// The name of these watches in logs and metrics.
const READER: &str = "policy-objects";

/// Why a kind cannot be read now.
#[derive(Debug, thiserror::Error)]
#[error("asking the API server for the kind {kind}")]
pub(crate) struct DiscoveryError {
    kind: String,
    #[source]
    error: Box<kube::Error>,
}

/// What is known of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindState {
    /// Its objects are in the model.
    Watched,
    NotServed,
    /// Nothing has read it yet.
    Unknown,
}

/// What reads objects, and is reconciled when they change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reader {
    /// The templates of a policy.
    Templates(String),
    /// A configuration policy.
    Configuration(String),
}

/// Lists of a kind, in one namespace or in all.
pub(super) type ListId = (GroupVersionKind, Option<String>);

/// The watched objects of a managed cluster.
pub(crate) struct ManagedObjects {
    client: Client,
    metrics: ControllerMetrics,
    /// The namespace of the policies.
    namespace: String,
    queues: AgentQueues,
    model: Arc<ClusterModel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: BTreeMap<GroupVersionKind, WatchedKind>,
    /// Kinds that were asked for and are not served, with what needs them.
    not_served: BTreeMap<GroupVersionKind, BTreeSet<Reader>>,
    /// What reads an object or a list.
    readers: BTreeMap<ReadId, BTreeSet<Reader>>,
    /// The same, by reader.
    reads: BTreeMap<Reader, BTreeSet<ReadId>>,
    /// The kinds that are allowed as templates, by the name of their definition.
    template_kinds: BTreeMap<String, Vec<GroupVersionKind>>,
}

/// An object of the managed cluster.
pub(super) type ObjectId = (GroupVersionKind, ObjectKey);

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadId {
    Object(ObjectId),
    List(ListId),
}

struct WatchedKind {
    cache: SharedCache<ObjectKey, Arc<Value>>,
    _task: WatchTask,
}

/// A task that ends with its owner.
struct WatchTask(JoinHandle<()>);

impl Drop for WatchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ManagedObjects {
    pub(super) fn new(agent: &Agent, queues: AgentQueues) -> Self {
        Self {
            client: agent.managed_client.clone(),
            metrics: agent.metrics.clone(),
            namespace: agent.namespace.clone(),
            queues,
            model: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// What the engines read.
    pub(super) fn model(&self) -> &ClusterModel {
        &self.model
    }

    /// Watches a kind for a reader and waits until its objects are known. Returns whether the kind is served; if not, the
    /// reader is reconciled again when it is.
    pub(super) async fn watch(
        self: &Arc<Self>,
        gvk: &GroupVersionKind,
        reader: &Reader,
    ) -> Result<bool, DiscoveryError> {
        let known = self.lock().watched.get(gvk).map(|kind| kind.cache.clone());
        let cache = match known {
            Some(cache) => cache,
            None => match self.discover(gvk).await? {
                Some((resource, kind)) => self.start(gvk, &resource, kind),
                None => {
                    let mut state = self.lock();
                    let waiting = state.not_served.entry(gvk.clone()).or_default();
                    waiting.insert(reader.clone());
                    return Ok(false);
                }
            },
        };
        cache.listed().await;
        Ok(true)
    }

    async fn discover(
        &self,
        gvk: &GroupVersionKind,
    ) -> Result<Option<(ApiResource, Kind)>, DiscoveryError> {
        let wanted = kube::api::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        match discovery::oneshot::pinned_kind(&self.client, &wanted).await {
            Ok((resource, capabilities)) => {
                let kind = Kind {
                    gvk: gvk.clone(),
                    plural: resource.plural.clone(),
                    namespaced: capabilities.scope == Scope::Namespaced,
                };
                Ok(Some((resource, kind)))
            }
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(DiscoveryError {
                kind: gvk.to_string(),
                error: error.into(),
            }),
        }
    }

    fn start(
        self: &Arc<Self>,
        gvk: &GroupVersionKind,
        resource: &ApiResource,
        kind: Kind,
    ) -> SharedCache<ObjectKey, Arc<Value>> {
        let mut state = self.lock();
        if let Some(watched) = state.watched.get(gvk) {
            return watched.cache.clone();
        }
        self.model.update(|cache| cache.add_kind(kind));
        let cache = SharedCache::new(Cache::<ObjectKey, Arc<Value>>::default());
        let objects = Arc::downgrade(self);
        let changed = gvk.clone();
        let watch = Watch::<DynamicObject>::all_with(&self.client, resource).keep(
            READER,
            self.metrics.clone(),
            cache.clone(),
            value_of,
            move |change| {
                if let Some(objects) = objects.upgrade() {
                    objects.changed(&changed, &change);
                }
            },
        );
        let task = WatchTask(tokio::spawn(watch));
        let watched = WatchedKind {
            cache: cache.clone(),
            _task: task,
        };
        state.watched.insert(gvk.clone(), watched);
        cache
    }

    fn changed(&self, gvk: &GroupVersionKind, change: &Change<ObjectKey, Arc<Value>>) {
        self.model.update(|cache| match &change.now {
            Some(object) => cache.apply(Arc::clone(object)),
            None => cache.delete(gvk, &change.key),
        });
        let entries = [&change.before, &change.now].into_iter().flatten();
        for object in entries {
            if let Some(policy) = object["metadata"]["labels"][names::POLICY].as_str() {
                self.queues.templates.add(policy.to_owned());
                self.queues.statuses.add(policy.to_owned());
            }
        }
        if is_configuration_policy(gvk) && change.key.namespace == Some(self.namespace.clone()) {
            self.queues.configurations.add(change.key.name.clone());
        }
        let namespace = change.key.namespace.clone();
        let mut reads = vec![
            ReadId::Object((gvk.clone(), change.key.clone())),
            ReadId::List((gvk.clone(), None)),
        ];
        if namespace.is_some() {
            reads.push(ReadId::List((gvk.clone(), namespace)));
        }
        let readers: BTreeSet<Reader> = {
            let state = self.lock();
            let readers = reads.iter().filter_map(|read| state.readers.get(read));
            readers.flatten().cloned().collect()
        };
        for reader in readers {
            self.wake(reader);
        }
    }

    fn wake(&self, reader: Reader) {
        match reader {
            Reader::Templates(policy) => self.queues.templates.add(policy),
            Reader::Configuration(name) => self.queues.read_changed(&name),
        }
    }

    /// What is known of a kind.
    pub(super) fn state_of(&self, gvk: &GroupVersionKind) -> KindState {
        let state = self.lock();
        match state.watched.get(gvk) {
            Some(kind) if kind.cache.is_listed() => KindState::Watched,
            Some(_) => KindState::Unknown,
            None if state.not_served.contains_key(gvk) => KindState::NotServed,
            None => KindState::Unknown,
        }
    }

    /// Sets what a reader reads: a change of any of it reconciles the reader.
    pub(super) fn set_reads(&self, reader: &Reader, reads: BTreeSet<ReadId>) {
        let mut state = self.lock();
        let before = state.reads.remove(reader).unwrap_or_default();
        for read in before.difference(&reads) {
            if let Some(readers) = state.readers.get_mut(read) {
                readers.remove(reader);
                if readers.is_empty() {
                    state.readers.remove(read);
                }
            }
        }
        for read in &reads {
            let readers = state.readers.entry(read.clone()).or_default();
            readers.insert(reader.clone());
        }
        if !reads.is_empty() {
            state.reads.insert(reader.clone(), reads);
        }
    }

    /// The kinds that are allowed as templates, in every served version.
    pub(super) fn template_kinds(&self) -> Vec<GroupVersionKind> {
        let state = self.lock();
        state.template_kinds.values().flatten().cloned().collect()
    }

    /// Keeps what the sync of templates reads of a CustomResourceDefinition.
    pub(super) fn definition_changed(&self, name: &str, definition: &Definition, is_deleted: bool) {
        let gvk = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        self.model.update(|cache| match is_deleted {
            true => cache.delete(&gvk, &ObjectKey::cluster(name)),
            false => cache.apply(Arc::new(definition.object(name))),
        });
        let mut state = self.lock();
        if definition.is_template && !is_deleted {
            let of = |version: &String| {
                GroupVersionKind::new(
                    definition.group.clone(),
                    version.clone(),
                    definition.kind.clone(),
                )
            };
            let kinds = definition.versions.iter().map(of).collect();
            state.template_kinds.insert(name.to_owned(), kinds);
        } else {
            state.template_kinds.remove(name);
        }
    }

    /// Looks again at kinds after a CustomResourceDefinition changed: a kind may be served now, or not any more.
    pub(super) fn kinds_changed(&self, group: &str, kind: &str, is_deleted: bool) {
        let mut state = self.lock();
        let is_it = |gvk: &GroupVersionKind| gvk.group == group && gvk.kind == kind;
        let waiting: Vec<Reader> = state
            .not_served
            .iter()
            .filter(|(gvk, _)| is_it(gvk))
            .flat_map(|(_, readers)| readers.clone())
            .collect();
        state.not_served.retain(|gvk, _| !is_it(gvk));
        if is_deleted {
            let gone: Vec<GroupVersionKind> = state
                .watched
                .keys()
                .filter(|gvk| is_it(gvk))
                .cloned()
                .collect();
            for gvk in gone {
                state.watched.remove(&gvk);
                self.model.update(|cache| cache.remove_kind(&gvk));
            }
        }
        drop(state);
        for reader in waiting {
            self.wake(reader);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the maps is complete or has not begun.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object without its managed fields, which are half of it and which nothing reads.
pub(super) fn value_of(object: &DynamicObject) -> Option<Arc<Value>> {
    let mut object = object.clone();
    object.metadata.managed_fields = None;
    serde_json::to_value(&object).ok().map(Arc::new)
}
