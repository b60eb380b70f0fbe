//! What was applied, as the annotation of the ConfigMap keeps it: it survives restarts and goes with the ConfigMap.

use std::collections::{BTreeMap, BTreeSet};

use polity_reconcile::name_hash;
use serde::{Deserialize, Serialize};

use super::documents::Problem;
use crate::kinds::OwnedKey;

/// What has been done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The hash of the document that each object was last brought up to.
    #[serde(default)]
    applied: BTreeMap<String, String>,
    /// Hashes of problems that were told and are still there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    told: BTreeSet<String>,
}

impl Record {
    /// Reads the annotation; one that nobody can read is as good as none.
    pub fn read(annotation: Option<&str>) -> Self {
        let record = annotation.map(serde_json::from_str);
        record.and_then(Result::ok).unwrap_or_default()
    }

    /// The text of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The hash of the document that an object was last brought up to.
    pub fn applied(&self, key: &OwnedKey) -> Option<&str> {
        self.applied.get(&spelled_key(key)).map(String::as_str)
    }

    /// Records that an object was brought up to a document.
    pub fn apply(&mut self, key: &OwnedKey, hash: &str) {
        self.applied.insert(spelled_key(key), hash.to_owned());
    }

    /// Forgets all objects but these.
    pub(super) fn keep<'a>(&mut self, keys: impl IntoIterator<Item = &'a OwnedKey>) {
        let keys: BTreeSet<_> = keys.into_iter().map(spelled_key).collect();
        self.applied.retain(|key, _| keys.contains(key));
    }

    /// Records these problems as told instead of those before, and answers which are new.
    pub(super) fn tell(&mut self, problems: Vec<Problem>) -> Vec<Problem> {
        let hash =
            |problem: &Problem| name_hash(&format!("{}/{}", problem.place, problem.reason), 8);
        let before = std::mem::take(&mut self.told);
        self.told = problems.iter().map(hash).collect();
        let mut problems = problems;
        problems.retain(|problem| !before.contains(&hash(problem)));
        problems
    }
}

fn spelled_key(key: &OwnedKey) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    format!("{}/{namespace}/{}", key.kind.as_str(), key.name)
}
