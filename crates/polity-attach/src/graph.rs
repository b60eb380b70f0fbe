//! The graph: objects and policies, who is below whom, and how every policy fares.
//!
//! [`Graph::apply`] and [`Graph::delete`] say what happened; the graph then settles: kinds, links, policies, levels,
//! tallies, in this order. Each step looks only at what the step before it changed, so one event costs work in
//! proportion to the paths it touches. The order of events leaves no trace in any answer.

mod admit;
pub(crate) mod custom;
mod edges;
pub(crate) mod facts;
mod findings;
pub(crate) mod ids;
mod intake;
mod kinds;
pub(crate) mod lattice;
mod levels;
mod link;
pub(crate) mod paths;
mod resolve;
mod tally;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use polity_core::GroupKind;
use serde_json::Value;

use crate::kind::{Definition, PolicyKind};
use crate::object::ObjectRef;
use crate::policy::Policy;
use crate::registry::{Config, Registry};
use crate::settings::{HierarchySettings, KindRef};
use facts::Facts;
use ids::{GroupId, Interner, LevelId, ObjId};
use lattice::{Lattice, NodeId, Part};
use levels::AtLevel;
pub(crate) use resolve::{Refusal, Verdict};
pub use tally::Effectiveness;
use tally::Touched;
pub(crate) use tally::{Contribution, Tally};
pub use work::Work;

/// An object as it is held.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) value: Arc<Value>,
    pub(crate) facts: Facts,
}

/// A policy as it is held.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) policy: Policy,
    pub(crate) group: GroupId,
    pub(crate) hierarchy: String,
    /// The kind whose contexts decide on its effectiveness; `None`: those without anything below them.
    pub(crate) leaf_kind: Option<KindRef>,
    pub(crate) is_direct: bool,
    /// One for each target, in their order.
    pub(crate) verdicts: Vec<Verdict>,
    /// The levels it is attached to.
    attached: BTreeSet<LevelId>,
    /// Levels that mark paths on which its own controller refused it.
    pub(crate) refused_on: BTreeSet<LevelId>,
}

/// A hierarchy with its nodes.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// The rules of a hierarchy that is data; `None` for the built-in one of Gateway API.
    pub(crate) rules: Option<HierarchySettings>,
    pub(crate) lattice: Lattice,
    pub(crate) nodes: HashMap<ObjId, BTreeMap<Part, NodeId>>,
    /// The edges that each object declares.
    edges: HashMap<ObjId, BTreeSet<(NodeId, NodeId)>>,
    /// Where edges are data: who names whom as a parent, whether that one is there or not.
    named: custom::Named,
    /// The members of each circle of references, by each of its members.
    cyclic: BTreeMap<ObjId, Arc<BTreeSet<ObjId>>>,
    /// How many policies mark each level as one on which they were refused.
    marks: BTreeMap<LevelId, u32>,
    /// Objects that are nodes only because a policy targets them.
    pub(crate) strays: BTreeSet<ObjId>,
}

/// What may have changed by an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects whose results may be others now.
    pub objects: BTreeSet<ObjectRef>,
    /// Policies whose status may be another now.
    pub policies: BTreeSet<ObjectRef>,
}

/// Everything that is known, and everything that follows from it.
#[derive(Debug)]
pub struct Graph {
    pub(crate) refs: Interner<ObjectRef>,
    pub(crate) objects: HashMap<ObjId, Stored>,
    by_kind: HashMap<GroupKind, BTreeSet<ObjId>>,
    by_namespace: HashMap<String, BTreeSet<ObjId>>,
    grants: HashMap<String, BTreeSet<ObjId>>,
    definitions: BTreeMap<ObjectRef, Definition>,
    configs: BTreeMap<ObjectRef, Config>,
    pub(crate) registry: Registry,
    /// Who refers to an object, and to whom an object refers.
    referrers: HashMap<ObjId, BTreeSet<ObjId>>,
    references: HashMap<ObjId, Box<[ObjId]>>,
    /// The objects of a namespace that refer to others.
    referring: HashMap<String, BTreeSet<ObjId>>,
    /// Objects and policies that refer into a namespace from outside.
    from_outside: HashMap<String, BTreeSet<ObjId>>,
    pub(crate) level_names: Interner<(ObjId, Option<Box<str>>)>,
    pub(crate) levels: HashMap<LevelId, BTreeMap<GroupId, AtLevel>>,
    pub(crate) group_names: Interner<String>,
    pub(crate) policies: HashMap<ObjId, Held>,
    by_target: HashMap<ObjId, BTreeSet<ObjId>>,
    /// By the name of the hierarchy.
    pub(crate) hosts: BTreeMap<String, Host>,
    words: Interner<String>,
    pub(crate) tallies: HashMap<ObjId, Tally>,
    pub(crate) contributions: HashMap<ObjId, Box<[Contribution]>>,
    pending: Pending,
    work: Work,
}

/// What has been said and not worked off yet.
#[derive(Debug, Default)]
struct Pending {
    kinds: bool,
    /// Objects whose facts or presence changed.
    links: BTreeSet<ObjId>,
    /// Objects whose body changed, which may be policies.
    reads: BTreeSet<ObjId>,
    /// Policies whose targets are to be looked up again.
    resolves: BTreeSet<ObjId>,
    /// Levels whose policies changed.
    levels: BTreeSet<(LevelId, GroupId)>,
    /// Objects whose policies are to be scored again.
    scores: BTreeSet<ObjId>,
    /// Policies whose status may have changed.
    policies: BTreeSet<ObjId>,
}

impl Default for Graph {
    fn default() -> Self {
        let mut hosts = BTreeMap::new();
        hosts.insert("gateway".to_owned(), Host::default());
        Self {
            refs: Interner::default(),
            objects: HashMap::new(),
            by_kind: HashMap::new(),
            by_namespace: HashMap::new(),
            grants: HashMap::new(),
            definitions: BTreeMap::new(),
            configs: BTreeMap::new(),
            registry: Registry::of([], []),
            referrers: HashMap::new(),
            references: HashMap::new(),
            referring: HashMap::new(),
            from_outside: HashMap::new(),
            level_names: Interner::default(),
            levels: HashMap::new(),
            group_names: Interner::default(),
            policies: HashMap::new(),
            by_target: HashMap::new(),
            hosts,
            words: Interner::default(),
            tallies: HashMap::new(),
            contributions: HashMap::new(),
            pending: Pending::default(),
            work: Work::default(),
        }
    }
}

impl Graph {
    /// The graph of these objects. Documents without kind or name are left out.
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut graph = Self::default();
        for object in objects {
            graph.take_in(Arc::new(object));
        }
        graph.settle();
        graph
    }

    /// Takes in an object that is new or changed.
    pub fn apply(&mut self, object: Value) -> Changes {
        self.take_in(Arc::new(object));
        self.settle_and_tell()
    }

    /// Forgets an object.
    pub fn delete(&mut self, object: &ObjectRef) -> Changes {
        self.take_out(object);
        self.settle_and_tell()
    }

    /// Takes in and forgets many objects as one event.
    pub fn change(
        &mut self,
        applied: impl IntoIterator<Item = Value>,
        deleted: &[ObjectRef],
    ) -> Changes {
        for object in deleted {
            self.take_out(object);
        }
        for object in applied {
            self.take_in(Arc::new(object));
        }
        self.settle_and_tell()
    }

    /// The policy kinds, in the order of group and kind.
    pub fn kinds(&self) -> impl Iterator<Item = &PolicyKind> {
        self.registry.kinds.values()
    }

    /// One policy kind.
    pub fn kind(&self, group: &str, kind: &str) -> Option<&PolicyKind> {
        self.registry.kinds.get(&GroupKind::new(group, kind))
    }

    /// An object as it was taken in.
    pub fn object(&self, object: &ObjectRef) -> Option<&Value> {
        let id = self.refs.get(object)?;
        self.objects.get(&id).map(|stored| stored.value.as_ref())
    }

    /// Every object, in the order of group, kind, namespace and name.
    pub fn objects(&self) -> Vec<(&ObjectRef, &Value)> {
        let mut objects: Vec<_> = self
            .objects
            .iter()
            .map(|(id, stored)| (self.refs.value(*id), stored.value.as_ref()))
            .collect();
        objects.sort_by_key(|(reference, _)| *reference);
        objects
    }

    /// Whether an object is there: taken in, implied by what is in it, or registered as virtual.
    pub fn exists_ref(&self, object: &ObjectRef) -> bool {
        self.refs.get(object).is_some_and(|id| self.exists(id))
    }

    /// Whether objects of a kind live outside of namespaces, by its CRD or by what is known of Kubernetes.
    pub fn is_cluster_scoped(&self, group: &str, kind: &str) -> bool {
        self.is_cluster_kind(group, kind)
    }

    /// The targets of a policy as they were understood: the object, its section, and whether it is accepted.
    pub fn targets(&self, policy: &ObjectRef) -> Vec<(ObjectRef, Option<String>, bool)> {
        let held = self.refs.get(policy).and_then(|id| self.policies.get(&id));
        let verdicts = held.into_iter().flat_map(|held| &held.verdicts);
        verdicts
            .map(|verdict| {
                (
                    verdict.object.clone(),
                    verdict.section.clone(),
                    verdict.outcome.is_ok(),
                )
            })
            .collect()
    }

    /// The policies that name an object, or a section of it, as their target, in order.
    pub fn targeting(&self, object: &ObjectRef) -> Vec<ObjectRef> {
        let policies = self
            .refs
            .get(object)
            .map(|id| self.policies_on(id))
            .unwrap_or_default();
        let mut found: Vec<ObjectRef> = policies
            .into_iter()
            .map(|id| self.refs.value(id).clone())
            .collect();
        found.sort();
        found
    }

    /// The objects just below an object, of other kinds than its own sections, and just above it.
    pub fn neighbours(&self, object: &ObjectRef) -> Neighbours {
        let mut neighbours = Neighbours::default();
        let Some(id) = self.refs.get(object) else {
            return neighbours;
        };
        for host in self.hosts.values() {
            let nodes = host
                .nodes
                .get(&id)
                .into_iter()
                .flatten()
                .map(|(_, node)| *node);
            for node in nodes {
                let entry = host.lattice.node(node);
                let name = |node: &NodeId| self.refs.value(host.lattice.node(*node).object);
                neighbours.above.extend(
                    entry
                        .parents
                        .iter()
                        .map(name)
                        .filter(|other| *other != object)
                        .cloned(),
                );
                neighbours.below.extend(
                    entry
                        .children
                        .iter()
                        .map(name)
                        .filter(|other| *other != object)
                        .cloned(),
                );
            }
        }
        neighbours
    }

    /// The objects of one name that are there, of whatever kind, in order.
    pub fn named(&self, namespace: Option<&str>, name: &str) -> Vec<ObjectRef> {
        let kinds = self
            .by_kind
            .keys()
            .map(|kind| (kind.group.as_str(), kind.kind.as_str()));
        let virtual_kinds = self
            .registry
            .virtual_objects
            .iter()
            .map(|object| (object.group.as_str(), object.kind.as_str()));
        let kinds: BTreeSet<(&str, &str)> = kinds
            .chain(virtual_kinds)
            .chain([("", "Namespace")])
            .collect();
        kinds
            .into_iter()
            .map(|(group, kind)| ObjectRef::new(group, kind, namespace, name))
            .filter(|object| self.refs.get(object).is_some_and(|id| self.exists(id)))
            .collect()
    }

    /// Every policy of a known kind, in the order of group, kind, namespace and name.
    pub fn policies(&self) -> Vec<&ObjectRef> {
        let mut policies: Vec<_> = self
            .policies
            .keys()
            .map(|id| self.refs.value(*id))
            .collect();
        policies.sort();
        policies
    }

    /// Works off everything that has been said.
    fn settle(&mut self) -> Touched {
        self.work = Work::default();
        self.settle_kinds();
        self.settle_links();
        self.settle_policies();
        self.settle_levels();
        let touched = self.settle_scores();
        for host in self.hosts.values_mut() {
            self.work.moved += host.lattice.take_visited();
        }
        touched
    }

    fn settle_and_tell(&mut self) -> Changes {
        let touched = self.settle();
        self.named_changes(touched)
    }

    /// How much the last event made the graph look at.
    pub fn work(&self) -> Work {
        self.work
    }

    pub(crate) fn kind_of(&self, policy: &ObjectRef) -> Option<&PolicyKind> {
        self.kind(&policy.group, &policy.kind)
    }

    /// The policies that name an object as their target.
    pub(crate) fn policies_on(&self, object: ObjId) -> Vec<ObjId> {
        let policies = self.by_target.get(&object).into_iter().flatten();
        policies
            .filter(|id| self.policies.contains_key(id))
            .copied()
            .collect()
    }

    pub(crate) fn definition(&self, kind: &GroupKind) -> Option<&Definition> {
        self.definitions
            .values()
            .find(|definition| definition.kind == *kind)
    }

    /// Whether an object is there: taken in, implied by what is in it, or registered as virtual.
    pub(crate) fn exists(&self, id: ObjId) -> bool {
        let reference = self.refs.value(id);
        self.objects.contains_key(&id)
            || (reference.is("", "Namespace") && self.by_namespace.contains_key(&reference.name))
            || self.registry.virtual_objects.contains(reference)
    }

    pub(crate) fn level(&mut self, object: ObjId, section: Option<&str>) -> LevelId {
        self.level_names.id(&(object, section.map(Box::from)))
    }

    /// The object of a level, and its section.
    pub(crate) fn level_name(&self, level: LevelId) -> (&ObjectRef, Option<&str>) {
        let (object, section) = self.level_names.value(level);
        (self.refs.value(*object), section.as_deref())
    }

    /// How much the graph holds, for those who watch it.
    pub fn size(&self) -> Size {
        Size {
            objects: self.objects.len(),
            policies: self.policies.len(),
            stacks: self
                .hosts
                .values()
                .map(|host| host.lattice.n_stacks())
                .sum(),
        }
    }
}

/// What is next to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    pub above: BTreeSet<ObjectRef>,
    pub below: BTreeSet<ObjectRef>,
}

/// How much a graph holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub objects: usize,
    pub policies: usize,
    /// Distinct sequences of levels with policies.
    pub stacks: usize,
}
