//! Values with a schema, as server-side apply treats them.
//!
//! Every node is a scalar, a list or an object. Lists and objects are atomic (one leaf) or merged. Without a schema,
//! the kind is deduced from the value: objects are merged, lists are atomic.

mod compare;
mod merge;
mod remove;

use std::collections::BTreeSet;
use std::fmt::Write;

use polity_core::field::shortened;
use polity_core::{Findings, go_text};
use serde_json::{Map, Value};

use crate::fields::{FieldSet, Node, PathElement, Scalar};
use crate::schema::{Additional, ListType, MapType, Schema, Type as Kind};
use crate::text::{Num, quoted};

pub(crate) use compare::{Comparison, compare, equal};
pub(crate) use merge::merge;
pub(crate) use remove::{Emptied, remove};

/// The schema of a node, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Type<'a> {
    Declared(&'a Schema),
    /// Nothing is declared: objects merge, lists are atomic.
    Deduced,
    /// Nothing is declared and nothing merges.
    Atomic,
}

/// How a value of a node is treated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    Scalar(ScalarKind),
    AtomicList,
    Set,
    /// A list of objects with these fields as key.
    Keyed(&'a [String]),
    AtomicMap,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Numeric,
    String,
    Boolean,
    Untyped,
}

impl<'a> Type<'a> {
    pub(crate) fn of(schema: &'a Schema) -> Self {
        Self::Declared(schema)
    }

    fn allows_map(self) -> bool {
        match self {
            Self::Declared(schema) => matches!(schema.kind(), Kind::Object | Kind::Any),
            Self::Deduced | Self::Atomic => true,
        }
    }

    fn allows_list(self) -> bool {
        match self {
            Self::Declared(schema) => matches!(schema.kind(), Kind::Array | Kind::Any),
            Self::Deduced | Self::Atomic => true,
        }
    }

    fn scalar(self) -> Option<ScalarKind> {
        match self {
            Self::Declared(schema) => match schema.kind() {
                Kind::Object | Kind::Array => None,
                Kind::Any | Kind::IntOrString => Some(ScalarKind::Untyped),
                Kind::Integer | Kind::Number => Some(ScalarKind::Numeric),
                Kind::Boolean => Some(ScalarKind::Boolean),
                Kind::String => match schema.format() {
                    None | Some("byte") => Some(ScalarKind::String),
                    Some(_) => Some(ScalarKind::Untyped),
                },
            },
            Self::Deduced | Self::Atomic => Some(ScalarKind::Untyped),
        }
    }

    /// How `value` is treated here. A value of the wrong type is treated as the expected one.
    pub(crate) fn shape(self, value: &Value) -> Shape<'a> {
        match value {
            Value::Array(_) if self.allows_list() => self.list(),
            Value::Object(_) if self.allows_map() => self.map(),
            Value::Null | Value::Array(_) | Value::Object(_) => self.expected(),
            _ => self.scalar().map_or_else(|| self.expected(), Shape::Scalar),
        }
    }

    fn expected(self) -> Shape<'a> {
        if self.allows_map() {
            return self.map();
        }
        self.scalar().map_or_else(|| self.list(), Shape::Scalar)
    }

    fn list(self) -> Shape<'a> {
        match self {
            Self::Declared(schema) => match schema.list_type() {
                ListType::Unset | ListType::Atomic => Shape::AtomicList,
                ListType::Set => Shape::Set,
                ListType::Map => Shape::Keyed(schema.list_keys()),
            },
            Self::Deduced | Self::Atomic => Shape::AtomicList,
        }
    }

    fn map(self) -> Shape<'a> {
        match self {
            Self::Declared(schema) if schema.map_type() == MapType::Atomic => Shape::AtomicMap,
            Self::Declared(_) | Self::Deduced => Shape::Map,
            Self::Atomic => Shape::AtomicMap,
        }
    }

    /// Whether `name` is a declared field rather than an entry of a map.
    pub(crate) fn declares(self, name: &str) -> bool {
        match self {
            Self::Declared(schema) => schema.declares(name),
            Self::Deduced | Self::Atomic => false,
        }
    }

    /// The type of a field; `None` if there can be no such field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Declared(schema) => match schema.field(name) {
                Some(field) => Some(Self::Declared(field)),
                None if schema.deduces_unknown() => Some(Self::Deduced),
                None => None,
            },
            Self::Deduced => Some(Self::Deduced),
            Self::Atomic => Some(Self::Atomic),
        }
    }

    /// The type of a list's elements.
    pub(crate) fn element(self) -> Self {
        match self {
            Self::Declared(schema) => schema
                .items()
                .map_or(Self::Atomic, |items| Self::Declared(items)),
            Self::Deduced | Self::Atomic => Self::Atomic,
        }
    }

    /// The type of the value at a path element.
    pub(crate) fn child(self, element: &PathElement) -> Option<Self> {
        match element {
            PathElement::Field(name) if self.allows_map() => self.field(name),
            PathElement::Key(_) if self.allows_list() => Some(self.element()),
            _ => None,
        }
    }

    /// The identity of an element of a set or of a map list.
    pub(crate) fn identify(self, shape: Shape<'_>, element: &Value) -> Result<PathElement, String> {
        let Shape::Keyed(keys) = shape else {
            return match element {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null"
                        .to_owned(),
                ),
                scalar => Ok(PathElement::Value(Scalar(scalar.clone()))),
            };
        };
        let Value::Object(map) = element else {
            let what = if element.is_null() {
                "a null element"
            } else {
                "non-map elements"
            };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let mut fields: Vec<(String, Scalar)> = keys
            .iter()
            .filter_map(|key| {
                let value = map.get(key).or_else(|| match self.element() {
                    Self::Declared(items) => items.property(key)?.default_value(),
                    Self::Deduced | Self::Atomic => None,
                });
                Some((key.clone(), Scalar(value?.clone())))
            })
            .collect();
        if fields.is_empty() {
            let names: Vec<_> = keys.iter().map(|key| quoted(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        fields.sort();
        Ok(PathElement::Key(fields))
    }
}

/// Whether a value may hold duplicates in sets and map lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks that a value has the shape its type wants; the error is the real server's text.
pub(crate) fn check(ty: Type<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut errors = Findings::default();
    Checker {
        duplicates,
        path: String::new(),
        errors: &mut errors,
    }
    .check(ty, value);
    match &*errors {
        [] => Ok(()),
        [one] if errors.n_more() == 0 => Err(one.clone()),
        several => {
            let mut text = format!("errors:\n  {}", several.join("\n  "));
            if errors.n_more() > 0 {
                let _ = write!(text, "\n  and {} more", errors.n_more());
            }
            Err(text)
        }
    }
}

struct Checker<'e> {
    duplicates: Duplicates,
    path: String,
    errors: &'e mut Findings,
}

impl Checker<'_> {
    fn check(&mut self, ty: Type<'_>, value: &Value) {
        match (ty.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Scalar(kind), value) => self.scalar(kind, value),
            (Shape::Map | Shape::AtomicMap, Value::Object(map)) => self.map(ty, map),
            (Shape::Map | Shape::AtomicMap, other) => {
                self.error(|| format!("expected map, got &{{{}}}", go_text::value(other)));
            }
            (shape, Value::Array(items)) => self.list(ty, shape, items),
            (_, other) => {
                self.error(|| format!("expected list, got &{{{}}}", go_text::value(other)));
            }
        }
    }

    fn scalar(&mut self, kind: ScalarKind, value: &Value) {
        let fits = matches!(
            (kind, value),
            (ScalarKind::Numeric, Value::Number(_))
                | (ScalarKind::String, Value::String(_))
                | (ScalarKind::Boolean, Value::Bool(_))
                | (
                    ScalarKind::Untyped,
                    Value::Number(_) | Value::String(_) | Value::Bool(_)
                )
        );
        if fits {
            return;
        }
        self.error(|| match (kind, value) {
            (ScalarKind::Numeric, other) => {
                format!("expected numeric (int or float), got {}", go_type(other))
            }
            (ScalarKind::String, other) => {
                format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    syntax(other)
                )
            }
            (ScalarKind::Boolean, other) => {
                format!("expected boolean, got &{{{}}}", go_text::value(other))
            }
            (ScalarKind::Untyped, other) => {
                format!("expected any scalar, got &{{{}}}", go_text::value(other))
            }
        });
    }

    fn map(&mut self, ty: Type<'_>, map: &Map<String, Value>) {
        for (name, value) in map {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(name);
            match ty.field(name) {
                Some(field) => self.check(field, value),
                None => self.error(|| "field not declared in schema".to_owned()),
            }
            self.path.truncate(length);
            // The real server stops at the first undeclared field of an object.
            if ty.field(name).is_none() {
                break;
            }
        }
    }

    fn list(&mut self, ty: Type<'_>, shape: Shape<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = match shape {
                Shape::Set | Shape::Keyed(_) => match ty.identify(shape, item) {
                    Ok(element) => element,
                    Err(message) => {
                        self.error(|| format!("element {index}: {message}"));
                        return;
                    }
                },
                _ => PathElement::Index(index as i64),
            };
            let printed = element.to_string();
            if !seen.insert(element) && self.duplicates == Duplicates::Refused {
                self.error(|| format!("duplicate entries for key {printed}"));
            }
            let length = self.path.len();
            self.path.push_str(&printed);
            self.check(ty.element(), item);
            self.path.truncate(length);
        }
    }

    fn error(&mut self, message: impl FnOnce() -> String) {
        self.errors.add(|| {
            let message = message();
            if self.path.is_empty() {
                message
            } else {
                format!("{}: {message}", shortened(&self.path))
            }
        });
    }
}

/// The set of everything `value` mentions.
pub(crate) fn fields_of(ty: Type<'_>, value: &Value) -> FieldSet {
    collect(ty, value).into_set()
}

/// Whether the value itself is in the set, and the set below it. Built from the leaves up, so that
/// a node costs its own name and not those of its ancestors.
fn collect(ty: Type<'_>, value: &Value) -> Node {
    let mut node = Node::default();
    match (ty.shape(value), value) {
        (Shape::Scalar(_) | Shape::AtomicList | Shape::AtomicMap, _) => node.own(),
        (Shape::Map, Value::Object(map)) => {
            for (name, value) in map {
                let mut child = collect(ty.field(name).unwrap_or(Type::Deduced), value);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !ty.declares(name) {
                    child.own();
                }
                node.attach(PathElement::Field(name.clone()), child);
            }
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(items)) => {
            let elements: Vec<_> = items
                .iter()
                .map(|item| ty.identify(shape, item).ok())
                .collect();
            let mut seen = BTreeSet::new();
            let mut repeated = BTreeSet::new();
            for element in elements.iter().flatten() {
                if !seen.insert(element) {
                    repeated.insert(element);
                }
            }
            for (element, item) in elements.iter().zip(items) {
                let Some(element) = element else { continue };
                // Duplicates are owned as one element, without their content.
                let mut child = if repeated.contains(element) {
                    Node::default()
                } else {
                    collect(ty.element(), item)
                };
                child.own();
                node.attach(element.clone(), child);
            }
        }
        _ => {}
    }
    node
}

/// A value as Go's `%#v` prints it.
fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match Num::of(number) {
            Num::Int(int) => int.to_string(),
            Num::Float(float) => go_text::float(float),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) => format!(
            "[]interface {{}}{{{}}}",
            items.iter().map(syntax).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(map) => {
            let fields: Vec<_> = map
                .iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => "int64",
            Num::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A new object as the base of a write. Built-in kinds have fields that are always present.
pub(crate) fn empty_object(schema: &Schema) -> Value {
    let mut map = Map::new();
    for (name, property) in schema.properties() {
        if let Some(default) = property.default_value().filter(|_| !schema.is_custom()) {
            let value = match default {
                Value::Object(fields) if fields.is_empty() => empty_object(property),
                other => other.clone(),
            };
            map.insert(name.clone(), value);
        } else if !schema.is_custom()
            && schema.required().contains(name)
            && matches!(property.kind(), Kind::Array | Kind::Object)
            && !matches!(property.additional_properties(), Additional::Schema(_))
        {
            map.insert(name.clone(), Value::Null);
        }
    }
    Value::Object(map)
}
