//! The paths to an object, for those who read them.
//!
//! Results never depend on this: they come from the stacks. Paths are listed on request, up to a limit, and
//! always in the same order.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Graph;
use super::ids::ObjId;
use super::lattice::{EMPTY, NodeId, Part, StackId};
use crate::object::ObjectRef;

/// One step of a path: an object, or one of its sections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Step {
    #[serde(flatten)]
    pub object: ObjectRef,
    #[serde(rename = "sectionName", skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
}

impl Step {
    /// `Kind/ns/name#section`, as people type it.
    pub fn short(&self) -> String {
        let name = format!("{}/{}", self.object.kind, self.object.path());
        match &self.section {
            Some(section) => format!("{name}#{section}"),
            None => name,
        }
    }
}

/// A path from a root to a part of an object.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) stack: StackId,
    pub(crate) steps: Vec<Step>,
}

/// What is asked for of a path: that it passes over this object, and over this section of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub object: ObjectRef,
    pub section: Option<String>,
}

impl Graph {
    /// The paths to a node, at most `limit`, and how many there are in all.
    pub(crate) fn paths(
        &self,
        name: &str,
        node: NodeId,
        through: Option<&Through>,
        limit: usize,
    ) -> (Vec<Path>, u64) {
        let lattice = &self.host(name).lattice;
        let mut found: Vec<Path> = Vec::new();
        // Each entry is a path from some node down to the one asked for.
        let mut open: Vec<Vec<NodeId>> = vec![vec![node]];
        while let Some(path) = open.pop() {
            let top = *path.last().expect("paths have nodes");
            let parents = &lattice.node(top).parents;
            if !parents.is_empty() {
                for parent in parents.iter().rev() {
                    let mut longer = path.clone();
                    longer.push(*parent);
                    open.push(longer);
                }
                continue;
            }
            let path = self.readable(name, &path);
            let wanted = through.is_none_or(|through| passes(&path.steps, through));
            if wanted {
                found.push(path);
                if found.len() >= limit {
                    break;
                }
            }
        }
        found.sort_by(|a, b| a.steps.cmp(&b.steps));
        let all = if found.len() < limit {
            found.len() as u64
        } else {
            self.n_paths(name, node)
        };
        (found, all)
    }

    /// How many paths lead to a node.
    fn n_paths(&self, name: &str, node: NodeId) -> u64 {
        let lattice = &self.host(name).lattice;
        let mut counts: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut open = vec![node];
        while let Some(next) = open.last().copied() {
            let parents = &lattice.node(next).parents;
            let missing: Vec<NodeId> = parents
                .iter()
                .filter(|parent| !counts.contains_key(parent))
                .copied()
                .collect();
            if missing.is_empty() {
                open.pop();
                let sum = parents
                    .iter()
                    .fold(0_u64, |sum, parent| sum.saturating_add(counts[parent]));
                counts.insert(next, if parents.is_empty() { 1 } else { sum });
            } else {
                open.extend(missing);
            }
        }
        counts[&node]
    }

    /// A path as people read it: with the namespaces in their places, each thing once, at its highest place.
    fn readable(&self, name: &str, upwards: &[NodeId]) -> Path {
        let lattice = &self.host(name).lattice;
        let mut steps: Vec<Step> = Vec::new();
        let mut seen: BTreeSet<Step> = BTreeSet::new();
        let mut stack = Some(EMPTY);
        let mut push = |step: Step| {
            if seen.insert(step.clone()) {
                steps.push(step);
            }
        };
        for node in upwards.iter().rev() {
            let node = lattice.node(*node);
            stack = stack.and_then(|stack| lattice.extended_by(&node.levels, stack));
            let object = self.reference(node.object);
            let section = self.section_name(node.object, &node.part);
            // A port stands for its Service too; listeners and rules have their objects above them.
            if let Some(namespace) = &object.namespace {
                push(Step {
                    object: ObjectRef::of_namespace(namespace),
                    section: None,
                });
            }
            push(Step {
                object: object.clone(),
                section: None,
            });
            if section.is_some() {
                push(Step {
                    object: object.clone(),
                    section,
                });
            }
        }
        Path {
            stack: stack.unwrap_or(EMPTY),
            steps,
        }
    }

    /// What a part is called: its name, or `rule-N` by its place, which is for display only.
    pub(crate) fn section_name(&self, object: ObjId, part: &Part) -> Option<String> {
        let what = if self.reference(object).kind == "Service" {
            "port"
        } else {
            "rule"
        };
        match part {
            Part::Section(name) | Part::FrontendPort(name) => Some(name.to_string()),
            Part::Position(place) => Some(format!("{what}-{}", place + 1)),
            Part::Whole | Part::Frontend => None,
        }
    }
}

fn passes(steps: &[Step], through: &Through) -> bool {
    steps.iter().any(|step| {
        step.object == through.object
            && (through.section.is_none() || step.section == through.section)
    })
}
