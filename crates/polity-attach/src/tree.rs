//! The fields of a policy body by its schema, and the two ways in which bodies are combined.
//! See docs/spec/attachment.md#5-3.
//!
//! A leaf is what is decided as one: it has exactly one source. Objects with declared properties are decided field by
//! field, lists of type `map` element by element; maps, lists and scalars are leaves. In patch mode (RFC 7386) every
//! JSON object is taken apart and `null` is a leaf that deletes.

use std::collections::{BTreeMap, HashMap, HashSet};

use polity_merge::Schema;
use polity_merge::schema::{Additional, ListType, MapType};
use serde_json::{Map, Value};

/// Deeper values are leaves: no input can exhaust the stack.
const MAX_DEPTH: usize = 128;

/// Which piece of a merge a leaf came from.
pub(crate) type Source = u32;

/// A body cut into fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Leaf {
        value: Value,
        from: Source,
    },
    Object(BTreeMap<String, Tree>),
    /// A list of type `map`: elements by key, in the order in which they first appeared.
    Keyed(Elements),
}

/// The elements of a list of type `map`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Elements {
    /// The fields that identify an element.
    keys: Vec<String>,
    items: Vec<(String, Tree)>,
}

/// What became of one leaf of a body in the merged tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Won,
    /// Another body sets the same value: no conflict.
    Agrees(Source),
    Beaten(Source),
    /// Nothing stands in its place: the whole body was set aside.
    Gone,
}

impl Tree {
    pub(crate) fn empty() -> Self {
        Self::Object(BTreeMap::new())
    }

    /// Cuts a body by its schema; where the schema is unknown, objects are taken apart and lists are not.
    pub(crate) fn by_schema(value: &Value, schema: Option<&Schema>) -> Self {
        by_schema(value, schema, 0)
    }

    /// Cuts a body as RFC 7386 sees it.
    pub(crate) fn by_patch(value: &Value) -> Self {
        by_patch(value, 0)
    }

    /// The same tree with all leaves from `source`.
    pub(crate) fn sourced(&self, source: Source) -> Self {
        match self {
            Self::Leaf { value, .. } => Self::Leaf {
                value: value.clone(),
                from: source,
            },
            Self::Object(fields) => Self::Object(
                fields
                    .iter()
                    .map(|(name, tree)| (name.clone(), tree.sourced(source)))
                    .collect(),
            ),
            Self::Keyed(list) => Self::Keyed(Elements {
                keys: list.keys.clone(),
                items: list
                    .items
                    .iter()
                    .map(|(key, tree)| (key.clone(), tree.sourced(source)))
                    .collect(),
            }),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Leaf { .. } => false,
            Self::Object(fields) => fields.is_empty(),
            Self::Keyed(list) => list.items.is_empty(),
        }
    }

    /// Adds what is not there yet: `self` wins where both speak.
    pub(crate) fn fill(&mut self, other: Self) {
        match (self, other) {
            (Self::Object(mine), Self::Object(theirs)) => {
                for (name, tree) in theirs {
                    match mine.get_mut(&name) {
                        Some(present) => present.fill(tree),
                        None => drop(mine.insert(name, tree)),
                    }
                }
            }
            (Self::Keyed(mine), Self::Keyed(theirs)) => {
                mine.join(theirs, Self::fill);
            }
            _ => {}
        }
    }

    /// Puts `other` over what is there: `other` wins where both speak.
    pub(crate) fn overlay(&mut self, other: Self) {
        match (self, other) {
            (Self::Object(mine), Self::Object(theirs)) => {
                for (name, tree) in theirs {
                    match mine.get_mut(&name) {
                        Some(present) => present.overlay(tree),
                        None => drop(mine.insert(name, tree)),
                    }
                }
            }
            (Self::Keyed(mine), Self::Keyed(theirs)) => {
                mine.join(theirs, Self::overlay);
            }
            (mine, theirs) => *mine = theirs,
        }
    }

    /// The value, with every leaf that `keep` wants; `None` when none is left.
    pub(crate) fn value_of(&self, keep: &impl Fn(Source) -> bool) -> Option<Value> {
        match self {
            Self::Leaf { value, from } => (keep(*from) && !value.is_null()).then(|| value.clone()),
            Self::Object(fields) => {
                let kept: Map<String, Value> = fields
                    .iter()
                    .filter_map(|(name, tree)| Some((name.clone(), tree.value_of(keep)?)))
                    .collect();
                (fields.is_empty() || !kept.is_empty()).then_some(Value::Object(kept))
            }
            Self::Keyed(list) => {
                let kept: Vec<Value> = list
                    .items
                    .iter()
                    .filter_map(|(_, tree)| Some(list.with_keys(tree, tree.value_of(keep)?)))
                    .collect();
                (list.items.is_empty() || !kept.is_empty()).then_some(Value::Array(kept))
            }
        }
    }

    /// The whole value; what is deleted by a `null` is left out.
    pub(crate) fn value(&self) -> Value {
        self.value_of(&|_| true)
            .unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Calls `visit` with path, value and source of every leaf.
    pub(crate) fn leaves<'a>(&'a self, visit: &mut impl FnMut(&str, &'a Value, Source)) {
        self.walk(&mut String::new(), visit);
    }

    fn walk<'a>(&'a self, path: &mut String, visit: &mut impl FnMut(&str, &'a Value, Source)) {
        match self {
            Self::Leaf { value, from } => visit(path, value, *from),
            Self::Object(fields) => {
                for (name, tree) in fields {
                    within(
                        path,
                        |path| push_field(path, name),
                        |path| {
                            tree.walk(path, visit);
                        },
                    );
                }
            }
            Self::Keyed(list) => {
                for (key, tree) in &list.items {
                    within(
                        path,
                        |path| push_key(path, key),
                        |path| {
                            tree.walk(path, visit);
                        },
                    );
                }
            }
        }
    }

    /// The source of the first leaf.
    pub(crate) fn first_source(&self) -> Option<Source> {
        match self {
            Self::Leaf { from, .. } => Some(*from),
            Self::Object(fields) => fields.values().find_map(Self::first_source),
            Self::Keyed(list) => list.items.iter().find_map(|(_, tree)| tree.first_source()),
        }
    }

    /// Says of every leaf of `body`, which took part as `me`, what became of it in this tree.
    pub(crate) fn fates(
        &self,
        body: &Self,
        me: Source,
        visit: &mut impl FnMut(&str, &Value, Fate),
    ) {
        fates(Some(self), true, body, me, &mut String::new(), visit);
    }
}

impl Elements {
    fn get(&self, key: &str) -> Option<&Tree> {
        let found = self.items.iter().find(|(present, _)| present == key);
        found.map(|(_, tree)| tree)
    }

    /// Elements of both lists: those of one key are joined by `both`, new ones come last.
    fn join(&mut self, theirs: Self, both: impl Fn(&mut Tree, Tree)) {
        let places: HashMap<String, usize> = self
            .items
            .iter()
            .enumerate()
            .map(|(place, (key, _))| (key.clone(), place))
            .collect();
        for (key, tree) in theirs.items {
            match places.get(&key) {
                Some(place) => both(&mut self.items[*place].1, tree),
                None => self.items.push((key, tree)),
            }
        }
    }

    /// An element keeps its key fields, no matter which policy set them: without them it is not an element of the list.
    fn with_keys(&self, tree: &Tree, mut value: Value) -> Value {
        if let (Tree::Object(fields), Value::Object(kept)) = (tree, &mut value) {
            for key in &self.keys {
                if let Some(Tree::Leaf { value, .. }) = fields.get(key) {
                    kept.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        value
    }
}

/// `exact`: `result` stands at the very path of `body`, not above it.
fn fates(
    result: Option<&Tree>,
    exact: bool,
    body: &Tree,
    me: Source,
    path: &mut String,
    visit: &mut impl FnMut(&str, &Value, Fate),
) {
    match body {
        Tree::Leaf { value, .. } => {
            let fate = match result {
                Some(Tree::Leaf { from, .. }) if *from == me => Fate::Won,
                Some(Tree::Leaf {
                    from,
                    value: winner,
                }) if exact && winner == value => Fate::Agrees(*from),
                Some(tree) => tree.first_source().map_or(Fate::Gone, Fate::Beaten),
                None => Fate::Gone,
            };
            visit(path, value, fate);
        }
        Tree::Object(fields) => {
            for (name, tree) in fields {
                let (below, exact) = match result {
                    Some(Tree::Object(present)) => (present.get(name), exact),
                    other => (other, false),
                };
                within(
                    path,
                    |path| push_field(path, name),
                    |path| {
                        fates(below, exact, tree, me, path, visit);
                    },
                );
            }
        }
        Tree::Keyed(list) => {
            for (key, tree) in &list.items {
                let (below, exact) = match result {
                    Some(Tree::Keyed(present)) => (present.get(key), exact),
                    other => (other, false),
                };
                within(
                    path,
                    |path| push_key(path, key),
                    |path| {
                        fates(below, exact, tree, me, path, visit);
                    },
                );
            }
        }
    }
}

fn within(path: &mut String, push: impl FnOnce(&mut String), go: impl FnOnce(&mut String)) {
    let length = path.len();
    push(path);
    go(path);
    path.truncate(length);
}

fn push_field(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn push_key(path: &mut String, key: &str) {
    path.push('[');
    path.push_str(key);
    path.push(']');
}

fn leaf(value: &Value) -> Tree {
    Tree::Leaf {
        value: value.clone(),
        from: 0,
    }
}

fn by_patch(value: &Value, depth: usize) -> Tree {
    match value {
        Value::Object(fields) if depth < MAX_DEPTH => Tree::Object(
            fields
                .iter()
                .map(|(name, value)| (name.clone(), by_patch(value, depth + 1)))
                .collect(),
        ),
        other => leaf(other),
    }
}

fn by_schema(value: &Value, schema: Option<&Schema>, depth: usize) -> Tree {
    if depth >= MAX_DEPTH {
        return leaf(value);
    }
    match value {
        Value::Object(fields) if !is_one_value(schema) => Tree::Object(
            fields
                .iter()
                .filter(|(name, value)| !is_unset(value, schema, name))
                .map(|(name, value)| {
                    let schema = schema.and_then(|schema| schema.field(name));
                    (name.clone(), by_schema(value, schema, depth + 1))
                })
                .collect(),
        ),
        Value::Array(items) => keyed(items, schema, depth).unwrap_or_else(|| leaf(value)),
        other => leaf(other),
    }
}

/// An object that is replaced as a whole: an atomic one, or a map with free keys.
fn is_one_value(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| {
        schema.map_type() == MapType::Atomic
            || matches!(
                schema.additional_properties(),
                Additional::Schema(_) | Additional::Allowed(true)
            )
    })
}

/// A `null` where the schema does not allow one means that the field is not set.
fn is_unset(value: &Value, schema: Option<&Schema>, name: &str) -> bool {
    value.is_null()
        && !schema
            .and_then(|schema| schema.field(name))
            .is_some_and(Schema::nullable)
}

/// The elements by key; `None` when the list is not of type `map` or an element has no key of its own.
fn keyed(items: &[Value], schema: Option<&Schema>, depth: usize) -> Option<Tree> {
    let schema = schema.filter(|schema| schema.list_type() == ListType::Map)?;
    let element = schema.items().map(AsRef::as_ref);
    let mut trees: Vec<(String, Tree)> = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    for item in items {
        let key = key_of(item, schema.list_keys(), element)?;
        if !seen.insert(key.clone()) {
            return None;
        }
        trees.push((key, by_schema(item, element, depth + 1)));
    }
    Some(Tree::Keyed(Elements {
        keys: schema.list_keys().to_vec(),
        items: trees,
    }))
}

fn key_of(item: &Value, keys: &[String], element: Option<&Schema>) -> Option<String> {
    let mut parts = Vec::with_capacity(keys.len());
    for key in keys {
        let default = || element?.field(key)?.default_value();
        let value = item.get(key).or_else(default)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        parts.push(format!("{key}={text}"));
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse_crd(&json!({
            "type": "object",
            "properties": {"spec": {
                "type": "object",
                "properties": {
                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                    "codes": {"type": "array", "items": {"type": "string"}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                              "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
                    "hosts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                              "items": {"type": "object", "required": ["name"],
                                        "properties": {"name": {"type": "string"}, "w": {"type": "integer"}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }
            }}
        }))
        .unwrap()
    }

    fn paths(tree: &Tree) -> Vec<String> {
        let mut paths = Vec::new();
        tree.leaves(&mut |path, _, _| paths.push(path.to_owned()));
        paths
    }

    #[test]
    fn one_field_is_what_the_schema_says() {
        let schema = schema();
        let spec = schema.property("spec").unwrap();
        let body = json!({
            "tags": {"a": "1"}, "codes": ["x"], "whole": {"a": "1"},
            "hosts": [{"name": "x", "w": 1}], "free": {"any": {"thing": [1]}},
        });
        assert_eq!(
            paths(&Tree::by_schema(&body, Some(spec))),
            [
                "codes",
                "free.any.thing",
                "hosts[name=x].name",
                "hosts[name=x].w",
                "tags",
                "whole"
            ]
        );
        assert_eq!(
            paths(&Tree::by_schema(&body, None)),
            ["codes", "free.any.thing", "hosts", "tags.a", "whole.a"],
            "without a schema objects are taken apart and lists are not"
        );
    }

    #[test]
    fn maps_are_replaced_in_field_mode_and_merged_by_patch() {
        let schema = schema();
        let spec = schema.property("spec").unwrap();
        let (below, above) = (
            json!({"tags": {"a": "1", "b": "2"}}),
            json!({"tags": {"a": "9"}}),
        );
        let mut by_field = Tree::by_schema(&below, Some(spec));
        by_field.overlay(Tree::by_schema(&above, Some(spec)));
        assert_eq!(by_field.value(), json!({"tags": {"a": "9"}}));
        let mut by_patch = Tree::by_patch(&below);
        by_patch.overlay(Tree::by_patch(&above));
        assert_eq!(by_patch.value(), json!({"tags": {"a": "9", "b": "2"}}));
    }

    #[test]
    fn a_null_deletes_by_patch_and_blocks_what_is_below_it() {
        let mut tree = Tree::by_patch(&json!({"a": null}));
        tree.fill(Tree::by_patch(&json!({"a": {"b": 1}, "c": 2})));
        assert_eq!(tree.value(), json!({"c": 2}));
    }

    #[test]
    fn a_very_deep_value_is_a_leaf_somewhere() {
        let mut value = json!(1);
        for _ in 0..400 {
            value = json!({ "a": value });
        }
        let tree = Tree::by_schema(&value, None);
        assert_eq!(paths(&tree).len(), 1);
        assert_eq!(paths(&Tree::by_patch(&value)).len(), 1);
    }
}
