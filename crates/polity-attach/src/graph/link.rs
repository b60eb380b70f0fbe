//! Nodes and edges of the hierarchies, kept in step with the objects.
//!
//! Every edge is declared by one object: a route declares its listeners and its backends. When an object changes, it and
//! those that refer to it say again which edges they want, and only the difference is carried out.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;
use super::facts::Facts;
use super::ids::{LevelId, ObjId};
use super::lattice::{NodeId, Part};
use crate::object::ObjectRef;

/// The nodes an object wants to have: its parts, with the levels a path gains in them.
type Parts = BTreeMap<Part, Vec<LevelId>>;

impl Graph {
    pub(super) fn settle_links(&mut self) {
        let changed = std::mem::take(&mut self.pending.links);
        if changed.is_empty() {
            return;
        }
        let relink = self.dependents(&changed);
        self.work.linked += relink.len();
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in &names {
            let mut leftovers = Vec::new();
            for object in &changed {
                leftovers.extend(self.make_nodes(name, *object));
            }
            if self.hosts[name].rules.is_some() {
                self.relink_custom(name, &relink);
            } else {
                for object in &relink {
                    self.relink(name, *object);
                }
            }
            for (object, part) in leftovers {
                self.drop_node(name, object, &part);
            }
        }
        for object in &changed {
            // Existence and sections of targets are facts too.
            let policies = self.by_target.get(object).into_iter().flatten();
            self.pending.resolves.extend(policies);
            self.pending.scores.insert(*object);
        }
        self.note_touched();
    }

    /// Everything whose edges may depend on these objects.
    fn dependents(&mut self, changed: &BTreeSet<ObjId>) -> BTreeSet<ObjId> {
        let mut relink = changed.clone();
        for object in changed {
            relink.extend(self.referrers.get(object).into_iter().flatten());
            let reference = self.refs.value(*object);
            if reference.is("", "Namespace") {
                relink.extend(self.choosy_in(&reference.name));
            }
            if reference.kind == "ReferenceGrant"
                && let Some(namespace) = &reference.namespace
            {
                let outside = self.from_outside.get(namespace).into_iter().flatten();
                for id in outside {
                    if self.policies.contains_key(id) {
                        self.pending.resolves.insert(*id);
                    } else {
                        relink.insert(*id);
                    }
                }
            }
        }
        relink
    }

    /// Objects of a namespace whose parents look at the labels of namespaces.
    fn choosy_in(&self, namespace: &str) -> Vec<ObjId> {
        let members = self.referring.get(namespace).into_iter().flatten();
        let choosy = |id: &&ObjId| {
            let parents = self.references.get(*id).map_or(&[][..], |list| list);
            parents.iter().any(|parent| {
                self.objects
                    .get(parent)
                    .is_some_and(|stored| stored.facts.selects_namespaces())
            })
        };
        members.filter(choosy).copied().collect()
    }

    /// Marks what the lattices say has changed.
    pub(super) fn note_touched(&mut self) {
        for host in self.hosts.values_mut() {
            for node in host.lattice.take_touched() {
                self.pending.scores.insert(host.lattice.node(node).object);
            }
        }
    }

    /// Makes the nodes an object lacks; answers with those it should no longer have.
    fn make_nodes(&mut self, name: &str, object: ObjId) -> Vec<(ObjId, Part)> {
        let wanted = self.wanted_parts(name, object);
        let present: Vec<Part> = self.hosts[name]
            .nodes
            .get(&object)
            .map(|parts| parts.keys().cloned().collect())
            .unwrap_or_default();
        let transient = |part: &Part| matches!(part, Part::Frontend | Part::FrontendPort(_));
        let leftovers = present
            .iter()
            .filter(|part| !wanted.contains_key(part) && !transient(part))
            .map(|part| (object, part.clone()))
            .collect();
        for (part, levels) in wanted {
            self.ensure_node(name, object, part, levels);
        }
        leftovers
    }

    pub(super) fn ensure_node(
        &mut self,
        name: &str,
        object: ObjId,
        part: Part,
        levels: Vec<LevelId>,
    ) -> NodeId {
        let host = self
            .hosts
            .get_mut(name)
            .expect("hosts are made before nodes");
        let parts = host.nodes.entry(object).or_default();
        if let Some(node) = parts.get(&part) {
            return *node;
        }
        let above: Option<LevelId> = levels.first().copied();
        let node = host.lattice.add_node(object, part.clone(), levels);
        parts.insert(part, node);
        let crowd = above.map_or(0, |level| host.lattice.n_carriers(level));
        self.pending.scores.insert(object);
        self.note_namespace(object, crowd);
        node
    }

    pub(super) fn drop_node(&mut self, name: &str, object: ObjId, part: &Part) {
        let host = self.hosts.get_mut(name).expect("hosts outlive their nodes");
        let Some(parts) = host.nodes.get_mut(&object) else {
            return;
        };
        let Some(node) = parts.remove(part) else {
            return;
        };
        if parts.is_empty() {
            host.nodes.remove(&object);
        }
        let above = host.lattice.node(node).levels.first().copied();
        // All objects that declared an edge to it have removed that edge; its own edges are left.
        let own: Vec<(NodeId, NodeId)> = host
            .lattice
            .node(node)
            .parents
            .iter()
            .map(|parent| (*parent, node))
            .chain(
                host.lattice
                    .node(node)
                    .children
                    .iter()
                    .map(|child| (node, *child)),
            )
            .collect();
        for (parent, child) in own {
            host.lattice.remove_edge(parent, child);
        }
        for touched in host.lattice.take_touched() {
            let object = host.lattice.node(touched).object;
            self.pending.scores.insert(object);
        }
        host.lattice.remove_node(node);
        let crowd = above.map_or(0, |level| host.lattice.n_carriers(level));
        self.pending.scores.insert(object);
        self.note_namespace(object, crowd);
    }

    /// A Namespace is a leaf as long as nothing is in it: the first and the last one in it change that.
    fn note_namespace(&mut self, member: ObjId, crowd: usize) {
        if crowd > 2 {
            return;
        }
        if let Some(namespace) = self.refs.value(member).namespace.clone() {
            let namespace = self.refs.id(&ObjectRef::of_namespace(&namespace));
            self.pending.scores.insert(namespace);
        }
    }

    /// The levels of an object: its namespace, itself.
    pub(super) fn object_levels(&mut self, object: ObjId) -> Vec<LevelId> {
        let namespace = self.refs.value(object).namespace.clone();
        let mut levels = Vec::with_capacity(2);
        if let Some(namespace) = namespace {
            let namespace = self.refs.id(&ObjectRef::of_namespace(&namespace));
            levels.push(self.level(namespace, None));
        }
        levels.push(self.level(object, None));
        levels
    }

    fn wanted_parts(&mut self, name: &str, object: ObjId) -> Parts {
        let mut parts = Parts::new();
        let host = &self.hosts[name];
        let reference = self.refs.value(object).clone();
        let wanted = match &host.rules {
            Some(rules) => {
                self.exists(object)
                    && super::custom::has_kind(rules, &reference)
                    && !self.registry.is_excluded(&reference.group, &reference.kind)
            }
            None => match self.objects.get(&object).map(|stored| &stored.facts) {
                None | Some(Facts::Other | Facts::Grant(_)) => {
                    reference.is("", "Namespace") && self.exists(object)
                }
                Some(_) => true,
            },
        };
        let stray = host.strays.contains(&object) && self.exists(object);
        if !wanted && !stray {
            return parts;
        }
        let of_gateway = host.rules.is_none();
        let levels = self.object_levels(object);
        parts.insert(Part::Whole, levels.clone());
        if !of_gateway {
            return parts;
        }
        for (part, section) in self.sections(object) {
            let mut own = match self.objects.get(&object).map(|stored| &stored.facts) {
                // A port hangs under the rules that name it, so it brings the levels of its Service along.
                Some(Facts::Service { .. }) => levels.clone(),
                _ => Vec::new(),
            };
            if let Some(section) = section {
                own.push(self.level(object, Some(&section)));
            }
            parts.insert(part, own);
        }
        parts
    }

    /// The sections of an object with their names, in order. The second of two equal names is no name.
    pub(crate) fn sections(&self, object: ObjId) -> Vec<(Part, Option<String>)> {
        let names: Vec<Option<String>> = match self.objects.get(&object).map(|stored| &stored.facts)
        {
            Some(Facts::Gateway { listeners, .. } | Facts::ListenerSet { listeners, .. }) => {
                listeners
                    .iter()
                    .map(|listener| Some(listener.name.clone()))
                    .collect()
            }
            Some(Facts::Route(route)) => route.rules.iter().map(|rule| rule.name.clone()).collect(),
            Some(Facts::Service { ports }) => ports.iter().map(|port| port.name.clone()).collect(),
            _ => Vec::new(),
        };
        let mut seen = BTreeSet::new();
        names
            .into_iter()
            .enumerate()
            .map(
                |(index, name)| match name.filter(|name| seen.insert(name.clone())) {
                    Some(name) => (Part::Section(name.as_str().into()), Some(name)),
                    None => (Part::Position(index as u32), None),
                },
            )
            .collect()
    }

    /// Brings the edges an object declares in step with what it says now.
    fn relink(&mut self, name: &str, object: ObjId) {
        let wanted = self.wanted_edges(name, object);
        self.set_edges(name, object, wanted);
    }

    pub(super) fn set_edges(
        &mut self,
        name: &str,
        object: ObjId,
        wanted: BTreeSet<(NodeId, NodeId)>,
    ) {
        let host = self
            .hosts
            .get_mut(name)
            .expect("hosts are made before edges");
        let present = host.edges.remove(&object).unwrap_or_default();
        for (parent, child) in wanted.difference(&present) {
            host.lattice.add_edge(*parent, *child);
        }
        let mut frontends = Vec::new();
        for (parent, child) in present.difference(&wanted) {
            host.lattice.remove_edge(*parent, *child);
            let node = host.lattice.node(*parent);
            if matches!(node.part, Part::Frontend | Part::FrontendPort(_))
                && node.children.is_empty()
            {
                frontends.push((node.object, node.part.clone()));
            }
        }
        if !wanted.is_empty() {
            host.edges.insert(object, wanted);
        }
        for (service, part) in frontends {
            self.drop_frontend(name, service, &part);
        }
    }

    fn drop_frontend(&mut self, name: &str, service: ObjId, part: &Part) {
        self.drop_node(name, service, part);
        let frontend = self.node_of(name, service, &Part::Frontend);
        if let Some(node) = frontend
            && self.hosts[name].lattice.node(node).children.is_empty()
        {
            self.drop_node(name, service, &Part::Frontend);
        }
    }

    pub(crate) fn node_of(&self, name: &str, object: ObjId, part: &Part) -> Option<NodeId> {
        self.hosts.get(name)?.nodes.get(&object)?.get(part).copied()
    }
}
