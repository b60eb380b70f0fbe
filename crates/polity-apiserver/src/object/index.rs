//! The values that are derived once from each stored version: labels for selectors, owners for the garbage collector.

use std::collections::BTreeMap;

use polity_store::Key;
use serde::Deserialize;

/// An owner reference as the garbage collector needs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub block_owner_deletion: bool,
}

/// The part of `metadata` that the server reads frequently.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectIndex {
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deletion_timestamp: Option<String>,
}

impl ObjectIndex {
    /// Whether deletion has begun.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether a finalizer is set.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}

impl polity_store::Index for ObjectIndex {
    fn index(_key: &Key, bytes: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(default)]
            metadata: ObjectIndex,
        }
        // Stored objects are valid. If one does not decode nevertheless, it has no labels and no owners.
        serde_json::from_slice::<Envelope>(bytes)
            .map(|envelope| envelope.metadata)
            .unwrap_or_default()
    }
}
