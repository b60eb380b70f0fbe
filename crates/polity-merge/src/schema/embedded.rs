//! Objects inside objects (C22): an embedded resource has an apiVersion, a kind and well-formed metadata.

use polity_core::{FieldError, FieldPath, name};
use serde_json::{Map, Value, json};

use super::{Additional, Schema};

/// Checks every embedded resource below `value`.
pub(super) fn check(
    schema: &Schema,
    value: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                resource(map, path, errors);
            }
            for (key, value) in map
                .iter()
                .filter(|(_, value)| value.is_object() || value.is_array())
            {
                if let Some(property) = schema.properties.get(key) {
                    check(property, value, &path.child(key), errors);
                } else if let Additional::Schema(additional) = &schema.additional {
                    check(additional, value, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for (index, item) in items
                    .iter()
                    .enumerate()
                    .filter(|(_, item)| item.is_object() || item.is_array())
                {
                    check(schema, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// Checks `object` as a resource, whatever its schema says about being one, and what is embedded in it.
pub(super) fn check_resource(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Value::Object(map) = object
        && !schema.embedded
    {
        resource(map, &FieldPath::root(), &mut errors);
    }
    check(schema, object, &FieldPath::root(), &mut errors);
    errors
}

fn resource(map: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let at = path.child(key);
        match map.get(key) {
            None => errors.push(FieldError::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&at, &json!(""), "must not be empty"));
            }
            Some(Value::String(text)) => {
                if let Some(detail) = if key == "kind" {
                    wrong_kind(text)
                } else {
                    wrong_api_version(text)
                } {
                    errors.push(FieldError::invalid(&at, &json!(text), &detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(&at, other, "must be a string")),
        }
    }
    match map.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => check_metadata(metadata, &path.child("metadata"), errors),
        Some(other) => {
            errors.push(FieldError::invalid(
                &path.child("metadata"),
                other,
                "must be an object",
            ));
        }
    }
}

fn wrong_api_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn wrong_kind(text: &str) -> Option<String> {
    let wrong = name::dns_1035_label(&text.to_lowercase()).err()?;
    Some(format!(
        "may have mixed case, but should otherwise match: {}",
        wrong.join(",")
    ))
}

fn check_metadata(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut text_fields = |key: &str, check: fn(&str) -> name::Check| {
        let at = path.child(key);
        match metadata.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => {
                for detail in check(text).err().into_iter().flatten() {
                    errors.push(FieldError::invalid(&at, &json!(text), &detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(&at, other, "must be a string")),
        }
    };
    text_fields("generateName", name::path_segment_prefix);
    text_fields("name", name::path_segment);
    text_fields("namespace", name::dns_label);
    text_map(
        metadata,
        "labels",
        path,
        errors,
        |key, value, at, errors| {
            for detail in name::qualified_name(key).err().into_iter().flatten() {
                errors.push(FieldError::invalid(at, &json!(key), &detail));
            }
            for detail in name::label_value(value).err().into_iter().flatten() {
                errors.push(FieldError::invalid(at, &json!(value), &detail));
            }
        },
    );
    text_map(
        metadata,
        "annotations",
        path,
        errors,
        |key, _, at, errors| {
            for detail in name::annotation_key(key).err().into_iter().flatten() {
                errors.push(FieldError::invalid(at, &json!(key), &detail));
            }
        },
    );
}

fn text_map(
    metadata: &Map<String, Value>,
    key: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
    check: impl Fn(&str, &str, &FieldPath, &mut Vec<FieldError>),
) {
    let at = path.child(key);
    match metadata.get(key) {
        None | Some(Value::Null) => {}
        Some(Value::Object(map)) => {
            for (name, value) in map {
                match value {
                    Value::String(value) => check(name, value, &at, errors),
                    other => errors.push(FieldError::invalid(
                        &at.key(name),
                        other,
                        "must be a string",
                    )),
                }
            }
        }
        Some(other) => errors.push(FieldError::invalid(
            &at,
            other,
            "must be an object of strings",
        )),
    }
}
