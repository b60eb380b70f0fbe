//! The kinds and objects of a cluster in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_comply::Kind;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use serde_json::Value;

use super::kinds::Kinds;

/// Kinds and objects of one cluster. Every change says whether it changed anything.
#[derive(Debug, Clone, Default)]
pub struct ObjectCache {
    kinds: Kinds,
    objects: BTreeMap<GroupVersionKind, BTreeMap<ObjectKey, Arc<Value>>>,
}

impl ObjectCache {
    /// An empty cache that knows these kinds.
    pub fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            objects: BTreeMap::new(),
        }
    }

    /// Adds a kind, or changes how it is served.
    pub fn add_kind(&mut self, kind: Kind) -> bool {
        self.kinds.add(kind)
    }

    /// Removes a kind with all its objects.
    pub fn remove_kind(&mut self, gvk: &GroupVersionKind) -> bool {
        let had_objects = self.objects.remove(gvk).is_some();
        self.kinds.remove(gvk) || had_objects
    }

    /// Creates or replaces an object. One without kind or name is left out.
    pub fn apply(&mut self, object: Arc<Value>) -> bool {
        match identity(&object) {
            Some((gvk, key)) => self.set(&gvk, key, object),
            None => false,
        }
    }

    /// Creates or replaces an object under a key that the object itself need not have.
    pub(super) fn set(
        &mut self,
        gvk: &GroupVersionKind,
        key: ObjectKey,
        object: Arc<Value>,
    ) -> bool {
        let objects = self.objects.entry(gvk.clone()).or_default();
        if objects.get(&key) == Some(&object) {
            return false;
        }
        objects.insert(key, object);
        true
    }

    /// Deletes an object.
    pub fn delete(&mut self, gvk: &GroupVersionKind, key: &ObjectKey) -> bool {
        let objects = self.objects.get_mut(gvk);
        objects.is_some_and(|objects| objects.remove(key).is_some())
    }

    /// Replaces all objects of a kind, as after a relist.
    pub fn reset(
        &mut self,
        gvk: &GroupVersionKind,
        objects: impl IntoIterator<Item = Arc<Value>>,
    ) -> bool {
        let objects = objects.into_iter();
        let listed: BTreeMap<ObjectKey, Arc<Value>> = objects
            .filter_map(|object| Some((key_of(&object)?, object)))
            .collect();
        let before = self.objects.entry(gvk.clone()).or_default();
        let has_changed = *before != listed;
        *before = listed;
        has_changed
    }

    /// A kind that the cluster serves.
    pub fn kind(&self, gvk: &GroupVersionKind) -> Option<&Kind> {
        self.kinds.get(gvk)
    }

    /// All kinds that the cluster serves.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// One object.
    pub fn get(&self, gvk: &GroupVersionKind, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(gvk)?.get(key)
    }

    /// The objects of a kind, in one namespace or in all, in the order of their keys.
    pub fn list<'a>(
        &'a self,
        gvk: &GroupVersionKind,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> + use<'a> {
        // Keys are ordered by namespace first, so one namespace is a range.
        let first = match namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, ""),
            None => ObjectKey::cluster(""),
        };
        let objects = self.objects.get(gvk).into_iter();
        objects
            .flat_map(move |objects| objects.range(first.clone()..))
            .take_while(move |(key, _)| {
                namespace.is_none() || key.namespace.as_deref() == namespace
            })
    }
}

/// Kind and key of an object, as it says itself.
fn identity(object: &Value) -> Option<(GroupVersionKind, ObjectKey)> {
    let GroupVersion { group, version } = object["apiVersion"].as_str()?.parse().ok()?;
    let kind = object["kind"].as_str()?;
    Some((GroupVersionKind::new(group, version, kind), key_of(object)?))
}

fn key_of(object: &Value) -> Option<ObjectKey> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str();
    Some(ObjectKey {
        namespace: namespace
            .filter(|namespace| !namespace.is_empty())
            .map(str::to_owned),
        name: metadata["name"].as_str()?.to_owned(),
    })
}
