//! The verbs, implemented once for all kinds: a call results in one stored change or one response.

pub mod admit;
pub mod create;
pub mod delete;
pub mod list;
pub mod patch;
pub mod prepare;
pub mod scale;
pub mod select;
pub mod special;
pub mod token;
pub mod update;
pub mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use polity_core::Findings;
use polity_store::Key;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::object::Stored;
use crate::registry::Registry;
use crate::served::ServedResource;
use polity_auth::UserInfo;
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;

/// One authorized call on a resource.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    pub cluster: &'a Arc<Cluster>,
    /// The kinds that were served at the start of the call.
    pub registry: Arc<Registry>,
    pub def: Arc<ServedResource>,
    pub user: &'a UserInfo,
    /// Empty for cluster-scoped kinds and for lists over all namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
    pub subresource: Option<Subresource>,
    pub warnings: &'a Warnings,
    pub now: Timestamp,
    /// The field manager if the client names none: its user agent up to the first `/`.
    pub default_manager: String,
}

impl<'a> Call<'a> {
    /// The key of the object this call names.
    pub fn key(&self) -> Key {
        self.key_of(self.name)
    }

    /// The key of another object of this kind in the same namespace.
    pub fn key_of(&self, name: &str) -> Key {
        Key {
            bucket: self.def.bucket.clone(),
            namespace: self.namespace.into(),
            name: name.into(),
        }
    }

    /// The object this call names, or 404.
    pub fn live(&self) -> Result<Stored, ApiError> {
        self.cluster
            .store()
            .current()
            .get(&self.key())
            .cloned()
            .ok_or_else(|| self.not_found())
    }

    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(self.def.resource_name(), self.name)
    }

    /// The same call on another object.
    #[must_use]
    pub fn on(&self, namespace: &'a str, name: &'a str) -> Self {
        Self {
            namespace,
            name,
            ..self.clone()
        }
    }

    /// The value of a stored object in the version of this call, as a read returns it.
    pub fn value(&self, stored: &Stored) -> Value {
        self.def.read(stored)
    }
}

/// The result of a write.
#[derive(Debug, Clone)]
pub enum Written {
    Stored(Stored),
    /// A dry run: the object that would have been stored.
    Dry(Value),
}

/// Warnings for the client, each once.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Findings>);

impl Warnings {
    pub fn add(&self, text: impl Into<String>) {
        self.lock().add(|| text.into());
    }

    /// Adds one warning for each finding.
    pub fn add_all(&self, findings: Findings) {
        self.lock().append(findings);
    }

    /// The warnings so far, in order.
    pub fn take(&self) -> Findings {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Findings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
