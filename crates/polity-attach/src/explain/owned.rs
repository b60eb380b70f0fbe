//! What hangs below an object by owner references, and which policies act there: a Deployment is explained by its Pods.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::graph::Graph;
use crate::object::{ObjectRef, group_of, list, text};

/// What acts on the objects of one kind that an object owns, directly or over others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnedEntry {
    /// `Kind.group`.
    pub kind: String,
    pub objects: usize,
    /// The policies that act on at least one of them, with how many that is.
    pub policies: Vec<OwnedPolicy>,
}

/// A policy that acts on owned objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnedPolicy {
    #[serde(flatten)]
    pub policy: ObjectRef,
    pub objects: usize,
}

impl Graph {
    /// What an object owns, by kind, in the order of their names.
    pub fn owned(&self, object: &ObjectRef) -> Vec<OwnedEntry> {
        let mut by_kind: BTreeMap<String, Vec<ObjectRef>> = BTreeMap::new();
        for owned in self.owned_objects(object) {
            let kind = owned.kind_and_group();
            by_kind.entry(kind).or_default().push(owned);
        }
        let entries = by_kind.into_iter();
        entries
            .map(|(kind, objects)| {
                let mut acting: BTreeMap<ObjectRef, usize> = BTreeMap::new();
                for policy in objects.iter().flat_map(|object| self.affected_by(object)) {
                    *acting.entry(policy).or_default() += 1;
                }
                let policies = acting
                    .into_iter()
                    .map(|(policy, objects)| OwnedPolicy { policy, objects });
                OwnedEntry {
                    kind,
                    objects: objects.len(),
                    policies: policies.collect(),
                }
            })
            .collect()
    }

    /// Everything below an object, each once: references may well close to a circle.
    fn owned_objects(&self, object: &ObjectRef) -> BTreeSet<ObjectRef> {
        let mut children: BTreeMap<ObjectRef, Vec<&ObjectRef>> = BTreeMap::new();
        for (child, stored) in &self.objects {
            let child = self.refs.value(*child);
            for owner in list(&stored.value, &["metadata", "ownerReferences"]) {
                if let Some(owner) = self.owner(child, owner) {
                    children.entry(owner).or_default().push(child);
                }
            }
        }
        let mut found = BTreeSet::new();
        let mut open = vec![object];
        while let Some(next) = open.pop() {
            for child in children.get(next).into_iter().flatten() {
                if *child != object && found.insert((*child).clone()) {
                    open.push(child);
                }
            }
        }
        found
    }

    /// The object that an owner reference means. One of the same name and another uid is another one.
    fn owner(&self, child: &ObjectRef, reference: &serde_json::Value) -> Option<ObjectRef> {
        let (kind, name) = (text(reference, &["kind"])?, text(reference, &["name"])?);
        let group = group_of(reference);
        let namespace = child
            .namespace
            .as_deref()
            .filter(|_| !self.is_cluster_kind(group, kind));
        let owner = ObjectRef::new(group, kind, namespace, name);
        let there = text(self.object(&owner)?, &["metadata", "uid"]);
        match (there, text(reference, &["uid"])) {
            (Some(there), Some(meant)) if there != meant => None,
            _ => Some(owner),
        }
    }
}
