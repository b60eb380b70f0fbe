//! Hierarchies from settings: levels, and edges that follow references of any kind. See docs/spec/attachment.md#3-5.
//!
//! References between objects may close to a circle at any time. Then every edge inside the circle is left out, edges
//! from outside stay, and a finding names the members: the same for every order of arrival.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::Graph;
use super::ids::ObjId;
use super::lattice::Part;
use crate::object::{ObjectRef, group_of, text};
use crate::settings::{EdgeSettings, HierarchySettings, KindRef, Permission};

/// Who names whom as a parent.
#[derive(Debug, Default)]
pub(crate) struct Named {
    parents: HashMap<ObjId, BTreeSet<ObjId>>,
    children: HashMap<ObjId, BTreeSet<ObjId>>,
}

impl Named {
    fn set(&mut self, child: ObjId, parents: BTreeSet<ObjId>) {
        for parent in self.parents.remove(&child).unwrap_or_default() {
            if let Some(children) = self.children.get_mut(&parent) {
                children.remove(&child);
            }
        }
        for parent in &parents {
            self.children.entry(*parent).or_default().insert(child);
        }
        if !parents.is_empty() {
            self.parents.insert(child, parents);
        }
    }

    fn parents(&self, child: ObjId) -> impl Iterator<Item = ObjId> {
        self.parents.get(&child).into_iter().flatten().copied()
    }

    fn children(&self, parent: ObjId) -> impl Iterator<Item = ObjId> {
        self.children.get(&parent).into_iter().flatten().copied()
    }
}

fn fits(kind: &KindRef, object: &ObjectRef) -> bool {
    (kind.group == "*" || kind.group == object.group)
        && (kind.kind == "*" || kind.kind == object.kind)
}

/// Whether objects of this kind are nodes of a hierarchy.
pub(crate) fn has_kind(rules: &HierarchySettings, object: &ObjectRef) -> bool {
    let edges = rules
        .edges
        .iter()
        .flat_map(|edge| [&edge.child, &edge.parent]);
    rules
        .levels
        .iter()
        .chain(edges)
        .any(|kind| fits(kind, object))
}

/// Whether a hierarchy takes objects of every kind: then nothing is published for each of them.
pub(crate) fn takes_any(rules: &HierarchySettings, object: &ObjectRef) -> bool {
    let edges = rules
        .edges
        .iter()
        .flat_map(|edge| [&edge.child, &edge.parent]);
    let mut kinds = rules.levels.iter().chain(edges);
    !kinds.any(|kind| kind.kind != "*" && fits(kind, object))
}

/// Whether the references that a hierarchy follows differ between two forms of an object.
pub(crate) fn reads_otherwise(rules: &HierarchySettings, before: &Value, after: &Value) -> bool {
    let paths = rules.edges.iter().map(|edge| edge.path.as_str());
    paths
        .filter(|path| !path.is_empty())
        .any(|path| values_at(before, path) != values_at(after, path))
}

impl Graph {
    /// Brings the edges of these objects, and of those that name them, in step with what they say now.
    pub(super) fn relink_custom(&mut self, name: &str, changed: &BTreeSet<ObjId>) {
        let Some(rules) = self.hosts[name].rules.clone() else {
            return;
        };
        let mut relink = changed.clone();
        for object in changed {
            relink.extend(self.hosts[name].named.children(*object));
            relink.extend(self.below_every(&rules, *object));
        }
        let mut seeds = relink.clone();
        for object in &relink {
            let parents = self.named_parents(&rules, *object);
            let host = self.hosts.get_mut(name).expect("the host is there");
            // A circle that opens or closes here goes through this object: what is below it holds every new one, and
            // the members of an old one are known. Other children of its parents are not affected.
            let circle = host.cyclic.get(object).into_iter();
            seeds.extend(circle.flat_map(|members| members.iter().copied()));
            host.named.set(*object, parents);
        }
        let region = self.find_circles(name, &seeds);
        self.work.linked += region.len();
        for object in region.union(&relink) {
            let edges = self.custom_edges(name, &rules, *object);
            self.set_edges(name, *object, edges);
        }
    }

    /// Children that hang below every object of a kind, when `object` is one of that kind.
    fn below_every(&self, rules: &HierarchySettings, object: ObjId) -> Vec<ObjId> {
        let reference = self.refs.value(object);
        let edges = rules.edges.iter();
        edges
            .filter(|edge| edge.path.is_empty() && fits(&edge.parent, reference))
            .flat_map(|edge| self.every(&edge.child))
            .collect()
    }

    /// Every object of a kind that is there.
    fn every(&self, kind: &KindRef) -> Vec<ObjId> {
        let implied = self
            .by_namespace
            .keys()
            .filter(|_| kind.group.is_empty() && kind.kind == "Namespace");
        let implied = implied.filter_map(|name| self.refs.get(&ObjectRef::of_namespace(name)));
        let virtual_ones = self
            .registry
            .virtual_objects
            .iter()
            .filter(|object| fits(kind, object));
        let virtual_ones = virtual_ones.filter_map(|object| self.refs.get(object));
        let stored = self
            .by_kind
            .iter()
            .filter(|(key, _)| {
                (kind.group == "*" || kind.group == key.group)
                    && (kind.kind == "*" || kind.kind == key.kind)
            })
            .flat_map(|(_, members)| members.iter().copied());
        stored.chain(implied).chain(virtual_ones).collect()
    }

    fn named_parents(&mut self, rules: &HierarchySettings, object: ObjId) -> BTreeSet<ObjId> {
        let mut parents = BTreeSet::new();
        if !self.exists(object) {
            return parents;
        }
        let child = self.refs.value(object).clone();
        let value = self.objects.get(&object).map(|stored| stored.value.clone());
        for edge in rules.edges.iter().filter(|edge| fits(&edge.child, &child)) {
            if edge.path.is_empty() {
                for reference in self.registry.virtual_objects.clone() {
                    if fits(&edge.parent, &reference) {
                        parents.insert(self.refs.id(&reference));
                    }
                }
                parents.extend(self.every(&edge.parent));
            } else if let Some(value) = &value {
                for candidates in references_at(value, edge, &child) {
                    let there = candidates.iter().find(|candidate| {
                        self.refs.get(candidate).is_some_and(|id| self.exists(id))
                    });
                    let chosen = there.or(candidates.first()).cloned();
                    if let Some(parent) = chosen.filter(|parent| self.allowed(edge, &child, parent))
                    {
                        parents.insert(self.refs.id(&parent));
                    }
                }
            }
        }
        parents
    }

    fn allowed(&self, edge: &EdgeSettings, child: &ObjectRef, parent: &ObjectRef) -> bool {
        match edge.permission {
            Permission::None => true,
            Permission::ReferenceGrant => self.may_refer(child, parent),
        }
    }

    /// Looks for circles among everything below the seeds; answers with what was looked at.
    fn find_circles(&mut self, name: &str, seeds: &BTreeSet<ObjId>) -> BTreeSet<ObjId> {
        let host = self.hosts.get_mut(name).expect("the host is there");
        let mut region = BTreeSet::new();
        let mut open: Vec<ObjId> = seeds.iter().copied().collect();
        while let Some(object) = open.pop() {
            if region.insert(object) {
                open.extend(host.named.children(object));
            }
        }
        for object in &region {
            host.cyclic.remove(object);
        }
        for circle in circles(&region, &host.named).into_iter().map(Arc::new) {
            for member in circle.iter() {
                host.cyclic.insert(*member, circle.clone());
            }
        }
        region
    }

    fn custom_edges(
        &mut self,
        name: &str,
        rules: &HierarchySettings,
        object: ObjId,
    ) -> BTreeSet<(super::lattice::NodeId, super::lattice::NodeId)> {
        let Some(node) = self
            .node_of(name, object, &Part::Whole)
            .filter(|_| self.exists(object))
        else {
            return BTreeSet::new();
        };
        let host = &self.hosts[name];
        let circle = host.cyclic.get(&object);
        let mut above: BTreeSet<_> = host
            .named
            .parents(object)
            .filter(|parent| self.exists(*parent))
            .filter(|parent| circle.is_none_or(|members| !members.contains(parent)))
            .filter_map(|parent| self.node_of(name, parent, &Part::Whole))
            .collect();
        let reference = self.refs.value(object).clone();
        let has_namespaces = rules
            .levels
            .iter()
            .any(|level| level.group.is_empty() && level.kind == "Namespace");
        if above.is_empty()
            && has_namespaces
            && let Some(namespace) = &reference.namespace
        {
            let namespace = self.refs.id(&ObjectRef::of_namespace(namespace));
            above.extend(self.node_of(name, namespace, &Part::Whole));
        }
        above.into_iter().map(|parent| (parent, node)).collect()
    }
}

/// What a child names at the path of an edge; for each name the objects it may mean, the likeliest first.
fn references_at(object: &Value, edge: &EdgeSettings, child: &ObjectRef) -> Vec<Vec<ObjectRef>> {
    let flat = values_at(object, &edge.path)
        .into_iter()
        .flat_map(|value| match value {
            Value::Array(items) => items.iter().collect(),
            other => vec![other],
        });
    flat.filter_map(|value| candidates(value, edge, child))
        .collect()
}

/// The values at a path such as `spec.parents[].name`.
fn values_at<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in path.split('.') {
        let (name, each) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        found = found
            .into_iter()
            .filter_map(|value| value.get(name))
            .flat_map(|value| match value {
                Value::Array(items) if each => items.iter().collect(),
                other => vec![other],
            })
            .collect();
    }
    found
}

fn candidates(value: &Value, edge: &EdgeSettings, child: &ObjectRef) -> Option<Vec<ObjectRef>> {
    let (name, given) = match value {
        Value::String(name) => (name.as_str(), None),
        Value::Object(_) => (text(value, &["name"])?, text(value, &["namespace"])),
        _ => return None,
    };
    let group = match value.get("apiVersion") {
        Some(_) => group_of(value),
        None => text(value, &["group"]).unwrap_or(&edge.parent.group),
    };
    let kind = text(value, &["kind"]).unwrap_or(&edge.parent.kind);
    let in_namespace = ObjectRef::new(group, kind, given.or(child.namespace.as_deref()), name);
    let of_cluster = ObjectRef::new(group, kind, None, name);
    fits(&edge.parent, &in_namespace).then(|| vec![in_namespace, of_cluster])
}

/// The circles among these objects: strongly connected sets of more than one member, and those that name themselves.
/// Tarjan's algorithm without recursion, since a chain of references may be as long as it likes.
fn circles(region: &BTreeSet<ObjId>, named: &Named) -> Vec<BTreeSet<ObjId>> {
    let mut state = Tarjan::default();
    for start in region {
        if !state.index.contains_key(start) {
            state.visit(*start, named);
        }
    }
    let names_itself = |object: &ObjId| named.parents(*object).any(|parent| parent == *object);
    state
        .components
        .into_iter()
        .filter(|members| members.len() > 1 || members.iter().all(names_itself))
        .collect()
}

#[derive(Default)]
struct Tarjan {
    index: BTreeMap<ObjId, usize>,
    low: BTreeMap<ObjId, usize>,
    stack: Vec<ObjId>,
    on_stack: BTreeSet<ObjId>,
    components: Vec<BTreeSet<ObjId>>,
}

impl Tarjan {
    fn open(&mut self, object: ObjId, named: &Named) -> (ObjId, Vec<ObjId>) {
        let index = self.index.len();
        self.index.insert(object, index);
        self.low.insert(object, index);
        self.stack.push(object);
        self.on_stack.insert(object);
        (object, named.children(object).collect())
    }

    fn visit(&mut self, start: ObjId, named: &Named) {
        let mut calls = vec![self.open(start, named)];
        while let Some((object, rest)) = calls.last_mut() {
            let object = *object;
            if let Some(child) = rest.pop() {
                if !self.index.contains_key(&child) {
                    calls.push(self.open(child, named));
                } else if self.on_stack.contains(&child) {
                    let low = self.low[&object].min(self.index[&child]);
                    self.low.insert(object, low);
                }
                continue;
            }
            calls.pop();
            if let Some((caller, _)) = calls.last() {
                let low = self.low[caller].min(self.low[&object]);
                self.low.insert(*caller, low);
            }
            if self.low[&object] == self.index[&object] {
                self.close(object);
            }
        }
    }

    fn close(&mut self, root: ObjId) {
        let mut members = BTreeSet::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack.remove(&member);
            members.insert(member);
            if member == root {
                break;
            }
        }
        self.components.push(members);
    }
}
