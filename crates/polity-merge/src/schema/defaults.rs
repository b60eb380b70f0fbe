//! Defaulting: missing fields get a copy of their default, nulls that may not stay go.

use polity_core::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value, json};

use super::{Additional, Schema, embedded, prune, validate::schema_errors, validate::validate_at};

/// Drops nulls that are not allowed and have no default, then fills in defaults, all the way down.
pub fn default(schema: &Schema, value: &mut Value) {
    drop_nulls(schema, value);
    fill(schema, value);
}

fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let Some(field) = schema.declared(key) else {
                return true;
            };
            if value.is_null() && !field.nullable && field.default.is_none() {
                return false;
            }
            drop_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for item in items {
                    drop_nulls(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => fill_object(schema, map),
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for item in items {
                    replace_null(schema, item);
                    fill(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn fill_object(schema: &Schema, map: &mut Map<String, Value>) {
    for (name, property) in &schema.properties {
        let Some(default) = &property.default else {
            continue;
        };
        match map.get_mut(name) {
            None => {
                map.insert(name.clone(), default.clone());
            }
            Some(value) => replace_null(property, value),
        }
    }
    for (name, value) in map {
        if let Some(property) = schema.properties.get(name) {
            fill(property, value);
        } else if let Additional::Schema(additional) = &schema.additional {
            replace_null(additional, value);
            fill(additional, value);
        }
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        value.clone_from(default);
    }
}

/// Checks that every default in a custom resource's schema is a value the schema accepts and keeps.
pub(super) fn check(schema: &Schema) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    check_node(schema, &FieldPath::root(), None, &mut errors);
    errors.into_vec()
}

/// Inside apiVersion, kind and metadata a default is validated as part of the object it would complete.
#[derive(Clone)]
struct InsideMetadata<'a> {
    resource: &'a Schema,
    keys: Vec<&'a str>,
}

fn check_node(
    schema: &Schema,
    path: &FieldPath,
    inside: Option<&InsideMetadata<'_>>,
    errors: &mut FieldErrors,
) {
    if let Some(default) = &schema.default {
        errors.extend(check_default(
            schema,
            default,
            &path.child("default"),
            inside,
        ));
    }
    if let Some(items) = schema.items() {
        check_node(items, &path.child("items"), None, errors);
    }
    for (name, property) in &schema.properties {
        let at = path.child("properties").key(name);
        let inner = match inside.filter(|_| !schema.embedded) {
            Some(outer) => {
                let mut inner = outer.clone();
                inner.keys.push(name);
                Some(inner)
            }
            None if schema.is_resource()
                && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") =>
            {
                Some(InsideMetadata {
                    resource: schema,
                    keys: vec![name],
                })
            }
            None => None,
        };
        check_node(property, &at, inner.as_ref(), errors);
    }
}

fn check_default(
    schema: &Schema,
    default: &Value,
    path: &FieldPath,
    inside: Option<&InsideMetadata<'_>>,
) -> Vec<FieldError> {
    if let Some(inside) = inside {
        let mut object = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        let nested = inside
            .keys
            .iter()
            .rev()
            .fold(default.clone(), |value, key| json!({*key: value}));
        if let (Value::Object(object), Value::Object(nested)) = (&mut object, nested) {
            object.extend(nested);
        }
        let found = embedded::check_resource(inside.resource, &object);
        if !found.is_empty() {
            let detail = format!(
                "must result in valid metadata: {}",
                polity_core::field::join(&found)
            );
            return vec![FieldError::invalid(path, default, &detail)];
        }
        return schema_errors(schema, default, path);
    }
    let mut errors = Vec::new();
    let mut pruned = default.clone();
    if !prune(schema, &mut pruned).is_empty() {
        errors.push(FieldError::invalid(
            path,
            default,
            "must not have unknown fields",
        ));
    }
    errors.extend(validate_at(schema, default, path));
    errors
}
