//! What a change would do: results before and after, object by object and path by path.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::effective::Resultant;
use crate::graph::Graph;
use crate::object::ObjectRef;

/// How results differ between two states.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Impact {
    /// Objects whose results differ, in order.
    pub objects: Vec<ObjectImpact>,
    /// Policies whose conditions differ: from and to.
    pub policies: Vec<PolicyImpact>,
}

/// What changes for one object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectImpact {
    pub object: ObjectRef,
    pub gains: Vec<FieldChange>,
    pub loses: Vec<FieldChange>,
    pub changes: Vec<FieldChange>,
}

/// A field of one kind that is another, in some contexts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// On how many paths.
    pub contexts: usize,
}

/// What changes for one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyImpact {
    pub policy: ObjectRef,
    pub before: String,
    pub after: String,
}

/// Identifies a value: kind, section, path.
type ValueKey = (String, Option<String>, String);

impl Impact {
    /// How the results of `after` differ from those of `before`.
    pub fn between(before: &Graph, after: &Graph) -> Self {
        let objects: BTreeSet<&ObjectRef> = [before, after]
            .iter()
            .flat_map(|graph| graph.contributions.keys().map(|id| graph.reference(*id)))
            .collect();
        let objects = objects
            .into_iter()
            .filter_map(|object| difference(before, after, object))
            .collect();
        let policies: BTreeSet<&ObjectRef> = before
            .policies()
            .into_iter()
            .chain(after.policies())
            .collect();
        let policies = policies
            .into_iter()
            .filter_map(|policy| {
                let (from, to) = (verdict(before, policy), verdict(after, policy));
                (from != to).then(|| PolicyImpact {
                    policy: policy.clone(),
                    before: from,
                    after: to,
                })
            })
            .collect();
        Self { objects, policies }
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// One line for each sum: `40 objects lose retries`.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, (one, many)) in [("loses", "lose"), ("changes", "change"), ("gains", "gain")]
            .into_iter()
            .enumerate()
        {
            let mut by_fields: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
            for object in &self.objects {
                let which = [&object.loses, &object.changes, &object.gains][place];
                let fields: BTreeSet<&str> =
                    which.iter().map(|change| change.field.as_str()).collect();
                if !fields.is_empty() {
                    *by_fields.entry(fields.into_iter().collect()).or_default() += 1;
                }
            }
            for (fields, count) in by_fields {
                let (noun, verb) = if count == 1 {
                    ("object", one)
                } else {
                    ("objects", many)
                };
                lines.push(format!("{count} {noun} {verb} {}", fields.join(", ")));
            }
        }
        lines
    }
}

/// A word about a policy: its effectiveness, or why it is not accepted.
fn verdict(graph: &Graph, policy: &ObjectRef) -> String {
    let Some(status) = graph.policy_status(policy) else {
        return "absent".to_owned();
    };
    match status.effectiveness {
        Some(effectiveness) => format!("{effectiveness:?}"),
        None => {
            let condition = status
                .ancestors
                .first()
                .and_then(|ancestor| ancestor.condition("Accepted"));
            condition.map_or_else(
                || "NotAccepted".to_owned(),
                |condition| condition.reason.clone(),
            )
        }
    }
}

fn difference(before: &Graph, after: &Graph, object: &ObjectRef) -> Option<ObjectImpact> {
    let from = values_by_place(&before.effective(object, None));
    let to = values_by_place(&after.effective(object, None));
    let mut sums: BTreeMap<(String, Option<String>, String, String), FieldChange> = BTreeMap::new();
    let places: BTreeSet<&ValueKey> = from.keys().chain(to.keys()).collect();
    let nothing = BTreeMap::new();
    for place in places {
        let (old, new) = (
            from.get(place).unwrap_or(&nothing),
            to.get(place).unwrap_or(&nothing),
        );
        let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for field in fields {
            let (old, new) = (old.get(field), new.get(field));
            if old == new {
                continue;
            }
            let key = (
                place.0.clone(),
                place.1.clone(),
                field.clone(),
                format!("{old:?}{new:?}"),
            );
            let change = sums.entry(key).or_insert_with(|| FieldChange {
                kind: place.0.clone(),
                section_name: place.1.clone(),
                field: field.clone(),
                before: old.cloned(),
                after: new.cloned(),
                contexts: 0,
            });
            change.contexts += 1;
        }
    }
    if sums.is_empty() {
        return None;
    }
    let mut impact = ObjectImpact {
        object: object.clone(),
        gains: Vec::new(),
        loses: Vec::new(),
        changes: Vec::new(),
    };
    for change in sums.into_values() {
        match (&change.before, &change.after) {
            (None, _) => impact.gains.push(change),
            (_, None) => impact.loses.push(change),
            _ => impact.changes.push(change),
        }
    }
    Some(impact)
}

/// The winning value of every field, by kind, section and path.
fn values_by_place(results: &[Resultant]) -> BTreeMap<ValueKey, BTreeMap<String, Value>> {
    let mut found: BTreeMap<ValueKey, BTreeMap<String, Value>> = BTreeMap::new();
    for result in results {
        let kind =
            polity_core::GroupKind::new(result.group.as_str(), result.kind.as_str()).to_string();
        let won: BTreeMap<String, Value> = result
            .settings
            .iter()
            .filter(|setting| setting.won)
            .map(|setting| (setting.field.clone(), setting.value.clone()))
            .collect();
        for context in &result.contexts {
            let path: Vec<String> = context
                .path
                .iter()
                .map(crate::graph::paths::Step::short)
                .collect();
            let place = (kind.clone(), result.section_name.clone(), path.join(" > "));
            found.entry(place).or_default().extend(won.clone());
        }
    }
    found
}
