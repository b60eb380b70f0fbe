//! Carries out one write: applies without force, and deletes what was meant.

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;
use tracing::{debug, info};

use super::conflicts::{self, Conflict};
use super::plan::Found;
use super::{DefaultsError, MANAGER};
use crate::kinds::OwnedKey;
use crate::shell::is_refusal;

/// What came of an apply.
pub(super) enum Applied {
    /// It is so.
    Done,
    /// It is so, but for these fields.
    But(Vec<Conflict>),
    /// Nothing was changed: these fields are within lists that are partly ours.
    Held(Vec<Conflict>),
    /// The API server does not take it.
    Refused(String),
}

/// Why an apply changed nothing.
enum TryError {
    Refused(String),
    Conflicts(Vec<Conflict>),
    Failed(DefaultsError),
}

impl Applied {
    /// What is told about fields that are somebody else's.
    pub(super) fn note(&self, key: &OwnedKey, place: &str) -> Option<String> {
        let (what, conflicts) = match self {
            Self::Done | Self::Refused(_) => return None,
            Self::But(conflicts) => ("keeps", conflicts),
            Self::Held(conflicts) => ("stays whole as it is because of", conflicts),
        };
        let fields: Vec<_> = conflicts
            .iter()
            .map(|conflict| format!("{} ({})", conflict.field, conflict.words))
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
    let (api, params) = (key.api(client), PatchParams::apply(MANAGER));
    match api.patch(name, &params, &Patch::Apply(body)).await {
        Ok(_) => {
            info!(kind, name, "recommended policy applied");
            Ok(())
        }
        // Not found: the namespace, which may come.
        Err(kube::Error::Api(status)) if is_refusal(status.code) || status.code == 404 => {
            let message = status.message;
            debug!(kind, name, message, "a recommended policy was refused");
            Err(TryError::Refused(message))
        }
        Err(kube::Error::Api(status)) if !conflicts::of(&status).is_empty() => {
            Err(TryError::Conflicts(conflicts::of(&status)))
        }
        Err(error) => Err(TryError::Failed(failed(key, error))),
    }
}

/// Deletes this very object; one that is gone already is as good.
pub(super) async fn delete(
    client: &Client,
    key: &OwnedKey,
    found: &Found,
) -> Result<(), DefaultsError> {
    let (kind, name) = (key.kind.as_str(), &key.name);
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(found.uid.clone()),
        resource_version: None,
    });
    match key.api(client).delete(name, &params).await {
        Ok(_) => {
            info!(kind, name, "recommended policy deleted");
            Ok(())
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(failed(key, error)),
    }
}

fn failed(key: &OwnedKey, error: kube::Error) -> DefaultsError {
    DefaultsError::Write {
        key: key.clone(),
        error,
    }
}
