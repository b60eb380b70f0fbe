//! Writes as controllers make them: forced apply under their own field manager, updates only of
//! what was read, status only on change, deletes only of what was meant.
//!
//! A [`Writer`] is for one kind, static or dynamic, and one field manager. "Already gone" is
//! never an error of a delete.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::info;

use crate::clock::Clock;
use crate::retry::{self, Backoff};

/// The label that names the controller an object belongs to.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since it was read (or, for a create, is there already).
    #[error("{name} has changed since it was read")]
    Conflict {
        /// The object.
        name: String,
    },
    /// There is no such object, or no such kind.
    #[error("{name} does not exist")]
    NotFound {
        /// The object.
        name: String,
    },
    /// An object without a name cannot be addressed.
    #[error("the object has no name")]
    NoName,
    /// An update must say which version it replaces.
    #[error("{name} has no resource version, so an update could overwrite anything")]
    NoResourceVersion {
        /// The object.
        name: String,
    },
    /// The object cannot be written as JSON.
    #[error("encoding {name}")]
    Encode {
        /// The object.
        name: String,
        /// What went wrong.
        #[source]
        error: serde_json::Error,
    },
    /// Anything else the API server or the way to it has to say.
    #[error("writing {name}")]
    Api {
        /// The object.
        name: String,
        /// What went wrong.
        #[source]
        error: Box<kube::Error>,
    },
}

impl WriteError {
    fn from_api(name: &str, error: kube::Error) -> Self {
        let name = name.to_owned();
        match &error {
            kube::Error::Api(status) if status.code == 409 => Self::Conflict { name },
            kube::Error::Api(status) if status.code == 404 => Self::NotFound { name },
            _ => Self::Api {
                name,
                error: error.into(),
            },
        }
    }
}

/// What came of writing a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusWrite<K> {
    /// It says so already; nothing was sent.
    Unchanged,
    /// It was written; this is the object now.
    Written(K),
}

/// What came of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone, or going once its finalizers are done.
    Deleted,
    /// It was not there, or another one of the same name is.
    AlreadyGone,
}

/// Writes objects of one kind under one field manager.
#[derive(Debug, Clone)]
pub struct Writer<K: Resource> {
    api: Api<K>,
    kind: K::DynamicType,
    manager: String,
}

impl<K> Writer<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    /// A writer for the objects of `api`, under a field manager such as `polity/attachment`.
    pub fn new(api: Api<K>, kind: K::DynamicType, manager: impl Into<String>) -> Self {
        Self {
            api,
            kind,
            manager: manager.into(),
        }
    }

    /// Makes the fields of `object` so, whoever had them before (server-side apply, forced).
    pub async fn apply(&self, object: &K) -> Result<K, WriteError> {
        let name = name_of(object)?;
        let body = self.applicable(&name, object)?;
        let params = PatchParams::apply(&self.manager).force();
        let applied = self.api.patch(&name, &params, &Patch::Apply(body)).await;
        applied.map_err(|error| WriteError::from_api(&name, error))
    }

    /// Replaces an object that was read before, if nobody has changed it since.
    pub async fn update(&self, object: &K) -> Result<K, WriteError> {
        let name = name_of(object)?;
        if object.resource_version().is_none() {
            return Err(WriteError::NoResourceVersion { name });
        }
        let params = PostParams {
            field_manager: Some(self.manager.clone()),
            ..PostParams::default()
        };
        let updated = self.api.replace(&name, &params, object).await;
        updated.map_err(|error| WriteError::from_api(&name, error))
    }

    /// Applies a status, unless `current` says so already.
    pub async fn apply_status(
        &self,
        current: &K,
        status: &impl Serialize,
    ) -> Result<StatusWrite<K>, WriteError> {
        let name = name_of(current)?;
        let encode = |error| WriteError::Encode {
            name: name.clone(),
            error,
        };
        let status = serde_json::to_value(status).map_err(encode)?;
        let before = serde_json::to_value(current).map_err(encode)?;
        if before.get("status") == Some(&status) {
            return Ok(StatusWrite::Unchanged);
        }
        let body = json!({
            "apiVersion": K::api_version(&self.kind),
            "kind": K::kind(&self.kind),
            "metadata": { "name": name },
            "status": status,
        });
        let params = PatchParams::apply(&self.manager).force();
        match self
            .api
            .patch_status(&name, &params, &Patch::Apply(body))
            .await
        {
            Ok(written) => Ok(StatusWrite::Written(written)),
            Err(error) => Err(WriteError::from_api(&name, error)),
        }
    }

    /// Deletes this very object, not another of the same name, in the background. Whether it
    /// has changed since it was read does not matter.
    pub async fn delete(&self, object: &K) -> Result<Deletion, WriteError> {
        self.delete_if(
            object,
            Preconditions {
                uid: object.uid(),
                resource_version: None,
            },
        )
        .await
    }

    /// Deletes this very object if nobody has changed it since it was read.
    pub async fn delete_unchanged(&self, object: &K) -> Result<Deletion, WriteError> {
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: object.resource_version(),
        };
        match self.delete_if(object, preconditions).await {
            Ok(Deletion::AlreadyGone) => self.gone_or_changed(object).await,
            other => other,
        }
    }

    /// Deletes the objects of a label that are not to be kept. Answers the names of those
    /// deleted.
    pub async fn prune(
        &self,
        selector: &str,
        keep: &BTreeSet<String>,
    ) -> Result<Vec<String>, WriteError> {
        let list = self.api.list(&ListParams::default().labels(selector)).await;
        let list = list.map_err(|error| WriteError::from_api(selector, error))?;
        let mut pruned = Vec::new();
        for object in list
            .items
            .iter()
            .filter(|object| !keep.contains(&object.name_any()))
        {
            // Those that wait for their finalizers were deleted before.
            if object.meta().deletion_timestamp.is_none()
                && self.delete(object).await? == Deletion::Deleted
            {
                info!(kind = %K::kind(&self.kind), name = object.name_any(), "pruned");
                pruned.push(object.name_any());
            }
        }
        Ok(pruned)
    }

    async fn delete_if(
        &self,
        object: &K,
        preconditions: Preconditions,
    ) -> Result<Deletion, WriteError> {
        let name = name_of(object)?;
        let params = DeleteParams::background().preconditions(preconditions);
        match self
            .api
            .delete(&name, &params)
            .await
            .map_err(|error| WriteError::from_api(&name, error))
        {
            Ok(_) => Ok(Deletion::Deleted),
            // A conflict means another uid: the one that was meant is gone.
            Err(WriteError::NotFound { .. } | WriteError::Conflict { .. }) => {
                Ok(Deletion::AlreadyGone)
            }
            Err(error) => Err(error),
        }
    }

    /// With two preconditions a refusal does not say which of them failed.
    async fn gone_or_changed(&self, object: &K) -> Result<Deletion, WriteError> {
        let name = name_of(object)?;
        match self
            .api
            .get_opt(&name)
            .await
            .map_err(|error| WriteError::from_api(&name, error))?
        {
            Some(found) if found.uid() == object.uid() => Err(WriteError::Conflict { name }),
            _ => Ok(Deletion::AlreadyGone),
        }
    }

    /// An apply body: with its kind, and without what belongs to the server.
    fn applicable(&self, name: &str, object: &K) -> Result<Value, WriteError> {
        let encode = |error| WriteError::Encode {
            name: name.to_owned(),
            error,
        };
        let mut body = serde_json::to_value(object).map_err(encode)?;
        body["apiVersion"] = json!(K::api_version(&self.kind));
        body["kind"] = json!(K::kind(&self.kind));
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            // A version here would turn "make it so" into "make it so if nothing changed".
            metadata.remove("resourceVersion");
        }
        Ok(body)
    }
}

fn name_of<K: Resource>(object: &K) -> Result<String, WriteError> {
    object
        .meta()
        .name
        .clone()
        .filter(|name| !name.is_empty())
        .ok_or(WriteError::NoName)
}

/// Reads, changes and writes again while others are quicker, a few times, with growing pauses.
/// The attempt must read anew each time.
pub async fn retry_on_conflict<T, F>(
    clock: &Clock,
    mut attempt: impl FnMut() -> F,
) -> Result<T, WriteError>
where
    F: Future<Output = Result<T, WriteError>>,
{
    const ATTEMPTS: usize = 5;
    let pauses = Backoff::new(
        Duration::from_millis(10),
        Duration::from_millis(500),
        retry::random,
    );
    for pause in pauses.take(ATTEMPTS - 1) {
        match attempt().await {
            Err(WriteError::Conflict { .. }) => clock.sleep(pause).await,
            other => return other,
        }
    }
    attempt().await
}

#[cfg(test)]
mod tests;
