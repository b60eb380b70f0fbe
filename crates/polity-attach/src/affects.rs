//! The objects that a policy affects: their number by kind and namespace, and a list of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::graph::ids::ObjId;
use crate::graph::{Effectiveness, Graph};
use crate::object::ObjectRef;

/// The most namespaces that are counted apart.
const MAX_NAMESPACES: usize = 100;

/// How much a policy acts on. A Namespace counts only where nothing in it is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Affects {
    /// Objects that get at least one field from it.
    pub total: u64,
    pub by_kind: BTreeMap<String, u64>,
    /// The largest hundred, then `other`; cluster-scoped objects are under the empty name.
    pub by_namespace: BTreeMap<String, u64>,
    /// Objects where all of its fields are in force.
    pub full: u64,
    pub partial: u64,
    /// Objects it reaches and where none is; they are not in the total.
    pub overridden: u64,
}

/// An object that a policy reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Affected {
    #[serde(flatten)]
    pub object: ObjectRef,
    pub effect: Effectiveness,
}

impl Graph {
    /// How much a policy acts on.
    pub fn affects(&self, policy: &ObjectRef) -> Affects {
        let Some(tally) = self.refs.get(policy).and_then(|id| self.tallies.get(&id)) else {
            return Affects::default();
        };
        let alone = tally.objects == [0; 3];
        let [full, partial, overridden] = if alone {
            tally.namespaces
        } else {
            tally.objects
        };
        let total = full + partial;
        let named = |counts: &BTreeMap<u32, u64>| -> BTreeMap<String, u64> {
            counts
                .iter()
                .map(|(word, count)| (self.word(*word).to_owned(), *count))
                .collect()
        };
        let mut affects = Affects {
            total,
            by_kind: named(&tally.by_kind),
            by_namespace: largest(named(&tally.by_namespace)),
            full,
            partial,
            overridden,
        };
        if alone && total > 0 {
            affects.by_kind.insert("Namespace".to_owned(), total);
            affects.by_namespace.insert(String::new(), total);
        }
        affects
    }

    /// The objects a policy reaches, in order.
    pub fn affected(&self, policy: &ObjectRef) -> Vec<Affected> {
        let Some(id) = self.refs.get(policy) else {
            return Vec::new();
        };
        let mut found: Vec<Affected> = self
            .reached_by(id)
            .into_iter()
            .filter_map(|object| {
                let contributions = self.contributions.get(&object)?;
                let own = contributions
                    .iter()
                    .find(|contribution| contribution.policy == id)?;
                Some(Affected {
                    object: self.reference(object).clone(),
                    effect: own.class,
                })
            })
            .collect();
        if found
            .iter()
            .any(|affected| !affected.object.is("", "Namespace"))
        {
            found.retain(|affected| !affected.object.is("", "Namespace"));
        }
        found.sort_by(|a, b| a.object.cmp(&b.object));
        found
    }

    fn reached_by(&self, id: ObjId) -> BTreeSet<ObjId> {
        let mut objects = BTreeSet::new();
        let Some(held) = self.policies.get(&id) else {
            return objects;
        };
        let host = self.host(&held.hierarchy);
        for level in held
            .verdicts
            .iter()
            .filter_map(|verdict| verdict.outcome.as_ref().ok())
        {
            objects.insert(self.level_names.value(*level).0);
            if !held.is_direct {
                let nodes = host.lattice.reach(*level);
                objects.extend(nodes.into_iter().map(|node| host.lattice.node(node).object));
            }
        }
        objects
    }

    /// The policies that give an object at least one field, in order.
    pub fn affected_by(&self, object: &ObjectRef) -> Vec<ObjectRef> {
        let contributions = self
            .refs
            .get(object)
            .and_then(|id| self.contributions.get(&id));
        let mut policies: Vec<ObjectRef> = contributions
            .into_iter()
            .flatten()
            .filter(|contribution| contribution.class != Effectiveness::Overridden)
            .map(|contribution| self.reference(contribution.policy).clone())
            .collect();
        policies.sort();
        policies
    }
}

fn largest(counts: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    if counts.len() <= MAX_NAMESPACES {
        return counts;
    }
    let mut order: Vec<(String, u64)> = counts.into_iter().collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest: u64 = order[MAX_NAMESPACES..].iter().map(|(_, count)| count).sum();
    order.truncate(MAX_NAMESPACES);
    order.push(("other".to_owned(), rest));
    order.into_iter().collect()
}
