//! What is published next to the objects that a policy affects, as values: lists, EffectivePolicy objects and
//! AttachmentStatus. Values of policies stand only in EffectivePolicy, so that editing one writes nothing else.

mod marks;

use std::collections::{BTreeMap, BTreeSet};

use polity_merge::Schema;
use serde_json::{Map, Value, json};

use crate::effective::Resultant;
use crate::graph::{Graph, custom};
use crate::kind::{PolicyKind, lower_camel};
use crate::object::{ObjectRef, is_deleting, text};
use crate::settings::Contents;
use crate::status::CONTROLLER;
pub use marks::{EXTENSION_TYPES, Mark, MarkPlace, POLICY_AFFECTED};

/// The largest object that is published.
const BUDGET: usize = 512 * 1024;

impl Graph {
    /// `status.effectivePolicy` of a Gateway API object: the policies that act on it, sorted. `None` where the
    /// served schema has no such field: it would be cut away, or refused.
    pub fn effective_policy_stanza(&self, object: &ObjectRef) -> Option<Value> {
        let kind = polity_core::GroupKind::new(object.group.as_str(), object.kind.as_str());
        let schema = self.schema_of(&kind)?;
        let status = schema.property("status")?;
        if status.property("effectivePolicy").is_none() && !status.preserve_unknown() {
            return None;
        }
        let mut policies = self.affected_by(object);
        policies.sort_by_key(|policy| {
            (
                policy.namespace.clone(),
                policy.name.clone(),
                policy.clone(),
            )
        });
        Some(policies.iter().map(named).collect())
    }

    /// The EffectivePolicy (ClusterEffectivePolicy without a namespace) of all objects of one name; `None` when no
    /// policy acts on any of them.
    pub fn effective_policy(&self, namespace: Option<&str>, name: &str) -> Option<Value> {
        let mut entries: Vec<Value> = Vec::new();
        for object in self.named(namespace, name) {
            if !self.is_of_any_kind(&object) {
                entries.extend(self.entries_for(&object));
            }
        }
        if entries.is_empty() {
            return None;
        }
        let mut metadata =
            json!({"name": name, "labels": {"app.kubernetes.io/managed-by": "polity"}});
        let kind = match namespace {
            Some(namespace) => {
                metadata["namespace"] = Value::from(namespace);
                "EffectivePolicy"
            }
            None => "ClusterEffectivePolicy",
        };
        let mut object = json!({"apiVersion": "polity.dev/v1alpha1", "kind": kind, "metadata": metadata, "policies": entries});
        fit(&mut object);
        Some(object)
    }

    /// The entries of one object: one for each result.
    pub(crate) fn entries_for(&self, object: &ObjectRef) -> Vec<Value> {
        let id = self.refs.get(object);
        if id
            .and_then(|id| self.objects.get(&id))
            .is_some_and(|stored| is_deleting(&stored.value))
        {
            return Vec::new();
        }
        let twice = self.ambiguous_kinds();
        self.effective(object, None)
            .iter()
            .filter_map(|resultant| {
                let kind = self.kind(&resultant.group, &resultant.kind)?;
                let published = kind.publish.effective_policy && !resultant.sources().is_empty();
                published.then(|| self.entry(object, resultant, kind, &twice))
            })
            .collect()
    }

    /// Names that several policy kinds have: their keys carry the group.
    fn ambiguous_kinds(&self) -> BTreeSet<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for kind in self.kinds() {
            *counts.entry(&kind.kind.kind).or_default() += 1;
        }
        counts
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|(kind, _)| kind.to_owned())
            .collect()
    }

    fn entry(
        &self,
        object: &ObjectRef,
        resultant: &Resultant,
        kind: &PolicyKind,
        twice: &BTreeSet<String>,
    ) -> Value {
        let sources: Vec<&ObjectRef> = resultant.sources().into_iter().collect();
        let objects: Vec<Value> = sources
            .iter()
            .map(|policy| {
                let mut entry = named(policy);
                let held = self.refs.get(policy).and_then(|id| self.policies.get(&id));
                if let Some(generation) = held.and_then(|held| held.policy.generation) {
                    entry["generation"] = Value::from(generation);
                }
                entry
            })
            .collect();
        let mut target = json!({"group": object.group, "kind": object.kind, "name": object.name});
        if let Some(section) = &resultant.section_name {
            target["sectionName"] = Value::from(section.as_str());
        }
        let key = if twice.contains(&kind.kind.kind) {
            format!("{}.{}", lower_camel(&kind.kind.kind), kind.kind.group)
        } else {
            kind.lower_camel()
        };
        let hidden = hidden_fields(kind, resultant);
        let mut entry = json!({
            "controllerName": CONTROLLER,
            "basis": resultant.basis,
            "targetRef": target,
            "contexts": resultant.contexts,
            "objects": objects,
        });
        if let Some(more) = resultant.more_contexts {
            entry["moreContexts"] = Value::from(more);
        }
        if kind.contents == Contents::Names {
            return entry;
        }
        let winners = resultant.settings.iter().filter(|setting| setting.won);
        entry["provenance"] = winners
            .filter(|setting| !hidden.contains(&setting.field))
            .map(|setting| {
                let stanza = if setting.stanza == "spec" { String::new() } else { format!(".{}", setting.stanza) };
                let from = sources.iter().position(|source| **source == setting.policy);
                json!({"field": format!("{key}{stanza}.{}", setting.field), "from": from, "level": setting.level.object.kind})
            })
            .collect();
        let mut spec = resultant.spec.clone();
        for field in &hidden {
            remove(&mut spec, field);
        }
        if !hidden.is_empty() {
            entry["redacted"] = hidden
                .iter()
                .map(|field| Value::from(field.as_str()))
                .collect();
        }
        entry["resultantPolicy"] = json!({ key: spec });
        entry
    }

    /// The AttachmentStatus of a policy, which is written for kinds of any controller.
    pub fn attachment_status(&self, policy: &ObjectRef) -> Option<Value> {
        let id = self.refs.get(policy)?;
        let held = self.policies.get(&id)?;
        let kind = self.kind_of(policy)?;
        if !kind.publish.status {
            return None;
        }
        let status = self.policy_status(policy)?;
        let uid = held.policy.uid.clone().unwrap_or_default();
        let mut metadata =
            json!({"name": uid, "labels": {"app.kubernetes.io/managed-by": "polity"}});
        if let Some(namespace) = &policy.namespace {
            metadata["namespace"] = Value::from(namespace.as_str());
        }
        let value = &self.objects.get(&id)?.value;
        metadata["ownerReferences"] = json!([{
            "apiVersion": text(value, &["apiVersion"]), "kind": policy.kind, "name": policy.name, "uid": uid,
        }]);
        let best = status
            .ancestors
            .iter()
            .find(|ancestor| ancestor.is_accepted())
            .or(status.ancestors.first());
        let conditions: Vec<Value> = best
            .into_iter()
            .flat_map(|ancestor| &ancestor.conditions)
            .map(|condition| {
                let mut value = json!(condition);
                if condition.kind == "Programmed" {
                    value["type"] = Value::from("polity.dev/Effective");
                    value["reason"] = Value::from(match condition.reason.as_str() {
                        "Programmed" => "Full",
                        "PartiallyProgrammed" => "Partial",
                        other => other,
                    });
                }
                value
            })
            .collect();
        let named_beaters = status.beaten_by.len().min(10);
        let mut object = json!({
            "apiVersion": "polity.dev/v1alpha1",
            "kind": if policy.namespace.is_some() { "AttachmentStatus" } else { "ClusterAttachmentStatus" },
            "metadata": metadata,
            "policyRef": {"group": policy.group, "kind": policy.kind, "namespace": policy.namespace, "name": policy.name,
                          "uid": uid, "generation": held.policy.generation},
            "conditions": conditions,
            "ancestors": status.ancestors,
            "affects": self.affects(policy),
            "beatenBy": status.beaten_by[..named_beaters],
        });
        if status.beaten_by.len() > named_beaters {
            object["moreBeaters"] = Value::from(status.beaten_by.len() - named_beaters);
        }
        shorten_ancestors(&mut object);
        Some(object)
    }

    /// An object that only a hierarchy over all kinds reaches: its result stands on its Namespace.
    fn is_of_any_kind(&self, object: &ObjectRef) -> bool {
        let Some(id) = self.refs.get(object) else {
            return false;
        };
        let mut hosts = self
            .hosts
            .values()
            .filter(|host| host.nodes.contains_key(&id) && !host.strays.contains(&id));
        let named = |rules: &crate::settings::HierarchySettings| !custom::takes_any(rules, object);
        hosts.clone().next().is_some() && !hosts.any(|host| host.rules.as_ref().is_none_or(named))
    }

    fn schema_of(&self, kind: &polity_core::GroupKind) -> Option<std::sync::Arc<Schema>> {
        let definition = self.definition(kind)?;
        definition.schema.clone()
    }
}

fn named(policy: &ObjectRef) -> Value {
    let mut entry = json!({"name": policy.name, "apiGroup": policy.group, "kind": policy.kind});
    if let Some(namespace) = &policy.namespace {
        entry["namespace"] = Value::from(namespace.as_str());
    }
    entry
}

/// Fields of a result that are not shown: by the kind's setting, and passwords always.
fn hidden_fields(kind: &PolicyKind, resultant: &Resultant) -> BTreeSet<String> {
    let set: &[String] = match &kind.contents {
        Contents::Paths(paths) => paths,
        Contents::Full | Contents::Names => &[],
    };
    let below = |field: &str, path: &String| {
        field == path
            || field
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let fields = resultant
        .settings
        .iter()
        .map(|setting| (&setting.field, setting.stanza));
    fields
        .filter(|(field, stanza)| {
            set.iter().any(|path| below(field, path)) || is_password(kind, stanza, field)
        })
        .map(|(field, _)| field.clone())
        .collect()
}

fn is_password(kind: &PolicyKind, stanza: &str, field: &str) -> bool {
    let Some(mut schema) = kind.spec_schema().map(AsRef::as_ref) else {
        return false;
    };
    if stanza != "spec" {
        let singular = stanza.trim_end_matches('s');
        match schema.field(stanza).or_else(|| schema.field(singular)) {
            Some(below) => schema = below,
            None => return false,
        }
    }
    for step in field.split('.') {
        let name = step.split('[').next().unwrap_or(step);
        let Some(below) = schema.field(name) else {
            return false;
        };
        schema = match below.items() {
            Some(items) if step.contains('[') => items,
            _ => below,
        };
    }
    schema.format() == Some("password")
}

/// Takes a field out of every stanza of a spec.
fn remove(spec: &mut Value, field: &str) {
    let path: Vec<&str> = field.split('.').collect();
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    remove_at(fields, &path);
    for stanza in ["defaults", "overrides", "default", "override"] {
        if let Some(fields) = fields.get_mut(stanza).and_then(Value::as_object_mut) {
            remove_at(fields, &path);
        }
    }
}

fn remove_at(fields: &mut Map<String, Value>, path: &[&str]) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    // A field inside an element of a keyed list: the whole list is left out rather than a part of an element.
    let name = step.split('[').next().unwrap_or(step);
    if rest.is_empty() || name.len() != step.len() {
        fields.remove(name);
    } else if let Some(below) = fields.get_mut(name).and_then(Value::as_object_mut) {
        remove_at(below, rest);
    }
}

/// Keeps an EffectivePolicy within its budget: names stay, the largest results go first.
fn fit(object: &mut Value) {
    let size = |value: &Value| value.to_string().len();
    let mut total = size(object);
    if total <= BUDGET {
        return;
    }
    let Some(entries) = object.get_mut("policies").and_then(Value::as_array_mut) else {
        return;
    };
    for part in ["resultantPolicy", "provenance", "contexts"] {
        let mut order: Vec<(usize, usize)> = entries
            .iter()
            .enumerate()
            .map(|(place, entry)| (size(&entry[part]), place))
            .collect();
        order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (bytes, place) in order {
            if total <= BUDGET {
                break;
            }
            if let Some(fields) = entries[place].as_object_mut()
                && fields.remove(part).is_some()
            {
                total = total.saturating_sub(bytes);
            }
        }
    }
    object["truncated"] = Value::Bool(true);
}

fn shorten_ancestors(object: &mut Value) {
    if object.to_string().len() <= BUDGET {
        return;
    }
    let rest = {
        let mut without = object.clone();
        without["ancestors"] = json!([]);
        without.to_string().len()
    };
    let mut room = BUDGET.saturating_sub(rest);
    if let Some(ancestors) = object.get_mut("ancestors").and_then(Value::as_array_mut) {
        ancestors.retain(|ancestor| {
            let bytes = ancestor.to_string().len() + 1;
            let fits = bytes <= room;
            room = if fits { room - bytes } else { 0 };
            fits
        });
    }
    object["truncated"] = Value::Bool(true);
}
