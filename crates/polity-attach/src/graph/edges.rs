//! Which edges the objects of the Gateway hierarchy declare: a Gateway to its class, a ListenerSet to its
//! Gateway, a route to the listeners that take it and to the backends it may refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Backend, Facts, ParentRef, Route};
use super::ids::ObjId;
use super::lattice::{NodeId, Part};
use super::{Graph, admit};
use crate::object::ObjectRef;

impl Graph {
    /// The edges that an object declares now.
    pub(super) fn wanted_edges(&mut self, name: &str, object: ObjId) -> BTreeSet<(NodeId, NodeId)> {
        let mut edges = BTreeSet::new();
        let Some(stored) = self.objects.get(&object) else {
            return edges;
        };
        let facts = stored.facts.clone();
        let Some(whole) = self.node_of(name, object, &Part::Whole) else {
            return edges;
        };
        match facts {
            Facts::Gateway { class, .. } => {
                let class = self
                    .refs
                    .get(&class)
                    .filter(|class| self.objects.contains_key(class));
                let above = class.and_then(|class| self.node_of(name, class, &Part::Whole));
                edges.extend(above.map(|node| (node, whole)));
                self.sections_below(name, object, whole, &mut edges);
            }
            Facts::ListenerSet { parent, .. } => {
                if let Some(gateway) = self.gateway_for(name, object, &parent) {
                    edges.insert((gateway, whole));
                }
                self.sections_below(name, object, whole, &mut edges);
            }
            Facts::Route(route) => {
                self.sections_below(name, object, whole, &mut edges);
                for parent in &route.parents {
                    self.parents_of_route(name, object, &route, parent, &mut edges);
                }
                self.backends_of_route(name, object, &route, &mut edges);
            }
            _ => {}
        }
        edges
    }

    fn sections_below(
        &self,
        name: &str,
        object: ObjId,
        whole: NodeId,
        edges: &mut BTreeSet<(NodeId, NodeId)>,
    ) {
        for (part, _) in self.sections(object) {
            edges.extend(self.node_of(name, object, &part).map(|node| (whole, node)));
        }
    }

    fn gateway_for(&self, name: &str, set: ObjId, parent: &ObjectRef) -> Option<NodeId> {
        let gateway = self.refs.get(parent)?;
        let Facts::Gateway {
            allowed_listeners, ..
        } = &self.objects.get(&gateway)?.facts
        else {
            return None;
        };
        let namespace = self.refs.value(set).namespace.as_deref();
        allowed_listeners
            .allows(parent.namespace.as_deref(), namespace, &|name| {
                self.namespace_labels(name)
            })
            .then(|| self.node_of(name, gateway, &Part::Whole))?
    }

    /// The labels of a namespace; a server puts its name among them.
    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let id = self.refs.get(&ObjectRef::of_namespace(namespace));
        let stored = id.and_then(|id| self.objects.get(&id));
        let mut labels = match stored.map(|stored| &stored.facts) {
            Some(Facts::Namespace { labels }) => labels.clone(),
            _ => BTreeMap::new(),
        };
        labels.insert(
            "kubernetes.io/metadata.name".to_owned(),
            namespace.to_owned(),
        );
        labels
    }

    fn parents_of_route(
        &mut self,
        name: &str,
        object: ObjId,
        route: &Route,
        parent: &ParentRef,
        edges: &mut BTreeSet<(NodeId, NodeId)>,
    ) {
        let Some(to) = self.refs.get(&parent.to) else {
            return;
        };
        let Some(whole) = self.node_of(name, object, &Part::Whole) else {
            return;
        };
        let reference = self.refs.value(object).clone();
        match self.objects.get(&to).map(|stored| &stored.facts) {
            Some(Facts::Gateway { listeners, .. } | Facts::ListenerSet { listeners, .. }) => {
                let mut seen = BTreeSet::new();
                for listener in listeners {
                    if !seen.insert(&listener.name)
                        || !admit::admits(listener, &reference.kind, route, parent)
                    {
                        continue;
                    }
                    let allowed = listener.from.allows(
                        parent.to.namespace.as_deref(),
                        reference.namespace.as_deref(),
                        &|name| self.namespace_labels(name),
                    );
                    let part = Part::Section(listener.name.as_str().into());
                    if allowed && let Some(node) = self.node_of(name, to, &part) {
                        edges.insert((node, whole));
                    }
                }
            }
            Some(Facts::Service { .. }) => {
                if let Some(node) = self.frontend(name, to, parent) {
                    edges.insert((node, whole));
                }
            }
            _ => {}
        }
    }

    /// The node of a Service as a frontend, or of one of its ports.
    fn frontend(&mut self, name: &str, service: ObjId, parent: &ParentRef) -> Option<NodeId> {
        let Facts::Service { ports } = &self.objects.get(&service)?.facts else {
            return None;
        };
        let asks = parent.port.is_some() || parent.section.is_some();
        let port = ports
            .iter()
            .find(|port| {
                parent.port.is_none_or(|number| port.number == Some(number))
                    && parent
                        .section
                        .as_ref()
                        .is_none_or(|section| port.name.as_ref() == Some(section))
            })
            .cloned();
        if asks && port.is_none() {
            return None;
        }
        let levels = self.object_levels(service);
        let whole = self.ensure_node(name, service, Part::Frontend, levels);
        let Some(section) = port.filter(|_| asks).and_then(|port| port.name) else {
            return Some(whole);
        };
        let level = self.level(service, Some(&section));
        let part = Part::FrontendPort(section.as_str().into());
        let node = self.ensure_node(name, service, part, vec![level]);
        let host = self.hosts.get_mut(name)?;
        host.lattice.add_edge(whole, node);
        Some(node)
    }

    fn backends_of_route(
        &self,
        name: &str,
        object: ObjId,
        route: &Route,
        edges: &mut BTreeSet<(NodeId, NodeId)>,
    ) {
        let from = self.refs.value(object);
        for ((part, _), rule) in self.sections(object).iter().zip(&route.rules) {
            let Some(node) = self.node_of(name, object, part) else {
                continue;
            };
            for backend in &rule.backends {
                if self.may_refer(from, &backend.to) {
                    self.edges_to_backend(name, node, backend, edges);
                }
            }
        }
    }

    fn edges_to_backend(
        &self,
        name: &str,
        rule: NodeId,
        backend: &Backend,
        edges: &mut BTreeSet<(NodeId, NodeId)>,
    ) {
        let Some(to) = self.refs.get(&backend.to) else {
            return;
        };
        let Some(Facts::Service { ports }) = self.objects.get(&to).map(|stored| &stored.facts)
        else {
            return;
        };
        edges.extend(
            self.node_of(name, to, &Part::Whole)
                .map(|node| (rule, node)),
        );
        for ((part, _), port) in self.sections(to).iter().zip(ports) {
            if backend.port.is_none() || backend.port == port.number {
                edges.extend(self.node_of(name, to, part).map(|node| (rule, node)));
            }
        }
    }

    /// Whether a reference is within one namespace or granted by the other one.
    pub(crate) fn may_refer(&self, from: &ObjectRef, to: &ObjectRef) -> bool {
        let namespace = if to.is("", "Namespace") {
            Some(&to.name)
        } else {
            to.namespace.as_ref()
        };
        let Some(namespace) = namespace else {
            return true;
        };
        if from.namespace.as_ref() == Some(namespace) {
            return true;
        }
        let mut grants = self.grants.get(namespace).into_iter().flatten();
        grants.any(|grant| {
            matches!(
                self.objects.get(grant).map(|stored| &stored.facts),
                Some(Facts::Grant(grant)) if grant.permits(from, to)
            )
        })
    }
}
