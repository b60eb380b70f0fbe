//! A summary of each definition, so that a change of one does not require parsing all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use polity_store::Revision;
use serde_json::Value;

use super::names::{self, Taken};
use super::{DEFINITIONS, definition};
use crate::object::{Snapshot, Stored};
use crate::object::{conditions, meta};
use crate::served::DefinitionDigest;
use polity_kinds::builtin::is_builtin_version;

/// A stored definition without its schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    pub revision: Revision,
    pub group: String,
    /// `status.acceptedNames`.
    pub names: Value,
    /// The versions it serves; none until it is established. A group and version with built-in kinds
    /// is served by these alone, as on a real server.
    pub served: Vec<String>,
    /// Whether its status is complete, as long as the definition does not change.
    pub is_settled: bool,
    pub is_deleting: bool,
    /// All that serving depends on.
    pub source: DefinitionDigest,
}

impl Summary {
    pub fn of(revision: Revision, crd: &Value) -> Self {
        let text = |pointer| {
            let found = crd.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let group = text("/spec/group");
        // An established definition is served with its accepted names, even if other names are requested later.
        let is_established = conditions::is_true(crd, "Established");
        let served = definition::versions(crd)
            .filter(|version| is_established && version["served"] == true)
            .filter_map(|version| version["name"].as_str())
            .filter(|version| !is_builtin_version(&group, version))
            .map(str::to_owned)
            .collect();
        Self {
            name: meta::name(crd).to_owned(),
            revision,
            names: crd["status"]["acceptedNames"].clone(),
            served,
            // Accepted names stay accepted when later definitions request them.
            is_settled: names::accept(crd, &Taken::default(), Timestamp::default()).is_none(),
            is_deleting: meta::is_deleting(crd),
            source: DefinitionDigest::of(crd),
            group,
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
    /// Follows the store, and only reads changes since the last call.
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
