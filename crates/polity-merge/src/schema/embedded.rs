//! Objects inside objects: an embedded resource has an apiVersion, a kind and well-formed metadata.

use polity_core::field::MAX_ERRORS;
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
    if errors.len() >= MAX_ERRORS {
        return;
    }
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

/// Checks `object` as a resource, regardless of its schema, and the resources embedded in it.
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
    let Some(metadata) = map.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return;
    };
    let at = path.child("metadata");
    match (undecodable(metadata), metadata) {
        (Some(detail), metadata) => errors.push(FieldError::invalid(&at, metadata, &detail)),
        (None, Value::Object(metadata)) => check_metadata(metadata, &at, errors),
        (None, _) => {}
    }
}

/// Why metadata is invalid, with the messages of the real server's decoder.
fn undecodable(metadata: &Value) -> Option<String> {
    let Value::Object(metadata) = metadata else {
        let found = json_type(metadata);
        return Some(format!(
            "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
        ));
    };
    let wrong = |field: &str, value: &Value, wanted: &str| {
        let found = json_type(value);
        Some(format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}"
        ))
    };
    metadata
        .iter()
        .filter(|(_, value)| !value.is_null())
        .find_map(|(key, value)| match (key.as_str(), value) {
            (
                "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink",
                Value::String(_),
            ) => None,
            ("name" | "generateName" | "namespace" | "resourceVersion" | "selfLink", other) => {
                wrong(key, other, "string")
            }
            ("uid", other) => wrong(key, other, "types.UID"),
            ("labels" | "annotations", Value::Object(entries)) => entries
                .values()
                .find(|value| !value.is_string() && !value.is_null())
                .and_then(|value| wrong(key, value, "string")),
            ("labels" | "annotations", other) => wrong(key, other, "map[string]string"),
            ("finalizers", Value::Array(items)) => items
                .iter()
                .find(|item| !item.is_string() && !item.is_null())
                .and_then(|item| wrong(key, item, "string")),
            ("finalizers", other) => wrong(key, other, "[]string"),
            _ => None,
        })
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
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

/// Checks metadata that decodes.
fn check_metadata(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut complain = |at: &FieldPath, text: &str, check: name::Check| {
        for detail in check.err().into_iter().flatten() {
            errors.push(FieldError::invalid(at, &json!(text), &detail));
        }
    };
    for key in ["generateName", "name", "namespace"] {
        let text = metadata
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        let check = match key {
            "generateName" => name::path_segment_prefix(text),
            "name" => name::path_segment(text),
            _ => name::dns_label(text),
        };
        complain(&path.child(key), text, check);
    }
    let entries = |key: &str| {
        metadata
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    for (key, value) in entries("labels") {
        let at = path.child("labels");
        complain(&at, key, name::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        complain(&at, value, name::label_value(value));
    }
    for (key, _) in entries("annotations") {
        complain(&path.child("annotations"), key, name::annotation_key(key));
    }
}
