//! The objects a policy looked at (11.10).

use std::collections::BTreeMap;

use polity_core::GroupVersionKind;
use serde_json::{Value, json};

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

    pub(crate) fn to_json(&self) -> Value {
        let mut metadata = json!({"name": self.name});
        if !self.namespace.is_empty() {
            metadata["namespace"] = self.namespace.as_str().into();
        }
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata})
    }

    pub(crate) fn from_json(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            api_version: text(&object["apiVersion"]),
        }
    }
}

impl Related {
    pub(crate) fn to_json(&self) -> Value {
        let mut entry = json!({
            "object": self.object.to_json(),
            "compliant": State::of(self.compliant).as_str(),
            "reason": self.reason,
        });
        if let Some(properties) = &self.properties {
            entry["properties"] = properties.to_json();
        }
        entry
    }

    /// Reads an entry of a status.
    pub fn from_json(entry: &Value) -> Self {
        let properties = entry.get("properties").filter(|it| it.is_object());
        Self {
            object: ObjectRef::from_json(&entry["object"]),
            compliant: entry["compliant"] == "Compliant",
            reason: entry["reason"].as_str().unwrap_or_default().to_owned(),
            properties: properties.map(Properties::from_json),
        }
    }
}

impl Properties {
    fn to_json(&self) -> Value {
        let mut wire = json!({"createdByPolicy": self.created_by_policy, "uid": self.uid});
        if !self.diff.is_empty() {
            wire["diff"] = self.diff.as_str().into();
        }
        if self.matches_after_dry_run {
            wire["matchesAfterDryRun"] = true.into();
        }
        wire
    }

    fn from_json(properties: &Value) -> Self {
        let text = |field: &str| properties[field].as_str().unwrap_or_default().to_owned();
        Self {
            created_by_policy: properties["createdByPolicy"] == true,
            uid: text("uid"),
            diff: text("diff"),
            matches_after_dry_run: properties["matchesAfterDryRun"] == true,
        }
    }
}

/// The new list: each object once and in order, a bad word about it before a good one. What this policy has
/// created before stays known as created by it.
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
        assert_eq!(Related::from_json(&entry.to_json()), entry);
    }
}
