//! Files in the place of a cluster.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polity_comply::namespaces::Namespace;
use polity_comply::{Cluster, DryRun, Kind, ReadError};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::{Value, json};

use super::Looked;
use super::kinds::Kinds;
use super::schemas::{Schemas, Verdict};
use crate::exit::Hinted;
use polity_source::{Document, Manifests};

/// The namespace that is always there, and that objects without one go to.
const DEFAULT_NAMESPACE: &str = "default";
/// What a server gives an object when it is created.
const GIVEN_BY_SERVERS: [&str; 5] = [
    "resourceVersion",
    "generateName",
    "creationTimestamp",
    "selfLink",
    "uid",
];

/// The objects of some files.
pub(super) struct FileCluster {
    kinds: Kinds,
    schemas: Schemas,
    objects: BTreeMap<(GroupVersionKind, ObjectKey), Arc<Value>>,
    /// The kinds whose differences nobody could confirm since they were last asked for.
    unconfirmed: RefCell<BTreeSet<GroupVersionKind>>,
}

impl FileCluster {
    pub(super) fn new(mut kinds: Kinds, manifests: Manifests) -> anyhow::Result<Self> {
        kinds.add_definitions(&manifests);
        let mut cluster = Self {
            kinds,
            schemas: Schemas::new(&manifests),
            objects: BTreeMap::new(),
            unconfirmed: RefCell::default(),
        };
        for document in manifests.documents {
            cluster.add(document)?;
        }
        let namespace = GroupVersionKind::new("", "v1", "Namespace");
        let key = ObjectKey::cluster(DEFAULT_NAMESPACE);
        cluster.objects.entry((namespace, key)).or_insert_with(|| {
            Arc::new(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE},
            }))
        });
        Ok(cluster)
    }

    fn add(&mut self, document: Document) -> anyhow::Result<()> {
        let Some(kind) = self.kinds.get(&document.kind) else {
            return Err(Hinted::new(
                format!(
                    "{}: {} {} is not a known kind",
                    document.origin,
                    document.kind.api_version(),
                    document.kind.kind
                ),
                "if this is a custom resource, put its CustomResourceDefinition among the files, or an \
                 entry for it in the mappings file",
            )
            .into());
        };
        if document.name().is_empty() {
            anyhow::bail!("{}: {} has no name", document.origin, document.kind.kind);
        }
        let key = ObjectKey {
            namespace: kind
                .namespaced
                .then(|| document.namespace().unwrap_or(DEFAULT_NAMESPACE).to_owned()),
            name: document.name().to_owned(),
        };
        let mut object = document.object;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in GIVEN_BY_SERVERS {
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
        self.objects
            .entry((document.kind, key))
            .or_insert_with(|| Arc::new(object));
        Ok(())
    }

    fn of_kind<'a>(
        &'a self,
        gvk: &'a GroupVersionKind,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> {
        let first = ObjectKey::cluster("");
        self.objects
            .range((gvk.clone(), first)..)
            .take_while(move |((of, _), _)| of == gvk)
            .map(|((_, key), object)| (key, object))
    }
}

impl Looked for FileCluster {
    fn unconfirmed(&self) -> BTreeSet<GroupVersionKind> {
        self.unconfirmed.take()
    }
}

impl Cluster for FileCluster {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        Ok(self.kinds.get(gvk).cloned())
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError> {
        let gvk = GroupVersionKind::new("", "v1", "Namespace");
        let all = self.of_kind(&gvk);
        Ok(all
            .map(|(_, object)| Namespace::from_json(object))
            .collect())
    }

    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        let key = (kind.gvk.clone(), key.clone());
        Ok(self.objects.get(&key).cloned())
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        let fits = |(key, object): &(&ObjectKey, &Arc<Value>)| {
            (namespace.is_none() || key.namespace.as_deref() == namespace)
                && selector.matches(&object["metadata"]["labels"])
        };
        let found = self.of_kind(&kind.gvk).filter(fits);
        Ok(found.map(|(_, object)| Arc::clone(object)).collect())
    }

    /// What a server would confirm by a dry run is confirmed by the kind's schema.
    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun {
        match self.schemas.judge(&kind.gvk, current, updated) {
            Verdict::Same => DryRun::Accepted(current.clone()),
            Verdict::Different => DryRun::Accepted(updated.clone()),
            Verdict::Invalid(error) => DryRun::Invalid(error),
            Verdict::UnknownFields(error) => DryRun::Strict(error),
            Verdict::NoSchema => {
                self.unconfirmed.borrow_mut().insert(kind.gvk.clone());
                DryRun::Accepted(updated.clone())
            }
        }
    }
}
