//! Sets of field paths, for example the fields of a manager or the changes of a write.
//!
//! A set is a tree. A set may contain a node without the nodes below it, and the other way round.

mod v1;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use polity_core::field::{MAX_PATH_BYTES, shortened};
use serde_json::Value;

use crate::schema::Schema;
use crate::text::Num;
use crate::typed;

pub use v1::FieldsError;

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object.
    Field(String),
    /// The element of a map list with these key fields, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// The element of a set with this value.
    Value(Scalar),
    /// The element of a list at this place.
    Index(i64),
}

/// A JSON value that identifies an element; numbers are compared by value, so `1` is `1.0`.
#[derive(Debug, Clone)]
pub struct Scalar(pub Value);

/// The way from the root of an object to one of its parts; prints as `.spec.containers[name="c"].image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Arc<PathElement>>);

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The elements are shared: a path holds all its ancestors, whose names may be long.
    nodes: BTreeMap<Arc<PathElement>, Node>,
}

/// Invariant: a node within a set is owned, or something below it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    owned: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }

    pub(crate) fn own(&mut self) {
        self.owned = true;
    }

    /// Adds a node below this one, and keeps existing nodes.
    pub(crate) fn attach(&mut self, element: PathElement, child: Self) {
        if child.is_empty() {
            return;
        }
        match self.below.nodes.get_mut(&element) {
            None => {
                self.below.nodes.insert(Arc::new(element), child);
            }
            Some(node) => {
                node.owned |= child.owned;
                node.below.extend(&child.below);
            }
        }
    }

    /// The set of the paths below a root node. A root has no path.
    pub(crate) fn into_set(self) -> FieldSet {
        self.below
    }
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every leaf of `value`: scalars, atomic lists and objects, empty objects; elements of map lists and sets
    /// count themselves.
    pub fn of(schema: &Schema, value: &Value) -> Self {
        typed::fields_of(typed::Type::of(schema), value)
    }

    /// A set of paths made of field names, written `spec.replicas`.
    pub fn of_paths(paths: &[&str]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let elements: Vec<_> = path
                .split('.')
                .map(|name| PathElement::Field(name.to_owned()))
                .collect();
            set.insert(&elements);
        }
        set
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds one path without its ancestors.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let mut set = self;
        for element in parents {
            set = &mut set.child_mut(element).below;
        }
        set.child_mut(last).owned = true;
    }

    fn child_mut(&mut self, element: &PathElement) -> &mut Node {
        if !self.nodes.contains_key(element) {
            self.nodes
                .insert(Arc::new(element.clone()), Node::default());
        }
        self.nodes
            .get_mut(element)
            .expect("the node was inserted when it was missing")
    }

    /// Whether `path` is in the set.
    pub fn contains<E: Borrow<PathElement>>(&self, path: &[E]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        let mut set = self;
        for element in parents {
            let Some(node) = set.nodes.get(element.borrow()) else {
                return false;
            };
            set = &node.below;
        }
        set.nodes.get(last.borrow()).is_some_and(|node| node.owned)
    }

    /// Whether the element itself is in the set.
    pub(crate) fn owns(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.owned)
    }

    /// The paths below `element`, if there are any.
    pub(crate) fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.nodes
            .get(element)
            .map(|node| &node.below)
            .filter(|below| !below.is_empty())
    }

    /// Every path in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    /// Adds every path of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (element, theirs) in &other.nodes {
            match self.nodes.get_mut(element) {
                None => {
                    self.nodes.insert(element.clone(), theirs.clone());
                }
                Some(node) => {
                    node.owned |= theirs.owned;
                    node.below.extend(&theirs.below);
                }
            }
        }
    }

    /// Every path in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| {
            let theirs = theirs?;
            Some(Node {
                owned: mine.owned && theirs.owned,
                below: mine.below.intersection(&theirs.below),
            })
        })
    }

    /// The paths that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| {
            Some(match theirs {
                None => mine.clone(),
                Some(theirs) => Node {
                    owned: mine.owned && !theirs.owned,
                    below: mine.below.difference(&theirs.below),
                },
            })
        })
    }

    /// The paths that are neither in `other` nor below a path of it.
    #[must_use]
    pub fn difference_below(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| match theirs {
            None => Some(mine.clone()),
            Some(theirs) if theirs.owned => None,
            Some(theirs) => Some(Node {
                owned: mine.owned,
                below: mine.below.difference_below(&theirs.below),
            }),
        })
    }

    fn combine(
        &self,
        other: &Self,
        combine: impl Fn(&Node, Option<&Node>) -> Option<Node>,
    ) -> Self {
        let combined = self.nodes.iter().filter_map(|(element, node)| {
            let node = combine(node, other.nodes.get(element))?;
            (node.owned || !node.below.is_empty()).then(|| (element.clone(), node))
        });
        Self {
            nodes: combined.collect(),
        }
    }

    /// The set in which every declared field on the way to a path is a path too.
    pub(crate) fn with_named_parents(&self, ty: Option<typed::Type<'_>>) -> Self {
        let nodes = self.nodes.iter().map(|(element, node)| {
            let named = match (&**element, ty) {
                (PathElement::Field(name), Some(ty)) => ty.declares(name),
                _ => false,
            };
            let child = ty.and_then(|ty| ty.child(element));
            let node = Node {
                owned: node.owned || named,
                below: node.below.with_named_parents(child),
            };
            (element.clone(), node)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Every path, those of one level before those below them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Arc<PathElement>>, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.owned) {
            prefix.push(Arc::clone(element));
            paths.push(Path(prefix.clone()));
            prefix.pop();
        }
        for (element, node) in &self.nodes {
            prefix.push(Arc::clone(element));
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }
}

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(mine), Value::Number(theirs)) => {
                match (Num::of(mine), Num::of(theirs)) {
                    (Num::Int(mine), Num::Int(theirs)) => mine.cmp(&theirs),
                    (mine, theirs) => mine.as_f64().total_cmp(&theirs.as_f64()),
                }
            }
            (Value::String(mine), Value::String(theirs)) => mine.cmp(theirs),
            (Value::Bool(mine), Value::Bool(theirs)) => mine.cmp(theirs),
            (mine, theirs) if self.rank() == other.rank() => {
                mine.to_string().cmp(&theirs.to_string())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", value.0)?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Path {
    /// The path as text, truncated to the maximum length of a field path.
    pub fn shortened(&self) -> String {
        let mut text = String::new();
        for element in &self.0 {
            if text.len() > MAX_PATH_BYTES {
                break;
            }
            text.push_str(&element.to_string());
        }
        shortened(&text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests;
