//! Ratcheting: matching up a new value with the stored one.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;

use crate::schema::{ListType, Schema};

/// The stored value that a new value is compared with, and the schema that defines how lists are matched.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) schema: &'a Schema,
    pub(super) value: &'a Value,
}

/// The elements of a stored map list, by key.
pub(super) struct MapList<'a> {
    schema: &'a Schema,
    items: &'a Schema,
    by_key: HashMap<String, &'a Value>,
}

impl<'a> MapList<'a> {
    pub(super) fn of(schema: &'a Schema, stored: &'a Value) -> Option<Self> {
        if schema.list_type != ListType::Map {
            return None;
        }
        let items = schema.items()?;
        let mut by_key = HashMap::new();
        for element in stored.as_array()? {
            if let Some(key) = key_of(schema, element) {
                by_key.entry(key).or_insert(element);
            }
        }
        Some(Self {
            schema,
            items,
            by_key,
        })
    }

    pub(super) fn get(&self, element: &Value) -> Option<Old<'a>> {
        let value = *self.by_key.get(&key_of(self.schema, element)?)?;
        Some(Old {
            schema: self.items,
            value,
        })
    }
}

/// The identity of an element; `None` if a key is missing or not a scalar.
fn key_of(schema: &Schema, element: &Value) -> Option<String> {
    let mut key = String::new();
    for name in &schema.list_keys {
        match element.get(name)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                let _ = write!(key, "{scalar},");
            }
        }
    }
    Some(key)
}

/// Whether a value equals the stored one. Elements of map lists may have moved.
pub(super) fn unchanged(old: Old<'_>, new: &Value) -> bool {
    match (old.value, new) {
        (Value::Array(stored), Value::Array(items)) => {
            if stored.len() != items.len() {
                return false;
            }
            match MapList::of(old.schema, old.value) {
                None => stored == items,
                Some(list) => items
                    .iter()
                    .all(|item| list.get(item).is_some_and(|old| unchanged(old, item))),
            }
        }
        (Value::Object(stored), Value::Object(map)) => {
            stored.len() == map.len()
                && map.iter().all(|(name, value)| {
                    let (Some(schema), Some(stored)) =
                        (old.schema.declared(name), stored.get(name))
                    else {
                        return false;
                    };
                    unchanged(
                        Old {
                            schema,
                            value: stored,
                        },
                        value,
                    )
                })
        }
        (stored, new) => stored == new,
    }
}
