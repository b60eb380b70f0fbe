//! What a cluster keeps in mind of each definition, so that one that changes does not have all others read again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use polity_store::Revision;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::names::{self, Taken};
use super::{DEFINITIONS, definition};
use crate::engine::{Snapshot, Stored};
use crate::object::{conditions, meta};

/// A stored definition without its schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    pub revision: Revision,
    pub group: String,
    /// `status.acceptedNames`.
    pub names: Value,
    /// The versions it serves; none while its names are not accepted.
    pub served: Vec<String>,
    /// Whether its status says all there is to say, as long as it is not changed.
    pub is_settled: bool,
    pub is_deleting: bool,
    /// All that serving depends on.
    pub source: Source,
}

/// Tells texts of a definition apart by what they make a cluster serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source([u8; 32]);

impl Source {
    fn of(crd: &Value) -> Self {
        let parts = [
            &json!(meta::uid(crd)),
            &crd["spec"],
            &crd["status"]["acceptedNames"],
        ];
        let text = serde_json::to_vec(&parts).expect("a JSON value serialises into memory");
        Self(Sha256::digest(text).into())
    }
}

impl Summary {
    pub fn of(revision: Revision, crd: &Value) -> Self {
        let text = |pointer| {
            let found = crd.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let is_accepted = conditions::is_true(crd, "NamesAccepted");
        let served = definition::versions(crd)
            .filter(|version| is_accepted && version["served"] == true)
            .filter_map(|version| Some(version["name"].as_str()?.to_owned()));
        Self {
            name: meta::name(crd).to_owned(),
            revision,
            group: text("/spec/group"),
            names: crd["status"]["acceptedNames"].clone(),
            served: served.collect(),
            // Names that are accepted stay so, whoever comes later.
            is_settled: names::accept(crd, &Taken::default(), Timestamp::default()).is_none(),
            is_deleting: meta::is_deleting(crd),
            source: Source::of(crd),
        }
    }

    pub fn plural(&self) -> &str {
        self.names["plural"].as_str().unwrap_or_default()
    }
}

/// The definitions of a cluster, by name.
#[derive(Debug, Default)]
pub struct Summaries(BTreeMap<String, Arc<Summary>>);

impl Summaries {
    /// Follows the store; reads only what has changed since the last time.
    pub fn follow(&mut self, snapshot: &Snapshot) -> Vec<Arc<Summary>> {
        let stored = snapshot.range(DEFINITIONS, None, None);
        self.0 = stored
            .filter_map(|stored| {
                let known = self.0.get(&*stored.key.name);
                let summary = match known.filter(|known| known.revision == stored.revision) {
                    Some(known) => known.clone(),
                    None => Arc::new(Summary::of(stored.revision, &read(stored)?)),
                };
                Some((stored.key.name.to_string(), summary))
            })
            .collect();
        self.0.values().cloned().collect()
    }
}

/// A definition as it is stored.
pub fn read(stored: &Stored) -> Option<Value> {
    serde_json::from_slice(&stored.bytes).ok()
}
