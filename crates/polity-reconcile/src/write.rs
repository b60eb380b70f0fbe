//! Writes as controllers make them.
//!
//! - [`Writer::apply_if_changed`] applies an object with force under the controller's own field manager, and sends
//!   nothing when the object has everything that is wanted.
//! - [`Writer::apply_status`] does the same for a status that one controller owns; [`Writer::change_status`] is for a
//!   status that several writers share.
//! - [`Writer::create`], [`Writer::update`], [`Writer::update_status`] and [`Writer::patch_metadata`] replace nothing but
//!   the version that was read.
//! - [`Writer::delete`], [`Writer::delete_unchanged`] and [`Writer::prune`] delete the object that was read, and no
//!   other one of its name. An object that is already gone is no error.
//!
//! A [`Writer`] is for one kind, typed or dynamic, and one field manager. Its objects name their namespace themselves.
//!
//! ```no_run
//! # use std::collections::BTreeSet;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, Client, ResourceExt as _};
//! # use polity_core::ObjectKey;
//! # use polity_reconcile::{WriteError, Writer};
//! # async fn write(client: Client, found: Option<ConfigMap>, wanted: ConfigMap) -> Result<(), WriteError> {
//! let writer = Writer::<ConfigMap>::new(&client, "polity/greetings");
//! // Sends a request only if something differs.
//! writer.apply_if_changed(found.as_ref(), &wanted).await?;
//! // Deletes all other objects with the label.
//! let planned = BTreeSet::from([ObjectKey::namespaced("default", wanted.name_any())]);
//! writer.prune("app.kubernetes.io/managed-by=greetings", &planned).await?;
//! # Ok(())
//! # }
//! ```

mod compare;
mod error;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    DeleteParams, GetParams, ListParams, ObjectList, PartialObjectMeta, Patch, PatchParams,
    PostParams, Preconditions, Request,
};
use kube::{Client, Resource, ResourceExt};
use polity_core::ObjectKey;
use polity_runtime::Clock;
use polity_runtime::retry::{self, Backoff};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::info;

use self::compare::{content_hash, includes};

pub use self::error::{FieldConflict, WriteError};

/// Annotation: a hash of everything that was applied. A field that is no longer wanted is still in the object and looks
/// like a field of another manager; the changed hash shows that the object must be applied again.
const APPLIED: &str = "polity.dev/applied";
/// How often a status is changed again after a conflict.
const STATUS_ATTEMPTS: usize = 8;

/// The outcome of a write that is sent only on change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome<K> {
    /// The object is as wanted; nothing was sent.
    Unchanged,
    /// The object after the write.
    Written(K),
}

/// The outcome of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object is deleted, or will be when its finalizers are removed.
    Deleted,
    /// The object did not exist, or another one has its name.
    AlreadyGone,
}

/// Writes objects of one kind under one field manager. Clones are cheap.
#[derive(Clone)]
pub struct Writer<K: Resource> {
    client: Client,
    kind: K::DynamicType,
    manager: String,
}

impl<K: Resource<DynamicType = ()>> Writer<K> {
    /// A writer for the objects of a typed kind, under a field manager such as `polity/attachment`.
    pub fn new(client: &Client, manager: &str) -> Self {
        Self::of_kind(client, (), manager)
    }
}

impl<K: Resource> Writer<K> {
    /// A writer for the objects of a kind that is known at run time.
    pub fn of_kind(client: &Client, kind: K::DynamicType, manager: &str) -> Self {
        Self {
            client: client.clone(),
            kind,
            manager: manager.to_owned(),
        }
    }
}

impl<K> Writer<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    /// Sets the fields of `object`, also those of other managers (server-side apply with force).
    pub async fn apply(&self, object: &K) -> Result<K, WriteError> {
        let body = self.applicable(object)?;
        let params = PatchParams::apply(&self.manager).force();
        self.send_apply(object.meta(), &params, body).await
    }

    /// Sets the fields of `object` unless another manager has one of them with another value, which is
    /// [`WriteError::FieldConflicts`].
    pub async fn apply_without_force(&self, object: &K) -> Result<K, WriteError> {
        let body = self.applicable(object)?;
        let params = PatchParams::apply(&self.manager);
        self.send_apply(object.meta(), &params, body).await
    }

    /// Applies an object with force unless `current`, as it was read, has everything that is wanted.
    ///
    /// Fields beside it are left alone, since the API server fills in defaults. Fields that were applied before and are
    /// no longer wanted are removed. An annotation with a hash of the applied fields makes this visible, so only one
    /// field manager may apply an object in this way.
    pub async fn apply_if_changed(
        &self,
        current: Option<&K>,
        wanted: &K,
    ) -> Result<WriteOutcome<K>, WriteError> {
        let mut body = self.applicable(wanted)?;
        let hash = content_hash(&body);
        if let Some(current) = current
            && current.annotations().get(APPLIED) == Some(&hash)
            && includes(&self.applicable(current)?, &body)
        {
            return Ok(WriteOutcome::Unchanged);
        }
        body["metadata"]["annotations"][APPLIED] = json!(hash);
        let params = PatchParams::apply(&self.manager).force();
        let applied = self.send_apply(wanted.meta(), &params, body).await?;
        Ok(WriteOutcome::Written(applied))
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, WriteError> {
        let (subject, _) = self.subject(object.meta())?;
        let body = encoded(&subject, object)?;
        let request = self.request(object.meta());
        let request = request.create(&self.post_params(), body.to_string().into_bytes());
        self.send(subject, request).await
    }

    /// Replaces the version of an object that was read. A version that has changed meanwhile is a conflict.
    pub async fn update(&self, object: &K) -> Result<K, WriteError> {
        let (subject, name) = self.versioned(object.meta())?;
        let body = encoded(&subject, object)?;
        let request = self.request(object.meta());
        let request = request.replace(name, &self.post_params(), body.to_string().into_bytes());
        self.send(subject, request).await
    }

    /// Replaces the status of the version of an object that was read. A version that has changed meanwhile is a
    /// conflict.
    pub async fn update_status(&self, object: &K) -> Result<K, WriteError> {
        let (subject, _) = self.versioned(object.meta())?;
        let body = encoded(&subject, object)?;
        self.send_status(object.meta(), body).await
    }

    /// Changes metadata of the version of an object that was read, such as annotations or finalizers: a merge patch. A
    /// version that has changed meanwhile is a conflict.
    pub async fn patch_metadata(
        &self,
        read: &ObjectMeta,
        mut changes: Value,
    ) -> Result<ObjectMeta, WriteError> {
        let (subject, name) = self.versioned(read)?;
        changes["resourceVersion"] = json!(read.resource_version);
        let params = PatchParams {
            field_manager: Some(self.manager.clone()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "metadata": changes }));
        let request = self.request(read).patch_metadata(name, &params, &patch);
        let patched: PartialObjectMeta<K> = self.send(subject, request).await?;
        Ok(patched.metadata)
    }

    /// Changes a status that several writers share. `change` makes the next status of an object; nothing is written
    /// when it returns `None` or the status that is there.
    ///
    /// Starts with `current`, the object as it was last seen, say in a cache. On conflict the object is read again and
    /// `change` is called with it, up to eight times with growing pauses. So `change` must be pure, and keep what it does
    /// not own. An object that was deleted meanwhile, or replaced by another of its name, is [`WriteError::NotFound`].
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::{Pod, PodStatus};
    /// # use polity_reconcile::{WriteError, Writer};
    /// # use polity_runtime::Clock;
    /// # async fn write(writer: Writer<Pod>, clock: Clock, seen: &Pod) -> Result<(), WriteError> {
    /// let nominated = |pod: &Pod| {
    ///     let mut status = pod.status.clone().unwrap_or_default();
    ///     status.nominated_node_name = Some("node-1".to_owned());
    ///     Some(status)
    /// };
    /// writer.change_status(&clock, seen, nominated).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn change_status<S: Serialize>(
        &self,
        clock: &Clock,
        current: &K,
        change: impl Fn(&K) -> Option<S>,
    ) -> Result<WriteOutcome<K>, WriteError> {
        let (subject, _) = self.subject(current.meta())?;
        // Random delays spread the retries of writers that met in a conflict.
        let mut pauses = Backoff::new(
            Duration::from_millis(20),
            Duration::from_secs(1),
            retry::random,
        )
        .take(STATUS_ATTEMPTS - 1);
        let mut read = None;
        loop {
            let object = read.as_ref().unwrap_or(current);
            let Some(status) = change(object) else {
                return Ok(WriteOutcome::Unchanged);
            };
            let status = encoded(&subject, &status)?;
            let mut body = encoded(&subject, object)?;
            if body.get("status") == Some(&status) {
                return Ok(WriteOutcome::Unchanged);
            }
            body["status"] = status;
            let conflict = match self.send_status(object.meta(), body).await {
                Err(error @ WriteError::Conflict { .. }) => error,
                other => return other.map(WriteOutcome::Written),
            };
            let Some(pause) = pauses.next() else {
                return Err(conflict);
            };
            clock.sleep(pause).await;
            read = Some(self.read_again(current.meta()).await?);
        }
    }

    /// Applies a status with force, unless `current` has it.
    pub async fn apply_status(
        &self,
        current: &K,
        status: &impl Serialize,
    ) -> Result<WriteOutcome<K>, WriteError> {
        let (subject, name) = self.subject(current.meta())?;
        let status = encoded(&subject, status)?;
        if encoded(&subject, current)?.get("status") == Some(&status) {
            return Ok(WriteOutcome::Unchanged);
        }
        let body = json!({
            "apiVersion": K::api_version(&self.kind),
            "kind": K::kind(&self.kind),
            "metadata": { "name": name },
            "status": status,
        });
        let params = PatchParams::apply(&self.manager).force();
        let request = self.request(current.meta());
        let request = request.patch_subresource("status", name, &params, &Patch::Apply(body));
        self.send(subject, request).await.map(WriteOutcome::Written)
    }

    /// Deletes the object with this name and UID, in the background. Changes since it was read do not matter.
    pub async fn delete(&self, read: &ObjectMeta) -> Result<Deletion, WriteError> {
        let preconditions = Preconditions {
            uid: read.uid.clone(),
            resource_version: None,
        };
        self.delete_if(read, preconditions).await
    }

    /// Deletes an object if it has not changed since it was read. One that has changed is a conflict.
    pub async fn delete_unchanged(&self, read: &ObjectMeta) -> Result<Deletion, WriteError> {
        let (subject, _) = self.versioned(read)?;
        let preconditions = Preconditions {
            uid: read.uid.clone(),
            resource_version: read.resource_version.clone(),
        };
        match self.delete_if(read, preconditions).await? {
            Deletion::Deleted => Ok(Deletion::Deleted),
            // With two preconditions a conflict does not tell which of them failed.
            Deletion::AlreadyGone => match self.read_again(read).await {
                Ok(_) => Err(WriteError::Conflict { object: subject }),
                Err(WriteError::NotFound { .. }) => Ok(Deletion::AlreadyGone),
                Err(error) => Err(error),
            },
        }
    }

    /// Deletes the objects of all namespaces that a label selector selects, except the planned ones. Returns the keys of
    /// the deleted objects.
    ///
    /// The plan must be complete. A controller that plans from its caches must have listed all of them: see
    /// [`Controller::after_first_lists`](crate::Controller::after_first_lists).
    pub async fn prune(
        &self,
        selector: &str,
        planned: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, WriteError> {
        self.prune_scope(None, selector, planned).await
    }

    /// Deletes the objects of one namespace that a label selector selects, except the planned ones; see [`Self::prune`].
    pub async fn prune_in(
        &self,
        namespace: &str,
        selector: &str,
        planned: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, WriteError> {
        self.prune_scope(Some(namespace), selector, planned).await
    }

    async fn prune_scope(
        &self,
        namespace: Option<&str>,
        selector: &str,
        planned: &BTreeSet<ObjectKey>,
    ) -> Result<Vec<ObjectKey>, WriteError> {
        let request = Request::new(K::url_path(&self.kind, namespace));
        let request = request.list_metadata(&ListParams::default().labels(selector));
        let subject = format!("{} with {selector}", K::kind(&self.kind));
        let found: ObjectList<PartialObjectMeta<K>> = self.send(subject, request).await?;
        let mut pruned = Vec::new();
        for PartialObjectMeta { metadata, .. } in found.items {
            let key = ObjectKey {
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone().unwrap_or_default(),
            };
            // An object that waits for its finalizers was deleted before.
            let is_due = !planned.contains(&key) && metadata.deletion_timestamp.is_none();
            if is_due && self.delete(&metadata).await? == Deletion::Deleted {
                info!(kind = %K::kind(&self.kind), object = %key, "pruned");
                pruned.push(key);
            }
        }
        Ok(pruned)
    }

    async fn delete_if(
        &self,
        read: &ObjectMeta,
        preconditions: Preconditions,
    ) -> Result<Deletion, WriteError> {
        let (object, name) = self.subject(read)?;
        if read.uid.is_none() {
            return Err(WriteError::NoUid { object });
        }
        let params = DeleteParams::background().preconditions(preconditions);
        let request = self.request(read).delete(name, &params);
        let deleted = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => self.client.request_status::<K>(request).await,
            Err(error) => Err(error),
        };
        match deleted.map_err(|error| WriteError::from_api(object, error)) {
            Ok(_) => Ok(Deletion::Deleted),
            // A conflict means another UID: the object that was read is gone.
            Err(WriteError::NotFound { .. } | WriteError::Conflict { .. }) => {
                Ok(Deletion::AlreadyGone)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads an object again. Another object of its name does not count.
    async fn read_again(&self, read: &ObjectMeta) -> Result<K, WriteError> {
        let (subject, name) = self.subject(read)?;
        let request = self.request(read).get(name, &GetParams::default());
        let found: K = self.send(subject.clone(), request).await?;
        if found.meta().uid == read.uid {
            Ok(found)
        } else {
            Err(WriteError::NotFound {
                object: subject,
                message: "another object has its name".to_owned(),
            })
        }
    }

    async fn send_apply(
        &self,
        metadata: &ObjectMeta,
        params: &PatchParams,
        body: Value,
    ) -> Result<K, WriteError> {
        let (subject, name) = self.subject(metadata)?;
        let request = self.request(metadata);
        let request = request.patch(name, params, &Patch::Apply(body));
        self.send(subject, request).await
    }

    async fn send_status(&self, metadata: &ObjectMeta, body: Value) -> Result<K, WriteError> {
        let (subject, name) = self.versioned(metadata)?;
        let (params, body) = (self.post_params(), body.to_string().into_bytes());
        let request = self.request(metadata);
        let request = request.replace_subresource("status", name, &params, body);
        self.send(subject, request).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        subject: String,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let answer = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|error| WriteError::from_api(subject, error))
    }

    fn request(&self, metadata: &ObjectMeta) -> Request {
        Request::new(K::url_path(&self.kind, metadata.namespace.as_deref()))
    }

    fn post_params(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.manager.clone()),
            ..PostParams::default()
        }
    }

    /// How errors name an object, and its name.
    fn subject<'a>(&self, metadata: &'a ObjectMeta) -> Result<(String, &'a str), WriteError> {
        let kind = K::kind(&self.kind);
        let name = metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            let kind = kind.into_owned();
            return Err(WriteError::NoName { kind });
        }
        let subject = match &metadata.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        };
        Ok((subject, name))
    }

    fn versioned<'a>(&self, metadata: &'a ObjectMeta) -> Result<(String, &'a str), WriteError> {
        let (object, name) = self.subject(metadata)?;
        match metadata.resource_version {
            Some(_) => Ok((object, name)),
            None => Err(WriteError::NoResourceVersion { object }),
        }
    }

    /// The body of an apply: with its kind, and without the fields that the API server sets.
    fn applicable(&self, object: &K) -> Result<Value, WriteError> {
        let (subject, _) = self.subject(object.meta())?;
        let mut body = encoded(&subject, object)?;
        body["apiVersion"] = json!(K::api_version(&self.kind));
        body["kind"] = json!(K::kind(&self.kind));
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            // With a version, the apply would fail after every change of another manager.
            metadata.remove("resourceVersion");
        }
        Ok(body)
    }
}

fn encoded(subject: &str, value: &impl Serialize) -> Result<Value, WriteError> {
    serde_json::to_value(value).map_err(|error| WriteError::Encode {
        object: subject.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests;
