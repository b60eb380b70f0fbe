//! The cluster as the evaluation of configuration policies reads it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polity_comply::namespaces::Namespace;
use polity_comply::{Cluster, DryRun, Kind};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::Value;

use super::{ClusterModel, ReadError};
use crate::schemas::{Schemas, Verdict};

/// Says what an update would do, without doing it.
pub trait DryRunUpdates {
    /// What an update from `current` to `updated` would give, with strict field validation.
    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun;
}

/// Adapts a model to the evaluation of configuration policies.
pub struct ConfigurationCluster<'a> {
    model: &'a ClusterModel,
    updates: &'a dyn DryRunUpdates,
}

impl<'a> ConfigurationCluster<'a> {
    pub fn new(model: &'a ClusterModel, updates: &'a dyn DryRunUpdates) -> Self {
        Self { model, updates }
    }
}

impl Cluster for ConfigurationCluster<'_> {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, polity_comply::ReadError> {
        self.model.kind(gvk).map_err(unread)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, polity_comply::ReadError> {
        let kind = Kind {
            gvk: GroupVersionKind::new("", "v1", "Namespace"),
            plural: "namespaces".to_owned(),
            namespaced: false,
        };
        let all = self.model.list(&kind, None, &LabelSelector::everything());
        let all = all.map_err(unread)?;
        Ok(all
            .iter()
            .map(|object| Namespace::from_json(object))
            .collect())
    }

    fn get(
        &self,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Value>>, polity_comply::ReadError> {
        self.model.get(kind, key).map_err(unread)
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, polity_comply::ReadError> {
        self.model.list(kind, namespace, selector).map_err(unread)
    }

    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun {
        self.updates.dry_run_update(kind, current, updated)
    }
}

/// The message of the API server as it is: compliance messages show it.
fn unread(error: ReadError) -> polity_comply::ReadError {
    polity_comply::ReadError(match error {
        ReadError::Refused { message, .. } => message,
        other => other.to_string(),
    })
}

/// Dry runs by the schemas of kinds, where there is no server to ask.
#[derive(Debug)]
pub struct SchemaUpdates {
    schemas: Schemas,
    unconfirmed: Mutex<BTreeSet<GroupVersionKind>>,
}

impl SchemaUpdates {
    pub fn new(schemas: Schemas) -> Self {
        Self {
            schemas,
            unconfirmed: Mutex::default(),
        }
    }

    /// The kinds without a schema whose updates were accepted unchecked since this was last called.
    pub fn take_unconfirmed(&self) -> BTreeSet<GroupVersionKind> {
        std::mem::take(&mut *self.unconfirmed())
    }

    fn unconfirmed(&self) -> MutexGuard<'_, BTreeSet<GroupVersionKind>> {
        self.unconfirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl DryRunUpdates for SchemaUpdates {
    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun {
        match self.schemas.judge(&kind.gvk, current, updated) {
            Verdict::Same => DryRun::Accepted(current.clone()),
            Verdict::Different => DryRun::Accepted(updated.clone()),
            Verdict::Invalid(error) => DryRun::Invalid(error),
            Verdict::UnknownFields(error) => DryRun::Strict(error),
            Verdict::NoSchema => {
                self.unconfirmed().insert(kind.gvk.clone());
                DryRun::Accepted(updated.clone())
            }
        }
    }
}
