//! Taking objects in and out: what is held of them, and the indexes by kind, namespace and reference.

use std::collections::BTreeSet;
use std::sync::Arc;

use polity_core::GroupKind;
use serde_json::Value;

use super::facts::Facts;
use super::ids::ObjId;
use super::{Graph, Stored, custom};
use crate::kind::Definition;
use crate::object::ObjectRef;
use crate::registry::Config;
use crate::settings::Settings;

impl Graph {
    pub(super) fn take_in(&mut self, value: Arc<Value>) {
        let Some(reference) = ObjectRef::of(&value) else {
            return;
        };
        let id = self.refs.id(&reference);
        match (reference.group.as_str(), reference.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                let definition = Definition::of(&value);
                let known = self.definitions.get(&reference);
                if known != definition.as_ref() {
                    self.pending.kinds = true;
                    match definition {
                        Some(definition) => {
                            drop(self.definitions.insert(reference.clone(), definition));
                        }
                        None => drop(self.definitions.remove(&reference)),
                    }
                }
            }
            ("polity.dev", "AttachmentConfig") => {
                let config = Config {
                    object: reference.clone(),
                    settings: Settings::of(&value),
                };
                self.configs.insert(reference.clone(), config);
                self.pending.kinds = true;
            }
            _ => {}
        }
        let facts = Facts::of(&value, &reference);
        let is_new = !self.objects.contains_key(&id);
        let rules = || self.hosts.values().filter_map(|host| host.rules.as_ref());
        let changed = self.objects.get(&id).is_none_or(|stored| {
            stored.facts != facts
                || rules().any(|rules| custom::reads_otherwise(rules, &stored.value, &value))
        });
        if is_new {
            self.index(id, &reference, &facts);
        }
        if changed {
            self.note_references(id, &reference, &facts);
            self.pending.links.insert(id);
        }
        self.pending.reads.insert(id);
        self.objects.insert(id, Stored { value, facts });
    }

    pub(super) fn take_out(&mut self, reference: &ObjectRef) {
        let Some(id) = self.refs.get(reference) else {
            return;
        };
        let Some(stored) = self.objects.remove(&id) else {
            return;
        };
        self.pending.kinds |= self.definitions.remove(reference).is_some();
        self.pending.kinds |= self.configs.remove(reference).is_some();
        self.note_references(id, reference, &Facts::Other);
        self.unindex(id, reference, &stored.facts);
        self.pending.links.insert(id);
        self.pending.reads.insert(id);
    }

    fn index(&mut self, id: ObjId, reference: &ObjectRef, facts: &Facts) {
        let kind = GroupKind::new(reference.group.as_str(), reference.kind.as_str());
        self.by_kind.entry(kind).or_default().insert(id);
        if let Some(namespace) = &reference.namespace {
            let members = self.by_namespace.entry(namespace.clone()).or_default();
            members.insert(id);
            if members.len() == 1 {
                // The namespace is there now, said or not.
                let namespace = self.refs.id(&ObjectRef::of_namespace(namespace));
                self.pending.links.insert(namespace);
            }
            if matches!(facts, Facts::Grant(_)) {
                self.grants.entry(namespace.clone()).or_default().insert(id);
            }
        }
    }

    fn unindex(&mut self, id: ObjId, reference: &ObjectRef, facts: &Facts) {
        let kind = GroupKind::new(reference.group.as_str(), reference.kind.as_str());
        if let Some(members) = self.by_kind.get_mut(&kind) {
            members.remove(&id);
        }
        let Some(namespace) = &reference.namespace else {
            return;
        };
        if let Some(members) = self.by_namespace.get_mut(namespace) {
            members.remove(&id);
            if members.is_empty() {
                self.by_namespace.remove(namespace);
                let namespace = self.refs.id(&ObjectRef::of_namespace(namespace));
                self.pending.links.insert(namespace);
            }
        }
        if matches!(facts, Facts::Grant(_))
            && let Some(grants) = self.grants.get_mut(namespace)
        {
            grants.remove(&id);
        }
    }

    /// Keeps the indexes of who refers to whom.
    fn note_references(&mut self, id: ObjId, reference: &ObjectRef, facts: &Facts) {
        for to in self.references.remove(&id).unwrap_or_default() {
            if let Some(referrers) = self.referrers.get_mut(&to) {
                referrers.remove(&id);
            }
            self.forget_outside(id, to);
        }
        let targets: BTreeSet<ObjId> = facts
            .references()
            .into_iter()
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .map(|to| self.refs.id(to))
            .collect();
        for to in &targets {
            self.referrers.entry(*to).or_default().insert(id);
            self.note_outside(id, reference, *to);
        }
        if let Some(namespace) = &reference.namespace {
            let referring = self.referring.entry(namespace.clone()).or_default();
            if targets.is_empty() {
                referring.remove(&id);
            } else {
                referring.insert(id);
            }
        }
        if !targets.is_empty() {
            self.references.insert(id, targets.into_iter().collect());
        }
    }

    pub(super) fn note_outside(&mut self, id: ObjId, from: &ObjectRef, to: ObjId) {
        let target = self.refs.value(to);
        let namespace = if target.is("", "Namespace") {
            Some(&target.name)
        } else {
            target.namespace.as_ref()
        };
        if let Some(namespace) = namespace
            && from.namespace.as_ref() != Some(namespace)
        {
            self.from_outside
                .entry(namespace.clone())
                .or_default()
                .insert(id);
        }
    }

    /// May forget too much when an object has two references into one namespace; the caller notes those that stay.
    pub(super) fn forget_outside(&mut self, id: ObjId, to: ObjId) {
        let target = self.refs.value(to);
        let namespace = if target.is("", "Namespace") {
            Some(&target.name)
        } else {
            target.namespace.as_ref()
        };
        if let Some(namespace) = namespace
            && let Some(outside) = self.from_outside.get_mut(namespace)
        {
            outside.remove(&id);
        }
    }
}
