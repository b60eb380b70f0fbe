//! The values of a running template: what Go's reflection would see, without pointers, channels and functions.
//!
//! Maps are shared and change in place (`set`), as in Go. Lists never change. A map cannot contain itself:
//! [`Map::insert`] refuses it, so every value is a tree of finite size.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Zoned;

use crate::semver::Version;

/// One value.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing: a missing key, an empty interface.
    Nil,
    Bool(bool),
    Int(i64, IntType),
    Float(f64),
    Text(Rc<str>),
    List(Rc<List>),
    Map(Rc<Map>),
    Time(Rc<Zoned>),
    Duration(i64),
    Version(Rc<Version>),
    Struct(Rc<Struct>),
}

/// The integer types that functions take and give. They differ in name only: all hold 64 bits here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntType {
    Int,
    Int64,
    Uint8,
    Uint32,
    Uint64,
    Month,
    Weekday,
}

/// The declared element type of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    Any,
    Texts,
    Ints,
    Lists,
}

#[derive(Debug)]
pub struct List {
    pub elements: Elements,
    pub items: Vec<Value>,
    /// Never made, as opposed to made empty: JSON shows the difference.
    pub nil: bool,
}

/// A map from texts.
#[derive(Debug)]
pub struct Map {
    /// Its values are declared as texts.
    pub texts: bool,
    entries: RefCell<BTreeMap<Rc<str>, Value>>,
}

/// Named fields that are all there is: another name is an error, not nothing.
#[derive(Debug)]
pub struct Struct {
    pub type_name: &'static str,
    pub fields: Vec<(&'static str, Value)>,
}

/// The maximum depth of a value that has to be traversed.
pub(crate) const DEEPEST: usize = 200;

impl Value {
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Rc::from(text.as_ref()))
    }

    pub fn int(number: i64) -> Self {
        Self::Int(number, IntType::Int)
    }

    pub fn int64(number: i64) -> Self {
        Self::Int(number, IntType::Int64)
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::typed_list(Elements::Any, items)
    }

    pub fn typed_list(elements: Elements, items: Vec<Self>) -> Self {
        Self::List(Rc::new(List {
            elements,
            items,
            nil: false,
        }))
    }

    /// The list that was never made.
    pub fn nil_list() -> Self {
        Self::List(Rc::new(List {
            elements: Elements::Any,
            items: Vec::new(),
            nil: true,
        }))
    }

    pub fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let items = texts.into_iter().map(Self::text).collect();
        Self::typed_list(Elements::Texts, items)
    }

    pub fn map(entries: impl IntoIterator<Item = (Rc<str>, Self)>) -> Self {
        Self::Map(Rc::new(Map::new(entries)))
    }

    /// The name of its type as Go prints it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, kind) => match kind {
                IntType::Int => "int",
                IntType::Int64 => "int64",
                IntType::Uint8 => "uint8",
                IntType::Uint32 => "uint32",
                IntType::Uint64 => "uint64",
                IntType::Month => "time.Month",
                IntType::Weekday => "time.Weekday",
            },
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(list) => match list.elements {
                Elements::Any => "[]interface {}",
                Elements::Texts => "[]string",
                Elements::Ints => "[]int",
                Elements::Lists => "[][]interface {}",
            },
            Self::Map(map) if map.texts => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Version(_) => "*semver.Version",
            Self::Struct(fields) => fields.type_name,
        }
    }

    /// The name of its kind as Go prints it.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::Bool(_) => "bool",
            Self::Int(_, IntType::Month | IntType::Weekday) => "int",
            Self::Int(..) => self.type_name(),
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) | Self::Struct(_) => "struct",
            Self::Duration(_) => "int64",
            Self::Version(_) => "ptr",
        }
    }

    /// Does it count as true in `if`, `and` and `with`?
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(number, _) | Self::Duration(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Time(_) | Self::Version(_) | Self::Struct(_) => true,
        }
    }

    pub fn is_nil(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::List(list) => list.nil,
            _ => false,
        }
    }

    pub fn as_text(&self) -> Option<&Rc<str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Deep equality of types and contents. Returns `None` if the values are too deep.
    pub fn deep_equal(&self, other: &Self, depth: usize) -> Option<bool> {
        if depth > DEEPEST {
            return None;
        }
        Some(match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a, x), Self::Int(b, y)) => a == b && x == y,
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b).is_some_and(Ordering::is_eq),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Time(a), Self::Time(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Version(a), Self::Version(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                if a.elements != b.elements || a.nil != b.nil || a.items.len() != b.items.len() {
                    return Some(false);
                }
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.deep_equal(b, depth + 1)? {
                        return Some(false);
                    }
                }
                true
            }
            (Self::Map(a), Self::Map(b)) => {
                if Rc::ptr_eq(a, b) {
                    return Some(true);
                }
                if a.texts != b.texts || a.len() != b.len() {
                    return Some(false);
                }
                let (a, b) = (a.entries.borrow(), b.entries.borrow());
                for ((a_key, a), (b_key, b)) in a.iter().zip(b.iter()) {
                    if a_key != b_key || !a.deep_equal(b, depth + 1)? {
                        return Some(false);
                    }
                }
                true
            }
            (Self::Struct(a), Self::Struct(b)) => {
                if a.type_name != b.type_name || a.fields.len() != b.fields.len() {
                    return Some(false);
                }
                for ((a_name, a), (b_name, b)) in a.fields.iter().zip(&b.fields) {
                    if a_name != b_name || !a.deep_equal(b, depth + 1)? {
                        return Some(false);
                    }
                }
                true
            }
            _ => false,
        })
    }

    /// A copy that shares no map with the original; `None` when it is too deep.
    pub fn deep_copy(&self, depth: usize) -> Option<Self> {
        if depth > DEEPEST {
            return None;
        }
        Some(match self {
            Self::List(list) => {
                let copies = list.items.iter().map(|item| item.deep_copy(depth + 1));
                Self::List(Rc::new(List {
                    elements: list.elements,
                    items: copies.collect::<Option<_>>()?,
                    nil: list.nil,
                }))
            }
            Self::Map(map) => {
                let mut copies = BTreeMap::new();
                for (key, value) in map.entries.borrow().iter() {
                    copies.insert(key.clone(), value.deep_copy(depth + 1)?);
                }
                Self::Map(Rc::new(Map {
                    texts: map.texts,
                    entries: RefCell::new(copies),
                }))
            }
            other => other.clone(),
        })
    }

    /// Is this map somewhere inside?
    fn holds(&self, map: &Rc<Map>, depth: usize) -> bool {
        if depth > DEEPEST {
            // A value this deep cannot be checked, so it is refused.
            return true;
        }
        match self {
            Self::Map(inner) => {
                Rc::ptr_eq(inner, map)
                    || inner
                        .entries
                        .borrow()
                        .values()
                        .any(|value| value.holds(map, depth + 1))
            }
            Self::List(list) => list.items.iter().any(|item| item.holds(map, depth + 1)),
            Self::Struct(fields) => fields
                .fields
                .iter()
                .any(|(_, value)| value.holds(map, depth + 1)),
            _ => false,
        }
    }

    /// Takes the children out, so that dropping a deep value needs no deep stack.
    fn take_children(&mut self, into: &mut Vec<Self>) {
        match self {
            Self::List(list) => {
                if let Some(list) = Rc::get_mut(list) {
                    into.append(&mut list.items);
                }
            }
            Self::Map(map) => {
                if let Some(map) = Rc::get_mut(map) {
                    into.extend(std::mem::take(map.entries.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

fn drop_flat(mut waiting: Vec<Value>) {
    while let Some(mut value) = waiting.pop() {
        value.take_children(&mut waiting);
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if self.items.iter().any(is_container) {
            drop_flat(std::mem::take(&mut self.items));
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        if entries.values().any(is_container) {
            drop_flat(std::mem::take(entries).into_values().collect());
        }
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

/// A map cannot hold itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a map cannot hold itself, or is nested too deeply")]
pub struct HoldsItself;

impl Map {
    pub fn new(entries: impl IntoIterator<Item = (Rc<str>, Value)>) -> Self {
        Self {
            texts: false,
            entries: RefCell::new(entries.into_iter().collect()),
        }
    }

    pub fn of_texts(entries: impl IntoIterator<Item = (Rc<str>, Value)>) -> Self {
        let mut map = Self::new(entries);
        map.texts = true;
        map
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        self.entries.borrow().get(key).cloned()
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.borrow().contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn remove(&self, key: &str) {
        self.entries.borrow_mut().remove(key);
    }

    /// Sets a key, unless the value holds this very map.
    pub fn insert(self: &Rc<Self>, key: Rc<str>, value: Value) -> Result<(), HoldsItself> {
        if value.holds(self, 0) {
            return Err(HoldsItself);
        }
        self.entries.borrow_mut().insert(key, value);
        Ok(())
    }

    /// The entries as they are now, in the order of their keys.
    pub fn entries(&self) -> Vec<(Rc<str>, Value)> {
        let entries = self.entries.borrow();
        entries
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    pub fn keys(&self) -> Vec<Rc<str>> {
        self.entries.borrow().keys().cloned().collect()
    }

    pub(crate) fn with_entries<T>(&self, look: impl FnOnce(&BTreeMap<Rc<str>, Value>) -> T) -> T {
        look(&self.entries.borrow())
    }
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&Value> {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value)
    }
}

impl From<&serde_json::Value> for Value {
    /// As Kubernetes decodes objects: whole numbers are int64, others float64.
    fn from(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(truth) => Self::Bool(*truth),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Self::int64(whole),
                (None, float) => Self::Float(float.unwrap_or(0.0)),
            },
            serde_json::Value::String(text) => Self::text(text),
            serde_json::Value::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(map) => Self::map(
                map.iter()
                    .map(|(key, value)| (Rc::from(key.as_str()), Self::from(value))),
            ),
        }
    }
}
