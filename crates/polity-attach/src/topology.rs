//! The hierarchy and the policies on it as a picture: nodes and edges in a fixed order, as DOT, Mermaid or JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::graph::facts::Facts;
use crate::graph::{Effectiveness, Graph};
use crate::object::ObjectRef;

/// How every picture for Graphviz begins. The margin leaves room where the reader's font is wider than Graphviz thinks.
pub(crate) const DOT_HEAD: &str = r#"digraph polity {
  rankdir=BT fontname="Helvetica,Arial,sans-serif" fontsize=11
  node [shape=box fontname="Helvetica,Arial,sans-serif" fontsize=11 margin="0.25,0.1"]
  edge [fontname="Helvetica,Arial,sans-serif" fontsize=9]
"#;

/// A picture of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    pub nodes: Vec<TopologyNode>,
    pub edges: Vec<TopologyEdge>,
}

/// An object or a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologyNode {
    pub id: String,
    #[serde(flatten)]
    pub object: ObjectRef,
    /// `object` or `policy`.
    pub role: &'static str,
    /// Whether the policy gives anything; objects always count as acting.
    pub acts: bool,
}

/// An edge from below to above, or from a policy to its target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TopologyEdge {
    pub from: String,
    pub to: String,
    /// `GatewayClass`, `ParentRef`, `BackendRef`, or `targets` for policies.
    pub kind: &'static str,
    #[serde(rename = "sectionName", skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
}

impl Graph {
    /// The picture of everything, or of what is in a namespace, or of what is connected with an object.
    pub fn topology(&self, namespace: Option<&str>, around: Option<&ObjectRef>) -> Topology {
        let mut links = self.links();
        let mut objects: BTreeSet<ObjectRef> = links
            .iter()
            .flat_map(|(from, to, ..)| [from.clone(), to.clone()])
            .collect();
        objects.extend(self.policies().into_iter().cloned());
        let shown_kinds = self.objects.iter().filter(|(_, stored)| {
            matches!(
                stored.facts,
                Facts::GatewayClass
                    | Facts::Gateway { .. }
                    | Facts::ListenerSet { .. }
                    | Facts::Route(_)
                    | Facts::Service { .. }
            )
        });
        objects.extend(shown_kinds.map(|(id, _)| self.reference(*id).clone()));
        if let Some(object) = around {
            objects = connected(object, &links);
        }
        if let Some(namespace) = namespace {
            objects.retain(|object| {
                object.namespace.as_deref() == Some(namespace) || object.namespace.is_none()
            });
        }
        links.retain(|(from, to, ..)| objects.contains(from) && objects.contains(to));
        if namespace.is_some() {
            // Cluster-scoped objects are shown only where something in the namespace hangs on them.
            let linked: BTreeSet<&ObjectRef> =
                links.iter().flat_map(|(from, to, ..)| [from, to]).collect();
            objects.retain(|object| object.namespace.is_some() || linked.contains(object));
        }
        let ids: BTreeMap<&ObjectRef, String> = objects
            .iter()
            .enumerate()
            .map(|(index, object)| (object, format!("n{index}")))
            .collect();
        let edges = links
            .iter()
            .filter(|(from, to, ..)| ids.contains_key(from) && ids.contains_key(to))
            .map(|(from, to, kind, section)| TopologyEdge {
                from: ids[from].clone(),
                to: ids[to].clone(),
                kind,
                section: section.clone(),
            })
            .collect();
        let nodes = objects
            .iter()
            .map(|object| TopologyNode {
                id: ids[object].clone(),
                object: object.clone(),
                role: if self.kind_of(object).is_some() {
                    "policy"
                } else {
                    "object"
                },
                acts: self.acts(object),
            })
            .collect();
        Topology { nodes, edges }
    }

    fn acts(&self, object: &ObjectRef) -> bool {
        self.kind_of(object).is_none()
            || self.policy_status(object).is_some_and(|status| {
                matches!(
                    status.effectiveness,
                    Some(Effectiveness::Full | Effectiveness::Partial)
                )
            })
    }

    /// Every edge between objects, and from policies to their targets.
    fn links(&self) -> BTreeSet<(ObjectRef, ObjectRef, &'static str, Option<String>)> {
        let mut links = BTreeSet::new();
        for (name, host) in &self.hosts {
            for (id, parts) in &host.nodes {
                for node in parts.values() {
                    for above in &host.lattice.node(*node).parents {
                        let above = host.lattice.node(*above);
                        let (below, above_ref) =
                            (self.reference(*id), self.reference(above.object));
                        if below == above_ref {
                            continue;
                        }
                        let kind = match (above_ref.kind.as_str(), below.kind.as_str()) {
                            ("GatewayClass", _) => "GatewayClass",
                            (_, "Service") => "BackendRef",
                            _ if name == "gateway" => "ParentRef",
                            _ => "Parent",
                        };
                        // A backend is drawn below its route, as the route points at it.
                        links.insert((below.clone(), above_ref.clone(), kind, None));
                    }
                }
            }
        }
        for held in self.policies.values() {
            for verdict in held
                .verdicts
                .iter()
                .filter(|verdict| verdict.outcome.is_ok())
            {
                links.insert((
                    held.policy.object.clone(),
                    verdict.object.clone(),
                    "targets",
                    verdict.section.clone(),
                ));
            }
        }
        links
    }
}

/// Everything above and below an object, with the policies on the way.
fn connected(
    object: &ObjectRef,
    links: &BTreeSet<(ObjectRef, ObjectRef, &'static str, Option<String>)>,
) -> BTreeSet<ObjectRef> {
    let mut up: BTreeMap<&ObjectRef, Vec<&ObjectRef>> = BTreeMap::new();
    let mut down: BTreeMap<&ObjectRef, Vec<&ObjectRef>> = BTreeMap::new();
    let mut policies: BTreeMap<&ObjectRef, Vec<&ObjectRef>> = BTreeMap::new();
    for (from, to, kind, _) in links {
        if *kind == "targets" {
            policies.entry(to).or_default().push(from);
        } else {
            up.entry(from).or_default().push(to);
            down.entry(to).or_default().push(from);
        }
    }
    let mut found: BTreeSet<ObjectRef> = BTreeSet::from([object.clone()]);
    for edges in [&up, &down] {
        let mut open = vec![object];
        let mut seen: BTreeSet<&ObjectRef> = BTreeSet::new();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                found.insert(next.clone());
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
    }
    let targeting: Vec<ObjectRef> = found
        .iter()
        .filter_map(|object| policies.get(object))
        .flatten()
        .map(|policy| (*policy).clone())
        .collect();
    found.extend(targeting);
    found
}

impl Topology {
    /// Graphviz, bottom to top, one dashed cluster for each namespace.
    pub fn to_dot(&self) -> String {
        let mut out = DOT_HEAD.to_owned();
        for (namespace, nodes) in self.by_namespace() {
            let indent = if let Some(namespace) = namespace {
                out.push_str(&format!(
                    "  subgraph \"cluster_{0}\" {{\n    style=dashed\n    label=\"{0}\"\n",
                    quoted(namespace)
                ));
                "    "
            } else {
                "  "
            };
            for node in nodes {
                let style = match (node.role, node.acts) {
                    ("policy", true) => " style=\"rounded,filled\" fillcolor=\"#dbeafe\"",
                    ("policy", false) => " style=\"rounded,dashed\"",
                    _ => "",
                };
                let label = format!(
                    "{}\\n{}",
                    quoted(&node.object.kind),
                    quoted(&node.object.name)
                );
                out.push_str(&format!("{indent}{} [label=\"{label}\"{style}]\n", node.id));
            }
            if namespace.is_some() {
                out.push_str("  }\n");
            }
        }
        for edge in &self.edges {
            let label = edge.section.as_deref().map_or_else(
                || edge.kind.to_owned(),
                |section| format!("{} #{section}", edge.kind),
            );
            let style = if edge.kind == "targets" {
                " style=dashed color=\"#2563eb\""
            } else {
                ""
            };
            out.push_str(&format!(
                "  {} -> {} [label=\"{}\"{style}]\n",
                edge.from,
                edge.to,
                quoted(&label)
            ));
        }
        out.push_str("}\n");
        out
    }

    /// Mermaid, bottom to top, one subgraph for each namespace.
    pub fn to_mermaid(&self) -> String {
        let mut out = String::from("flowchart BT\n");
        let mut policies = Vec::new();
        let mut beaten = Vec::new();
        for (index, (namespace, nodes)) in self.by_namespace().into_iter().enumerate() {
            if let Some(namespace) = namespace {
                out.push_str(&format!(
                    "  subgraph ns{index}[\"{}\"]\n",
                    escaped(namespace)
                ));
            }
            for node in nodes {
                let label = format!(
                    "{}<br/>{}",
                    escaped(&node.object.kind),
                    escaped(&node.object.name)
                );
                let (open, close) = if node.role == "policy" {
                    ("([", "])")
                } else {
                    ("[", "]")
                };
                out.push_str(&format!("    {}{open}\"{label}\"{close}\n", node.id));
                match (node.role, node.acts) {
                    ("policy", true) => policies.push(node.id.as_str()),
                    ("policy", false) => beaten.push(node.id.as_str()),
                    _ => {}
                }
            }
            if namespace.is_some() {
                out.push_str("  end\n");
            }
        }
        for edge in &self.edges {
            let arrow = if edge.kind == "targets" {
                "-.->"
            } else {
                "-->"
            };
            let label = edge.section.as_deref().map_or_else(
                || edge.kind.to_owned(),
                |section| format!("{} #35;{}", edge.kind, escaped(section)),
            );
            out.push_str(&format!(
                "  {} {arrow}|\"{label}\"| {}\n",
                edge.from, edge.to
            ));
        }
        for (class, style, members) in [
            ("policy", "fill:#dbeafe,stroke:#2563eb", &policies),
            ("beaten", "stroke-dasharray:4", &beaten),
        ] {
            if !members.is_empty() {
                out.push_str(&format!(
                    "  classDef {class} {style}\n  class {} {class}\n",
                    members.join(",")
                ));
            }
        }
        out
    }

    fn by_namespace(&self) -> BTreeMap<Option<&str>, Vec<&TopologyNode>> {
        let mut groups: BTreeMap<Option<&str>, Vec<&TopologyNode>> = BTreeMap::new();
        for node in &self.nodes {
            groups
                .entry(node.object.namespace.as_deref())
                .or_default()
                .push(node);
        }
        groups
    }
}

/// A text between quotes, as Graphviz takes it.
pub(crate) fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Mermaid takes entities for what would end a label.
pub(crate) fn escaped(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
        .replace('#', "#35;")
        .replace('"', "#quot;")
        .replace('<', "#lt;")
        .replace('>', "#gt;")
}
