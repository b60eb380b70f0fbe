//! Lists that are sets or maps hold every element once.

use std::collections::HashMap;

use polity_core::field::MAX_ERRORS;
use polity_core::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

use super::{Additional, ListType, Schema};
use crate::text::shown;

/// The duplicates in the sets and map lists below `value`.
pub(super) fn check(
    schema: &Schema,
    value: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if errors.len() >= MAX_ERRORS {
        return;
    }
    match value {
        Value::Object(map) => check_object(schema, map, path, errors),
        Value::Array(items) => {
            match schema.list_type {
                ListType::Set => duplicates(items.iter().map(Value::to_string), |index| {
                    errors.push(duplicate(&path.index(index), &items[index]));
                }),
                ListType::Map => check_map_list(schema, items, path, errors),
                ListType::Unset | ListType::Atomic => {}
            }
            if let Some(schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    if item.is_object() || item.is_array() {
                        check(schema, item, &path.index(index), errors);
                    }
                }
            }
        }
        _ => {}
    }
}

fn check_object(
    schema: &Schema,
    map: &Map<String, Value>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    for (key, value) in map
        .iter()
        .filter(|(_, value)| value.is_object() || value.is_array())
    {
        if let Additional::Schema(additional) = &schema.additional {
            check(additional, value, &path.key(key), errors);
        }
        if let Some(property) = schema.properties.get(key) {
            check(property, value, &path.child(key), errors);
        }
    }
}

fn check_map_list(
    schema: &Schema,
    items: &[Value],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if let Some(index) = items
        .iter()
        .position(|item| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        let message = format!("Invalid value: {}: {detail}", shown(&items[index]));
        let field = path.index(index).to_string();
        errors.push(FieldError {
            kind: FieldErrorKind::Invalid,
            field,
            message,
        });
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| Value::Object(element_key(schema, item)))
        .collect();
    duplicates(keys.iter().map(Value::to_string), |index| {
        errors.push(duplicate(&path.index(index), &keys[index]));
    });
}

/// The key fields an element of a map list has.
fn element_key(schema: &Schema, element: &Value) -> Map<String, Value> {
    schema
        .list_keys
        .iter()
        .filter_map(|key| Some((key.clone(), element.get(key)?.clone())))
        .collect()
}

/// Calls `found` with the index of the second occurrence of each repeated text.
fn duplicates(texts: impl Iterator<Item = String>, mut found: impl FnMut(usize)) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut n_found = 0;
    for (index, text) in texts.enumerate() {
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 && n_found < MAX_ERRORS {
            n_found += 1;
            found(index);
        }
    }
}

fn duplicate(path: &FieldPath, value: &Value) -> FieldError {
    let message = format!("Duplicate value: {}", shown(value));
    FieldError {
        kind: FieldErrorKind::Duplicate,
        field: path.to_string(),
        message,
    }
}
