//! One cluster as the engines read it.
//!
//! [`ObjectCache`] holds kinds and objects. Controllers feed it from watches, manifests fill it, and with a
//! [`LiveReader`] it is filled by gets and lists as the engines ask. [`ClusterModel`] is what is shared, and the engines
//! read it through an adapter each:
//!
//! - [`ConfigurationCluster`] for the evaluation of configuration policies (`polity_comply::Cluster`),
//! - [`TemplateHost`] for lookups in templates (`polity_template::Host`),
//! - [`TemplateSyncCluster`] for the sync of policy templates (`polity_govern::sync::Cluster`).

mod cache;
mod configuration;
mod kinds;
mod live;
mod manifests;
mod template_host;
mod template_sync;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polity_comply::Kind;
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::Value;

pub use self::cache::ObjectCache;
pub use self::configuration::{ConfigurationCluster, DryRunUpdates, SchemaUpdates};
pub use self::kinds::{Kinds, MappingsError, NAMESPACE_SCOPE};
pub use self::live::LiveReader;
pub use self::manifests::FillError;
pub use self::template_host::TemplateHost;
pub use self::template_sync::TemplateSyncCluster;

/// Why something could not be read from a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The API server answered with an error.
    #[error("{description}")]
    Refused {
        code: u16,
        /// The message of the API server.
        message: String,
        /// The message with what it means.
        description: String,
    },
    /// There was no answer.
    #[error("{0}")]
    NoAnswer(String),
    /// The name would lead to another path of the API.
    #[error("{0:?} is not a valid name")]
    InvalidName(String),
}

/// The read model of one cluster. It can be shared between threads.
#[derive(Debug, Default)]
pub struct ClusterModel {
    state: Mutex<State>,
    /// Reads what the cache does not have; without it, what is not in the cache does not exist.
    reader: Option<LiveReader>,
}

#[derive(Debug, Default)]
struct State {
    cache: ObjectCache,
    /// What was read through the reader.
    read: ReadScopes,
}

/// Which parts of a live cluster the cache has in full.
#[derive(Debug, Default)]
struct ReadScopes {
    /// The kinds that the cluster was asked about and does not serve.
    not_served: BTreeSet<GroupVersionKind>,
    /// The lists that were read, of one namespace or of all.
    lists: BTreeSet<(GroupVersionKind, Option<String>)>,
    /// The objects that were asked for and do not exist.
    absent: BTreeMap<GroupVersionKind, BTreeSet<ObjectKey>>,
}

impl ReadScopes {
    fn has_list(&self, gvk: &GroupVersionKind, namespace: Option<&str>) -> bool {
        self.lists.contains(&(gvk.clone(), None))
            || namespace.is_some_and(|namespace| {
                let list = (gvk.clone(), Some(namespace.to_owned()));
                self.lists.contains(&list)
            })
    }

    fn has_object(&self, gvk: &GroupVersionKind, key: &ObjectKey) -> bool {
        self.has_list(gvk, key.namespace.as_deref())
            || self.absent.get(gvk).is_some_and(|keys| keys.contains(key))
    }
}

impl ClusterModel {
    /// A cluster of which the cache has everything: one that is fed from watches, or filled from manifests.
    pub fn new(cache: ObjectCache) -> Self {
        Self {
            state: Mutex::new(State {
                cache,
                read: ReadScopes::default(),
            }),
            reader: None,
        }
    }

    /// A cluster that is read when something is asked for. What was read once is not read again.
    ///
    /// It waits for the answers of the API server, so the engines must run on a thread that may block.
    pub fn live(reader: LiveReader) -> Self {
        Self {
            state: Mutex::default(),
            reader: Some(reader),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The cache changes object by object, so a panic elsewhere leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cache; a controller calls it for the events of its watches.
    pub fn update<T>(&self, change: impl FnOnce(&mut ObjectCache) -> T) -> T {
        change(&mut self.lock().cache)
    }

    /// Reads the cache as it is, without the reader.
    pub fn with_cache<T>(&self, read: impl FnOnce(&ObjectCache) -> T) -> T {
        read(&self.lock().cache)
    }

    /// A kind, if the cluster serves it.
    pub fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        {
            let state = self.lock();
            if let Some(kind) = state.cache.kind(gvk) {
                return Ok(Some(kind.clone()));
            }
            if state.read.not_served.contains(gvk) {
                return Ok(None);
            }
        }
        let Some(reader) = &self.reader else {
            return Ok(None);
        };
        let found = reader.kind(gvk)?;
        let mut state = self.lock();
        match &found {
            Some(kind) => _ = state.cache.add_kind(kind.clone()),
            None => _ = state.read.not_served.insert(gvk.clone()),
        }
        Ok(found)
    }

    /// One object; the namespace of the key is `None` for cluster-scoped kinds.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        {
            let state = self.lock();
            if let Some(object) = state.cache.get(&kind.gvk, key) {
                return Ok(Some(Arc::clone(object)));
            }
            if state.read.has_object(&kind.gvk, key) {
                return Ok(None);
            }
        }
        let Some(reader) = &self.reader else {
            return Ok(None);
        };
        let found = reader.get(kind, key)?.map(Arc::new);
        let mut state = self.lock();
        match &found {
            Some(object) => _ = state.cache.set(&kind.gvk, key.clone(), Arc::clone(object)),
            None => {
                let absent = state.read.absent.entry(kind.gvk.clone()).or_default();
                absent.insert(key.clone());
            }
        }
        Ok(found)
    }

    /// The objects of a kind with these labels, in one namespace or in all, in the order of namespaces and names.
    pub fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        let matches = |object: &Value| selector.matches(&object["metadata"]["labels"]);
        let from_cache = |state: &State| {
            let objects = state.cache.list(&kind.gvk, namespace);
            let objects = objects.filter(|(_, object)| matches(object));
            objects.map(|(_, object)| Arc::clone(object)).collect()
        };
        let Some(reader) = &self.reader else {
            return Ok(from_cache(&self.lock()));
        };
        {
            let state = self.lock();
            if state.read.has_list(&kind.gvk, namespace) {
                return Ok(from_cache(&state));
            }
        }
        let objects = reader.list(kind, namespace, selector)?;
        let objects: Vec<Arc<Value>> = objects.into_iter().map(Arc::new).collect();
        let mut state = self.lock();
        for object in &objects {
            state.cache.apply(Arc::clone(object));
        }
        // A list with a selector is only a part of what is there.
        if selector.is_everything() {
            let list = (kind.gvk.clone(), namespace.map(str::to_owned));
            state.read.lists.insert(list);
        }
        Ok(objects.into_iter().filter(|it| matches(it)).collect())
    }
}
