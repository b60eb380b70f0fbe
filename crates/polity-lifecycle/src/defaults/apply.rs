//! Carries out one write: applies without force, or deletes the object that was found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::DynamicObject;
use polity_reconcile::{Deletion, FieldConflict, WriteError, Writer};
use serde_json::Value;
use tracing::{debug, info};

use super::conflicts;
use super::plan::Found;
use super::{DefaultsError, MANAGER};
use crate::kinds::OwnedKey;

/// The outcome of an apply.
pub(super) enum Applied {
    /// The whole document is applied.
    Done,
    /// The document is applied without these fields of other managers.
    But(Vec<FieldConflict>),
    /// Nothing was changed: these fields are within lists that are partly ours.
    Held(Vec<FieldConflict>),
    /// The API server refuses the document.
    Refused(String),
}

/// Why an apply changed nothing.
enum TryError {
    Refused(String),
    Conflicts(Vec<FieldConflict>),
    Failed(DefaultsError),
}

impl Applied {
    /// The note of the Event about fields of other managers.
    pub(super) fn note(&self, key: &OwnedKey, place: &str) -> Option<String> {
        let (what, conflicts) = match self {
            Self::Done | Self::Refused(_) => return None,
            Self::But(conflicts) => ("keeps", conflicts),
            Self::Held(conflicts) => ("stays whole as it is because of", conflicts),
        };
        let fields: Vec<_> = conflicts
            .iter()
            .map(|conflict| format!("{} ({})", conflict.field, conflict.message))
            .collect();
        Some(format!("{place}: {key} {what} {}", fields.join(", ")))
    }
}

/// Applies a document without force. What is in conflict is left out, and the rest applied.
pub(super) async fn apply(
    client: &Client,
    key: &OwnedKey,
    body: &Value,
) -> Result<Applied, DefaultsError> {
    let conflicts = match try_apply(client, key, body).await {
        Ok(()) => return Ok(Applied::Done),
        Err(TryError::Refused(reason)) => return Ok(Applied::Refused(reason)),
        Err(TryError::Failed(error)) => return Err(error),
        Err(TryError::Conflicts(conflicts)) => conflicts,
    };
    let Some(rest) = conflicts::without(body, &conflicts) else {
        return Ok(Applied::Held(conflicts));
    };
    match try_apply(client, key, &rest).await {
        Ok(()) => Ok(Applied::But(conflicts)),
        Err(TryError::Refused(reason)) => Ok(Applied::Refused(reason)),
        Err(TryError::Failed(error)) => Err(error),
        Err(TryError::Conflicts(conflicts)) => Ok(Applied::Held(conflicts)),
    }
}

async fn try_apply(client: &Client, key: &OwnedKey, body: &Value) -> Result<(), TryError> {
    let (kind, name) = (key.kind.as_str(), &key.name);
    let object: DynamicObject = serde_json::from_value(body.clone())
        .map_err(|error| TryError::Refused(error.to_string()))?;
    match writer(client, key).apply_without_force(&object).await {
        Ok(_) => {
            info!(kind, name, "recommended policy applied");
            Ok(())
        }
        // Not found: the namespace, which may be created later.
        Err(WriteError::Refused { message, .. } | WriteError::NotFound { message, .. }) => {
            debug!(kind, name, message, "a recommended policy was refused");
            Err(TryError::Refused(message))
        }
        Err(WriteError::FieldConflicts { conflicts, .. }) => Err(TryError::Conflicts(conflicts)),
        Err(error) => Err(TryError::Failed(error.into())),
    }
}

/// Deletes the object that was found. It is no failure when it is gone already.
pub(super) async fn delete(
    client: &Client,
    key: &OwnedKey,
    found: &Found,
) -> Result<(), DefaultsError> {
    let metadata = ObjectMeta {
        name: Some(key.name.clone()),
        namespace: key.namespace.clone(),
        uid: Some(found.uid.clone()),
        ..ObjectMeta::default()
    };
    if writer(client, key).delete(&metadata).await? == Deletion::Deleted {
        let (kind, name) = (key.kind.as_str(), &key.name);
        info!(kind, name, "recommended policy deleted");
    }
    Ok(())
}

fn writer(client: &Client, key: &OwnedKey) -> Writer<DynamicObject> {
    Writer::of_kind(client, key.kind.api_resource(), MANAGER)
}
