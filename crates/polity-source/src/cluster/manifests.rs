//! Manifests in the place of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_comply::Kind;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::json;

use super::cache::ObjectCache;
use super::kinds::Kinds;
use crate::manifests::{Document, Manifests, Origin};

/// The namespace that every cluster has, and that objects without a namespace are created in.
const DEFAULT_NAMESPACE: &str = "default";
/// The fields of `metadata` that a server sets when an object is created.
const SET_BY_SERVERS: [&str; 5] = [
    "resourceVersion",
    "generateName",
    "creationTimestamp",
    "selfLink",
    "uid",
];

/// Why a manifest cannot be in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    #[error("{origin}: {} {} is not a known kind", kind.api_version(), kind.kind)]
    UnknownKind {
        origin: Origin,
        kind: GroupVersionKind,
    },
    #[error("{origin}: {kind} has no name")]
    NoName { origin: Origin, kind: String },
}

impl FillError {
    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownKind { .. } => Some(
                "if this is a custom resource, put its CustomResourceDefinition among the files, or an \
                 entry for it in the mappings file",
            ),
            Self::NoName { .. } => None,
        }
    }
}

impl ObjectCache {
    /// The objects of manifests as they are written. The scope of a kind that is neither built in nor defined among them
    /// follows from its objects.
    pub fn from_manifests(manifests: &Manifests) -> Self {
        let mut kinds = Kinds::built_in();
        kinds.add_definitions(manifests);
        for kind in inferred(manifests, &kinds).into_values() {
            kinds.add(kind);
        }
        let mut cache = Self::new(kinds);
        for document in &manifests.documents {
            let Some(kind) = cache.kind(&document.kind) else {
                continue;
            };
            let key = key(document, kind);
            cache.set(&document.kind, key, Arc::new(document.object.clone()));
        }
        cache
    }

    /// The objects of manifests as a server stores new objects, without the fields that differ between servers, and the
    /// namespace `default`.
    pub fn from_applied(mut kinds: Kinds, manifests: Manifests) -> Result<Self, FillError> {
        kinds.add_definitions(&manifests);
        let mut cache = Self::new(kinds);
        for document in manifests.documents {
            cache.add_applied(document)?;
        }
        let gvk = GroupVersionKind::new("", "v1", "Namespace");
        let key = ObjectKey::cluster(DEFAULT_NAMESPACE);
        if cache.get(&gvk, &key).is_none() {
            cache.apply(Arc::new(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE},
            })));
        }
        Ok(cache)
    }

    fn add_applied(&mut self, document: Document) -> Result<(), FillError> {
        let Some(kind) = self.kind(&document.kind) else {
            return Err(FillError::UnknownKind {
                origin: document.origin,
                kind: document.kind,
            });
        };
        if document.name().is_empty() {
            return Err(FillError::NoName {
                origin: document.origin,
                kind: document.kind.kind,
            });
        }
        let key = key(&document, kind);
        let mut object = document.object;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in SET_BY_SERVERS {
                metadata.remove(field);
            }
            match &key.namespace {
                Some(namespace) => {
                    _ = metadata.insert("namespace".to_owned(), namespace.as_str().into());
                }
                None => _ = metadata.remove("namespace"),
            }
        }
        // The first one stays, as it does when objects are created one after the other.
        if self.get(&document.kind, &key).is_none() {
            self.set(&document.kind, key, Arc::new(object));
        }
        Ok(())
    }
}

fn key(document: &Document, kind: &Kind) -> ObjectKey {
    let namespace = document.namespace().unwrap_or(DEFAULT_NAMESPACE);
    ObjectKey {
        namespace: kind.namespaced.then(|| namespace.to_owned()),
        name: document.name().to_owned(),
    }
}

/// The kinds of documents that are not known: namespaced if any document has a namespace.
fn inferred(manifests: &Manifests, known: &Kinds) -> BTreeMap<GroupVersionKind, Kind> {
    let mut inferred: BTreeMap<GroupVersionKind, Kind> = BTreeMap::new();
    let documents = manifests.documents.iter();
    for document in documents.filter(|document| known.get(&document.kind).is_none()) {
        let gvk = &document.kind;
        let kind = inferred.entry(gvk.clone()).or_insert_with(|| Kind {
            gvk: gvk.clone(),
            plural: format!("{}s", gvk.kind.to_lowercase()),
            namespaced: false,
        });
        kind.namespaced |= document.namespace().is_some();
    }
    inferred
}
