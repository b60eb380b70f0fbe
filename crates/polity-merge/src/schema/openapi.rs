//! The rules for OpenAPI keywords in the schema of a custom resource: supported keywords, lists and maps.

use std::collections::BTreeSet;

use polity_core::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value, json};

use super::Type;
use super::format::Format;
use super::parse::{flag, is_zero, list, text, texts};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Keywords whose value has the wrong JSON type; such a schema is not checked further.
pub(super) fn malformed(raw: &Value) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    malformed_node(raw, &FieldPath::root(), &mut errors);
    errors.into_vec()
}

fn malformed_node(raw: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Value::Object(map) = raw else {
        errors.push(FieldError::invalid(path, raw, "must be a schema object"));
        return;
    };
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let at = path.child(key);
        let (fits, wanted) = match key.as_str() {
            "type"
            | "format"
            | "pattern"
            | "description"
            | "title"
            | "x-kubernetes-list-type"
            | "x-kubernetes-map-type" => (value.is_string(), "must be a string"),
            "nullable"
            | "uniqueItems"
            | "exclusiveMaximum"
            | "exclusiveMinimum"
            | "x-kubernetes-preserve-unknown-fields"
            | "x-kubernetes-embedded-resource"
            | "x-kubernetes-int-or-string" => (value.is_boolean(), "must be a boolean"),
            "maximum" | "minimum" | "multipleOf" => (value.is_number(), "must be a number"),
            "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties"
            | "minProperties" => (value.is_i64(), "must be an integer"),
            "required" | "x-kubernetes-list-map-keys" => {
                let fits = value
                    .as_array()
                    .is_some_and(|items| items.iter().all(Value::is_string));
                (fits, "must be a list of strings")
            }
            "enum" | "allOf" | "anyOf" | "oneOf" | "x-kubernetes-validations" => {
                (value.is_array(), "must be a list")
            }
            "properties" => (value.is_object(), "must be an object"),
            _ => (true, ""),
        };
        if !fits {
            errors.push(FieldError::invalid(&at, value, wanted));
            continue;
        }
        match key.as_str() {
            "allOf" | "anyOf" | "oneOf" => {
                for (index, branch) in list(map, key).iter().enumerate() {
                    malformed_node(branch, &at.index(index), errors);
                }
            }
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    malformed_node(property, &at.key(name), errors);
                }
            }
            "additionalProperties" if !value.is_boolean() => malformed_node(value, &at, errors),
            "not" => malformed_node(value, &at, errors),
            "items" if !value.is_array() => malformed_node(value, &at, errors),
            _ => {}
        }
    }
}

/// Whether nothing unsupported is used; structural checks make sense only then.
pub(super) fn all_supported(raw: &Value) -> bool {
    let Value::Object(map) = raw else { return true };
    let banned = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    !banned
        .iter()
        .any(|key| map.get(*key).is_some_and(|value| !is_zero(value)))
        && !map
            .get("items")
            .is_some_and(|items| items.is_array() && !is_zero(items))
        && map.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(false))
        && children(map).all(all_supported)
}

/// The formats nothing here checks.
pub(super) fn unknown_formats(raw: &Value, found: &mut BTreeSet<String>) {
    let Value::Object(map) = raw else { return };
    if let Some(format) = text(map, "format") {
        let kind = match text(map, "type") {
            None | Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some(_) => Type::Object,
        };
        if Format::known(format, kind).is_none() {
            found.insert(format.to_owned());
        }
    }
    for child in children(map) {
        unknown_formats(child, found);
    }
}

fn children(map: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let properties = map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::values);
    let single = ["items", "additionalProperties", "not"]
        .into_iter()
        .filter_map(|key| map.get(key));
    let several = ["allOf", "anyOf", "oneOf"]
        .into_iter()
        .flat_map(|key| list(map, key));
    properties.chain(single).chain(several)
}

/// The context of the part of a schema that is being checked.
#[derive(Clone, Copy, Default)]
struct Context {
    forbidden_default: Option<&'static str>,
    inside_metadata: bool,
    root: bool,
}

/// Checks the keywords of every node.
pub(super) fn check(raw: &Value) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let Value::Object(map) = raw {
        if flag(map, "nullable") {
            errors.push(FieldError::forbidden(
                &FieldPath::of("nullable"),
                "nullable cannot be true at the root",
            ));
        }
        node(
            map,
            &FieldPath::root(),
            Context {
                root: true,
                ..Context::default()
            },
            &mut errors,
        );
    }
    errors.into_vec()
}

fn node(map: &Map<String, Value>, path: &FieldPath, context: Context, errors: &mut FieldErrors) {
    keywords(map, path, context, errors);
    let inner = Context {
        root: false,
        ..context
    };
    let properties = map
        .get("properties")
        .and_then(Value::as_object)
        .filter(|properties| !properties.is_empty());
    if let Some(additional) = map
        .get("additionalProperties")
        .filter(|value| !value.is_null())
    {
        let at = path.child("additionalProperties");
        if properties.is_some() && *additional != Value::Bool(true) {
            errors.push(FieldError::forbidden(
                &at,
                "additionalProperties and properties are mutual exclusive",
            ));
        }
        let mut inner = inner;
        if context.inside_metadata {
            inner.forbidden_default =
                Some("inside additionalProperties applying to object metadata");
        }
        if let Value::Object(additional) = additional {
            node(additional, &at, inner, errors);
        }
    }
    let resource = context.root || flag(map, "x-kubernetes-embedded-resource");
    for (name, property) in properties.into_iter().flatten() {
        let mut inner = inner;
        let implied = match name.as_str() {
            "metadata" => Some("in top-level metadata"),
            "kind" => Some("in top-level kind"),
            "apiVersion" => Some("in top-level apiVersion"),
            _ => None,
        };
        if resource && implied.is_some() {
            inner.inside_metadata = true;
            if context.root {
                inner.forbidden_default = implied;
            }
        }
        if let Value::Object(property) = property {
            node(property, &path.child("properties").key(name), inner, errors);
        }
    }
    if let Some(not) = map.get("not").and_then(Value::as_object) {
        node(not, &path.child("not"), inner, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, branch) in list(map, key).iter().enumerate() {
            if let Value::Object(branch) = branch {
                node(branch, &path.child(key).index(index), inner, errors);
            }
        }
    }
    if let Some(items) = map.get("items").and_then(Value::as_object) {
        node(items, &path.child("items"), inner, errors);
    }
    lists_and_maps(map, path, errors);
    map_list_keys(map, path, errors);
}

fn keywords(
    map: &Map<String, Value>,
    path: &FieldPath,
    context: Context,
    errors: &mut FieldErrors,
) {
    let given = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
    let forbid = |errors: &mut FieldErrors, key: &str, detail: &str| {
        errors.push(FieldError::forbidden(&path.child(key), detail));
    };
    let kind = text(map, "type").unwrap_or_default();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(
            &path.child("type"),
            &json!(kind),
            TYPES,
        ));
    }
    if given("default")
        && let Some(reason) = context.forbidden_default
    {
        forbid(errors, "default", &format!("must not be set {reason}"));
    }
    for key in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if map.get(key).is_some_and(|value| !is_zero(value)) {
            forbid(errors, key, &format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        forbid(
            errors,
            "type",
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if map
        .get("items")
        .is_some_and(|items| items.is_array() && !is_zero(items))
    {
        forbid(
            errors,
            "items",
            "items must be a schema object and not an array",
        );
    }
    if context.inside_metadata && flag(map, "x-kubernetes-embedded-resource") {
        forbid(
            errors,
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        );
    }
    if flag(map, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid(errors, "uniqueItems", detail);
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(
            &at,
            &json!(false),
            "must be true or undefined",
        ));
    }
}

/// `x-kubernetes-map-type`, `x-kubernetes-list-type` and the keys of map lists.
fn lists_and_maps(map: &Map<String, Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = text(map, "type").unwrap_or_default();
    let at = |key: &str| path.child(key);
    let map_type = text(map, "x-kubernetes-map-type");
    let list_type = text(map, "x-kubernetes-list-type");
    let must_be = |errors: &mut FieldErrors, wanted: &str, extension: &str| {
        let detail = format!("must be {wanted} if {extension} is specified");
        errors.push(if kind.is_empty() {
            FieldError::required(&at("type"), &detail)
        } else {
            FieldError::invalid(&at("type"), &json!(kind), &detail)
        });
    };
    if let Some(map_type) = map_type {
        if kind != "object" {
            must_be(errors, "object", "x-kubernetes-map-type");
        }
        if !["atomic", "granular"].contains(&map_type) {
            let key = at("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(
                &key,
                &json!(map_type),
                &["atomic", "granular"],
            ));
        }
    }
    let items = map.get("items").and_then(Value::as_object);
    if let Some(list_type) = list_type {
        if kind != "array" {
            must_be(errors, "array", "x-kubernetes-list-type");
        } else if let Some(items) = items.filter(|_| list_type == "set") {
            let item_type = |key| text(items, key);
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let wrong = match text(items, "type") {
                Some("array")
                    if item_type("x-kubernetes-list-type")
                        .is_some_and(|inner| inner != "atomic") =>
                {
                    Some("x-kubernetes-list-type")
                }
                Some("object") if item_type("x-kubernetes-map-type") != Some("atomic") => {
                    Some("x-kubernetes-map-type")
                }
                _ => None,
            };
            if let Some(key) = wrong {
                // The real server shows the list type in both cases.
                let shown = items
                    .get("x-kubernetes-list-type")
                    .cloned()
                    .unwrap_or(Value::Null);
                errors.push(FieldError::invalid(&at("items").child(key), &shown, detail));
            }
        }
        if !["atomic", "set", "map"].contains(&list_type) {
            let key = at("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(
                &key,
                &json!(list_type),
                &["atomic", "set", "map"],
            ));
        }
    }
    let keys = texts(map, "x-kubernetes-list-map-keys");
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let key = at("x-kubernetes-list-type");
        errors.push(match list_type {
            None => FieldError::required(&key, detail),
            Some(other) => FieldError::invalid(&key, &json!(other), detail),
        });
    }
    if list_type == Some("map") {
        map_list(map, &keys, path, errors);
    }
}

fn map_list(map: &Map<String, Value>, keys: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    let keys_at = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(
            &keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let items_at = path.child("items");
    let Some(items) = map.get("items").and_then(Value::as_object) else {
        errors.push(FieldError::required(
            &items_at,
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return;
    };
    let item_type = text(items, "type").unwrap_or_default();
    if item_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(
            &items_at.child("type"),
            &json!(item_type),
            detail,
        ));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in keys {
        match items
            .get("properties")
            .and_then(|properties| properties.get(key))
            .and_then(Value::as_object)
        {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_at, &json!(keys), detail));
            }
            Some(property) if matches!(text(property, "type"), Some("array" | "object")) => {
                let at = items_at.child("properties").key(key).child("type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&at, &json!(item_type), detail));
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(
                &keys_at,
                &json!(keys),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Elements of sets and map lists are never null, and map keys always have a value.
fn map_list_keys(map: &Map<String, Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(list_type @ ("set" | "map")) = text(map, "x-kubernetes-list-type") else {
        return;
    };
    let Some(items) = map.get("items").and_then(Value::as_object) else {
        return;
    };
    let items_at = path.child("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_at.child("nullable"), &detail));
    }
    if list_type != "map" {
        return;
    }
    let required = texts(items, "required");
    for key in texts(map, "x-kubernetes-list-map-keys") {
        let Some(property) = items
            .get("properties")
            .and_then(|all| all.get(&key))
            .and_then(Value::as_object)
        else {
            continue;
        };
        let at = items_at.child("properties").key(&key);
        if !required.contains(&key) && property.get("default").is_none_or(Value::is_null) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                          required property";
            errors.push(FieldError::required(&at.child("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
}
