//! Watches that restart whenever they break, skip what they cannot decode, and notice what was deleted meanwhile.
//!
//! A [`Watch`] says which objects; kube-runtime's watcher lists and watches them. [`Feed`] turns the events of a watch
//! into changes of a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use polity_core::ObjectKey;
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use crate::cache::{Change, SharedCache};
use crate::metrics::ControllerMetrics;

/// The objects to watch: one kind, in one namespace or in the cluster, with selectors.
///
/// `PartialObjectMeta<K>` as the kind decodes metadata only.
#[derive(Debug, Clone)]
pub struct Watch<O: Resource> {
    api: Api<DeserializeGuard<O>>,
    kind: String,
    config: watcher::Config,
}

impl<O: Resource<DynamicType = ()>> Watch<O> {
    /// All objects of a typed kind.
    pub fn all(client: &Client) -> Self {
        Self::all_with(client, &())
    }

    /// The objects of a typed kind in one namespace.
    pub fn namespaced(client: &Client, namespace: &str) -> Self
    where
        O: Resource<Scope = NamespaceResourceScope>,
    {
        Self::of(Api::namespaced(client.clone(), namespace), &())
    }
}

impl<O: Resource> Watch<O> {
    /// All objects of a kind that is known at run time.
    pub fn all_with(client: &Client, kind: &O::DynamicType) -> Self {
        Self::of(Api::all_with(client.clone(), kind), kind)
    }

    fn of(api: Api<DeserializeGuard<O>>, kind: &O::DynamicType) -> Self {
        Self {
            api,
            kind: O::kind(kind).into_owned(),
            config: watcher::Config::default(),
        }
    }

    /// Only the objects that this label selector selects.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Only the objects that this field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }
}

impl<O> Watch<O>
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Keeps the objects in a cache without a controller, for kinds that become known while controllers run. Calls
    /// `on_change` for each change. Never ends: it is run in a task that is aborted when nothing reads the cache any more.
    pub async fn keep<V>(
        self,
        reader: &'static str,
        metrics: ControllerMetrics,
        cache: SharedCache<ObjectKey, V>,
        value_of: impl Fn(&O) -> Option<V> + Send + 'static,
        on_change: impl FnMut(Change<ObjectKey, V>) + Send,
    ) where
        V: PartialEq + Clone + Send + 'static,
    {
        let feed = Feed {
            controller: reader,
            watch: self,
            metrics,
            intake: Intake::new(cache, object_key, value_of),
        };
        feed.run(on_change).await;
    }
}

/// The key of an object.
pub(crate) fn object_key(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// One event of a watch.
#[derive(Debug)]
enum WatchEvent<O> {
    ListBegins,
    Listed(O),
    /// An object of the list that could not be decoded.
    ListedUndecodable(Box<ObjectMeta>),
    ListEnds,
    Applied(O),
    Deleted(Box<ObjectMeta>),
}

/// Puts the objects of a watch into a cache and reports what changed.
pub(crate) struct Feed<O: Resource, K, V, I> {
    pub(crate) controller: &'static str,
    pub(crate) watch: Watch<O>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) intake: Intake<O, K, V, I>,
}

impl<O, K, V, I> Feed<O, K, V, I>
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K: Ord + Clone,
    V: PartialEq + Clone,
    I: Ord,
{
    /// Runs the watch and calls `on_change` for each change. Never ends: a broken watch is restarted with back-off.
    pub(crate) async fn run(self, mut on_change: impl FnMut(Change<K, V>)) {
        let Self {
            controller,
            watch,
            metrics,
            mut intake,
        } = self;
        let kind = watch.kind;
        let events = watcher(watch.api, watch.config).default_backoff();
        let events = guarded(events, controller, kind, metrics);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            for change in intake.take(event) {
                on_change(change);
            }
        }
    }
}

/// The events of a watcher without its failures, which are logged and counted.
fn guarded<O: Resource + Debug>(
    events: impl Stream<Item = watcher::Result<watcher::Event<DeserializeGuard<O>>>>,
    controller: &'static str,
    kind: String,
    metrics: ControllerMetrics,
) -> impl Stream<Item = WatchEvent<O>> {
    events.filter_map(move |event| {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                report_failure(&error, controller, &kind, &metrics);
                return std::future::ready(None);
            }
        };
        let undecodable = |invalid: kube::core::error_boundary::InvalidObject| {
            metrics.count_undecodable(controller, &kind);
            let name = invalid.metadata.name.as_deref().unwrap_or_default();
            let namespace = invalid.metadata.namespace.as_deref().unwrap_or_default();
            warn!(controller, kind, namespace, name, error = %invalid.error, "skipped an undecodable object");
            invalid.metadata
        };
        std::future::ready(match event {
            watcher::Event::Init => Some(WatchEvent::ListBegins),
            watcher::Event::InitDone => Some(WatchEvent::ListEnds),
            watcher::Event::InitApply(DeserializeGuard(Ok(object))) => {
                Some(WatchEvent::Listed(object))
            }
            watcher::Event::InitApply(DeserializeGuard(Err(invalid))) => {
                Some(WatchEvent::ListedUndecodable(undecodable(invalid).into()))
            }
            watcher::Event::Apply(DeserializeGuard(Ok(object))) => {
                Some(WatchEvent::Applied(object))
            }
            watcher::Event::Apply(DeserializeGuard(Err(invalid))) => {
                undecodable(invalid);
                None
            }
            watcher::Event::Delete(object) => {
                Some(WatchEvent::Deleted(object.meta().clone().into()))
            }
        })
    })
}

/// An expired resource version is how a watch learns that it must list again, which is no failure.
fn report_failure(
    error: &watcher::Error,
    controller: &'static str,
    kind: &str,
    metrics: &ControllerMetrics,
) {
    if matches!(error, watcher::Error::WatchError(status) if status.code == 410) {
        debug!(controller, kind, "watch expired, listing again");
        return;
    }
    metrics.count_watch_failure(controller, kind);
    warn!(
        controller,
        kind,
        error = error as &dyn std::error::Error,
        "watch failed, retrying with back-off"
    );
}

/// What a cache keeps of an object; `None` if it keeps nothing.
type ValueOf<O, V> = dyn Fn(&O) -> Option<V> + Send;

/// What turns objects into values of a cache.
pub(crate) struct Intake<O, K, V, I> {
    cache: SharedCache<K, V, I>,
    key_of: Box<dyn Fn(&ObjectMeta) -> K + Send>,
    value_of: Box<ValueOf<O, V>>,
    /// The values of the list that is being read, and the keys of objects in it that could not be decoded.
    list: BTreeMap<K, V>,
    undecodable: BTreeSet<K>,
    /// The keys that this watch has put into the cache. Other watches can fill the same cache.
    own: BTreeSet<K>,
    has_listed: bool,
}

impl<O: Resource, K: Ord + Clone, V: PartialEq + Clone, I: Ord> Intake<O, K, V, I> {
    pub(crate) fn new(
        cache: SharedCache<K, V, I>,
        key_of: impl Fn(&ObjectMeta) -> K + Send + 'static,
        value_of: impl Fn(&O) -> Option<V> + Send + 'static,
    ) -> Self {
        cache.expect_list();
        Self {
            cache,
            key_of: Box::new(key_of),
            value_of: Box::new(value_of),
            list: BTreeMap::new(),
            undecodable: BTreeSet::new(),
            own: BTreeSet::new(),
            has_listed: false,
        }
    }

    fn take(&mut self, event: WatchEvent<O>) -> Vec<Change<K, V>> {
        match event {
            WatchEvent::ListBegins => {
                self.list.clear();
                self.undecodable.clear();
                Vec::new()
            }
            WatchEvent::Listed(object) => {
                let key = (self.key_of)(object.meta());
                let value = (self.value_of)(&object);
                self.list.extend(value.map(|value| (key, value)));
                Vec::new()
            }
            WatchEvent::ListedUndecodable(metadata) => {
                self.undecodable.insert((self.key_of)(&metadata));
                Vec::new()
            }
            WatchEvent::ListEnds => self.reset(),
            WatchEvent::Applied(object) => {
                let key = (self.key_of)(object.meta());
                match (self.value_of)(&object) {
                    Some(value) => {
                        self.own.insert(key.clone());
                        let change = self.cache.write(|cache| cache.apply(key, value));
                        change.into_iter().collect()
                    }
                    None => self.delete(&key),
                }
            }
            WatchEvent::Deleted(metadata) => self.delete(&(self.key_of)(&metadata)),
        }
    }

    fn delete(&mut self, key: &K) -> Vec<Change<K, V>> {
        self.own.remove(key);
        let change = self.cache.write(|cache| cache.delete(key));
        change.into_iter().collect()
    }

    /// Replaces what this watch has put into the cache by the list. An object that exists and could not be decoded keeps
    /// its last value: it was not deleted.
    fn reset(&mut self) -> Vec<Change<K, V>> {
        let mut list = std::mem::take(&mut self.list);
        let undecodable = std::mem::take(&mut self.undecodable);
        let before = std::mem::take(&mut self.own);
        let changes = self.cache.write(|cache| {
            for key in undecodable.into_iter().filter(|key| before.contains(key)) {
                let last = cache.get(&key).cloned();
                list.extend(last.map(|value| (key, value)));
            }
            self.own = list.keys().cloned().collect();
            cache.reset(|key| before.contains(key), list)
        });
        if !std::mem::replace(&mut self.has_listed, true) {
            self.cache.has_listed();
        }
        changes
    }
}

#[cfg(test)]
mod tests;
