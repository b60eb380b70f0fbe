//! The objects that a policy has evaluated, as `status.relatedObjects` lists them.

use std::collections::BTreeMap;

use polity_api::decode_fields;
use polity_api::policy::v1;
use polity_core::{FieldPath, GroupVersionKind};
use serde_json::Value;

use crate::status::State;

/// The name of an entry for a search that found nothing.
pub const NO_NAME: &str = "-";

/// Which object an entry is about. In the order a status lists them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub api_version: String,
}

/// One entry of `relatedObjects`.
#[derive(Debug, Clone, PartialEq)]
pub struct Related {
    pub object: ObjectRef,
    pub compliant: bool,
    pub reason: String,
    pub properties: Option<Properties>,
}

/// What is known about the object beyond its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Properties {
    /// This policy has created it.
    pub created_by_policy: bool,
    pub uid: String,
    /// Empty when there is nothing to show.
    pub diff: String,
    /// A difference was seen, and a server says that it is none.
    pub matches_after_dry_run: bool,
}

impl ObjectRef {
    pub fn new(gvk: &GroupVersionKind, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind: gvk.kind.clone(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
            api_version: gvk.api_version(),
        }
    }

    pub(crate) fn to_wire(&self) -> v1::ObjectReference {
        v1::ObjectReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: v1::ObjectMetadata {
                name: self.name.clone(),
                namespace: Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            },
        }
    }
}

impl From<v1::ObjectReference> for ObjectRef {
    fn from(object: v1::ObjectReference) -> Self {
        Self {
            kind: object.kind,
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name,
            api_version: object.api_version,
        }
    }
}

impl Related {
    pub(crate) fn to_wire(&self) -> v1::RelatedObject {
        v1::RelatedObject {
            compliant: Some(State::of(self.compliant).as_str().to_owned()),
            reason: self.reason.clone(),
            object: self.object.to_wire(),
            properties: self.properties.as_ref().map(Properties::to_wire),
        }
    }

    /// Reads an entry of `relatedObjects`; a field of the wrong type counts as absent.
    pub fn from_json(entry: &Value) -> Self {
        let (entry, _) = decode_fields::<v1::RelatedObject>(entry, &FieldPath::root());
        let entry = entry.unwrap_or_default();
        Self {
            object: entry.object.into(),
            compliant: entry.compliant.as_deref() == Some(State::Compliant.as_str()),
            reason: entry.reason,
            properties: entry.properties.map(Into::into),
        }
    }
}

impl Properties {
    fn to_wire(&self) -> v1::ObjectProperties {
        v1::ObjectProperties {
            created_by_policy: Some(self.created_by_policy),
            uid: Some(self.uid.clone()),
            diff: Some(self.diff.clone()).filter(|diff| !diff.is_empty()),
            matches_after_dry_run: self.matches_after_dry_run.then_some(true),
        }
    }
}

impl From<v1::ObjectProperties> for Properties {
    fn from(properties: v1::ObjectProperties) -> Self {
        Self {
            created_by_policy: properties.created_by_policy.unwrap_or_default(),
            uid: properties.uid.unwrap_or_default(),
            diff: properties.diff.unwrap_or_default(),
            matches_after_dry_run: properties.matches_after_dry_run.unwrap_or_default(),
        }
    }
}

/// The new list: each object once and in order, a noncompliant entry about it before a compliant one. What
/// this policy has created before stays marked as created by it.
pub fn merge(found: impl IntoIterator<Item = Related>, previous: &[Related]) -> Vec<Related> {
    let mut entries: BTreeMap<ObjectRef, Related> = BTreeMap::new();
    for related in found {
        match entries.get(&related.object) {
            Some(known) if !known.compliant || related.compliant => {}
            _ => _ = entries.insert(related.object.clone(), related),
        }
    }
    let before: BTreeMap<&ObjectRef, &Properties> = previous
        .iter()
        .filter_map(|old| Some((&old.object, old.properties.as_ref()?)))
        .collect();
    let mut list: Vec<Related> = entries.into_values().collect();
    for entry in &mut list {
        if let (Some(properties), Some(old)) = (&mut entry.properties, before.get(&entry.object))
            && old.created_by_policy
            && !properties.created_by_policy
        {
            properties.created_by_policy = true;
            properties.uid.clone_from(&old.uid);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn related(name: &str, compliant: bool, created: bool, uid: &str) -> Related {
        Related {
            object: ObjectRef::new(&GroupVersionKind::new("", "v1", "Pod"), Some("ns"), name),
            compliant,
            reason: String::new(),
            properties: Some(Properties {
                created_by_policy: created,
                uid: uid.to_owned(),
                ..Properties::default()
            }),
        }
    }

    #[test]
    fn one_entry_an_object_sorted() {
        let found = [
            related("b", true, false, "1"),
            related("a", true, false, "2"),
            related("b", false, false, "1"),
            related("b", true, false, "1"),
        ];
        let list = merge(found, &[]);
        let short: Vec<(&str, bool)> = list
            .iter()
            .map(|entry| (entry.object.name.as_str(), entry.compliant))
            .collect();
        assert_eq!(short, [("a", true), ("b", false)]);
    }

    #[test]
    fn created_by_policy_is_kept_across_evaluations() {
        let list = merge(
            [related("a", true, false, "new")],
            &[related("a", true, true, "old")],
        );
        let properties = list[0].properties.as_ref().unwrap();
        assert!(properties.created_by_policy);
        assert_eq!(properties.uid, "old");
        let list = merge(
            [related("a", true, true, "new")],
            &[related("a", true, true, "old")],
        );
        assert_eq!(list[0].properties.as_ref().unwrap().uid, "new");
    }

    #[test]
    fn entries_survive_the_wire() {
        let entry = related("a", false, true, "u");
        let wire = serde_json::to_value(entry.to_wire()).unwrap();
        assert_eq!(Related::from_json(&wire), entry);
        let wrong = serde_json::json!({"object": {"kind": 3, "metadata": {"name": "a", "namespace": null}}, "reason": {}});
        let read = Related::from_json(&wrong);
        assert_eq!(
            (read.object.name.as_str(), read.object.kind.as_str()),
            ("a", "")
        );
    }
}
