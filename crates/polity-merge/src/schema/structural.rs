//! The structural rules: types outside the logical junctors, value checks inside them.

use polity_core::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value, json};

use super::parse::{flag, is_zero, list, text};
use super::pattern;

/// The position of a node; the message about a missing type depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks the structural rules, sorted by text as the real server sorts them.
pub(super) fn check(raw: &Value) -> Vec<FieldError> {
    let mut rules = Rules::default();
    if let Value::Object(root) = raw {
        rules.node(root, Level::Root, &FieldPath::root());
        rules.complete(root, Some(root), &FieldPath::root(), &FieldPath::root());
    }
    let mut errors = rules.errors.into_vec();
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

#[derive(Default)]
struct Rules {
    errors: FieldErrors,
}

impl Rules {
    fn required(&mut self, path: &FieldPath, detail: &str) {
        self.errors.push(FieldError::required(path, detail));
    }

    fn forbidden(&mut self, path: &FieldPath, detail: &str) {
        self.errors.push(FieldError::forbidden(path, detail));
    }

    fn invalid(&mut self, path: &FieldPath, value: &Value, detail: &str) {
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    fn node(&mut self, node: &Map<String, Value>, level: Level, path: &FieldPath) {
        let kind = text(node, "type").unwrap_or_default();
        let embedded = flag(node, "x-kubernetes-embedded-resource");
        let int_or_string = flag(node, "x-kubernetes-int-or-string");
        let preserve = flag(node, "x-kubernetes-preserve-unknown-fields");
        let properties = node.get("properties").and_then(Value::as_object);

        match node.get("items").and_then(Value::as_object) {
            None if kind == "array" => self.required(&path.child("items"), "must be specified"),
            None => {}
            Some(items) => self.node(items, Level::Item, &path.child("items")),
        }
        for (name, property) in properties.into_iter().flatten() {
            if let Value::Object(property) = property {
                self.node(property, Level::Field, &path.child("properties").key(name));
            }
        }
        if let Some(additional) = node
            .get("additionalProperties")
            .filter(|value| !value.is_null())
        {
            let at = path.child("additionalProperties");
            if level == Level::Root {
                self.forbidden(&at, "must not be used at the root");
            }
            if let Value::Object(additional) = additional {
                self.node(additional, Level::Field, &at);
            }
            if embedded {
                self.forbidden(
                    &at,
                    "must not be used if x-kubernetes-embedded-resource is set",
                );
            }
        }
        if int_or_string && preserve {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            self.invalid(
                &at,
                &json!(true),
                "must be false if x-kubernetes-int-or-string is true",
            );
        }
        if int_or_string && embedded {
            let at = path.child("x-kubernetes-embedded-resource");
            self.invalid(
                &at,
                &json!(true),
                "must be false if x-kubernetes-int-or-string is true",
            );
        }

        let skip_any_of = is_int_or_string_any_of(node);
        let skip_first = list(node, "allOf")
            .first()
            .and_then(Value::as_object)
            .is_some_and(is_int_or_string_any_of);
        self.junctors(node, skip_any_of, skip_first, path);
        self.types(node, level, path);
        if embedded && !preserve && properties.is_none_or(Map::is_empty) {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.required(&path.child("properties"), detail);
        }
    }

    /// The rules about a node's own type and about apiVersion, kind and metadata.
    fn types(&mut self, node: &Map<String, Value>, level: Level, path: &FieldPath) {
        let kind = text(node, "type").unwrap_or_default();
        let at = path.child("type");
        let embedded = flag(node, "x-kubernetes-embedded-resource");
        let untyped = flag(node, "x-kubernetes-int-or-string")
            || flag(node, "x-kubernetes-preserve-unknown-fields");
        if embedded && kind != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            if kind.is_empty() {
                self.required(&at, detail);
            } else {
                self.invalid(&at, &json!(kind), detail);
            }
        } else if kind.is_empty() && !untyped {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(&at, detail);
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.invalid(&at, &json!(kind), "must be object at the root");
        }

        let resource = level == Level::Root || embedded;
        let property = |name: &str| node.get("properties")?.get(name)?.as_object();
        let properties = path.child("properties");
        for name in ["kind", "apiVersion"] {
            if let Some(found) = property(name).filter(|_| resource) {
                let kind = text(found, "type").unwrap_or_default();
                if kind != "string" {
                    self.invalid(
                        &properties.key(name).child("type"),
                        &json!(kind),
                        "must be string",
                    );
                }
            }
        }
        if let Some(metadata) = property("metadata") {
            let at = properties.key("metadata");
            let kind = text(metadata, "type").unwrap_or_default();
            if resource && kind != "object" {
                self.invalid(&at.child("type"), &json!(kind), "must be object");
            }
            if level == Level::Root && !restricts_only_names(metadata) {
                let detail = "must not specify anything other than name and generateName, but metadata is \
                              implicitly specified";
                self.forbidden(&at, detail);
            }
        }
    }

    fn junctors(
        &mut self,
        node: &Map<String, Value>,
        skip_any_of: bool,
        skip_first: bool,
        path: &FieldPath,
    ) {
        if !skip_any_of {
            self.nested_list(node, "anyOf", false, path);
        }
        self.nested_list(node, "allOf", skip_first, path);
        self.nested_list(node, "oneOf", false, path);
        if let Some(not) = node.get("not").and_then(Value::as_object) {
            self.nested(not, false, &path.child("not"));
        }
        if let Some(text) = text(node, "pattern")
            && let Err(error) = pattern::compile(text)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(&path.child("pattern"), &json!(text), &detail);
        }
    }

    fn nested_list(
        &mut self,
        node: &Map<String, Value>,
        key: &str,
        skip_first_any_of: bool,
        path: &FieldPath,
    ) {
        for (index, branch) in list(node, key).iter().enumerate() {
            if let Value::Object(branch) = branch {
                self.nested(
                    branch,
                    skip_first_any_of && index == 0,
                    &path.child(key).index(index),
                );
            }
        }
    }

    /// A node under a logical junctor: value checks only.
    fn nested(&mut self, node: &Map<String, Value>, skip_any_of: bool, path: &FieldPath) {
        self.junctors(node, skip_any_of, false, path);
        if let Some(items) = node.get("items").and_then(Value::as_object) {
            self.nested(items, false, &path.child("items"));
        }
        for (name, property) in node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let at = path.child("properties").key(name);
            if let Value::Object(property) = property {
                self.nested(property, false, &at);
            }
            if name == "metadata" {
                self.forbidden(&at, "must not be specified in a nested context");
            }
        }
        const BANNED: &[(&str, &str)] = &[
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            (
                "x-kubernetes-preserve-unknown-fields",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-embedded-resource",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-int-or-string",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-list-map-keys",
                "must be empty to be structural",
            ),
            (
                "x-kubernetes-list-type",
                "must be undefined to be structural",
            ),
            (
                "x-kubernetes-map-type",
                "must be undefined to be structural",
            ),
            ("x-kubernetes-validations", "must be empty to be structural"),
        ];
        for (key, detail) in BANNED {
            let given = match (*key, node.get(*key)) {
                ("default" | "additionalProperties", Some(value)) => {
                    !value.is_null() && *value != Value::Bool(false)
                }
                (_, Some(value)) => !is_zero(value),
                (_, None) => false,
            };
            if given {
                self.forbidden(&path.child(key), detail);
            }
        }
    }

    /// Every field a junctor mentions must exist outside of junctors too.
    fn complete(
        &mut self,
        checks: &Map<String, Value>,
        node: Option<&Map<String, Value>>,
        at: &FieldPath,
        seen_at: &FieldPath,
    ) {
        for key in ["allOf", "anyOf", "oneOf"] {
            for (index, branch) in list(checks, key).iter().enumerate() {
                if let Value::Object(branch) = branch {
                    self.nested_complete(branch, node, at, &seen_at.child(key).index(index));
                }
            }
        }
        if let Some(not) = checks.get("not").and_then(Value::as_object) {
            self.nested_complete(not, node, at, &seen_at.child("not"));
        }
    }

    fn nested_complete(
        &mut self,
        checks: &Map<String, Value>,
        node: Option<&Map<String, Value>>,
        at: &FieldPath,
        seen_at: &FieldPath,
    ) {
        let Some(node) = node else {
            self.required(at, &format!("because it is defined in {seen_at}"));
            return;
        };
        self.complete(checks, Some(node), at, seen_at);
        if let Some(items) = checks.get("items").and_then(Value::as_object) {
            let own = node.get("items").and_then(Value::as_object);
            self.nested_complete(items, own, &at.child("items"), &seen_at.child("items"));
        }
        for (name, property) in checks
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let (at, seen_at) = (
                at.child("properties").key(name),
                seen_at.child("properties").key(name),
            );
            let own = node
                .get("properties")
                .and_then(|properties| properties.get(name))
                .and_then(Value::as_object);
            match property {
                Value::Object(property) => self.nested_complete(property, own, &at, &seen_at),
                _ if own.is_none() => {
                    self.required(&at, &format!("because it is defined in {seen_at}"));
                }
                _ => {}
            }
        }
    }
}

/// The one position where `anyOf` may contain types.
fn is_int_or_string_any_of(node: &Map<String, Value>) -> bool {
    node.get("anyOf")
        .is_some_and(|any_of| *any_of == json!([{"type": "integer"}, {"type": "string"}]))
}

fn restricts_only_names(metadata: &Map<String, Value>) -> bool {
    metadata.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "not" | "items" | "additionalProperties" => value.is_null(),
        "properties" => value.as_object().is_none_or(|fields| {
            fields
                .keys()
                .all(|name| name == "name" || name == "generateName")
        }),
        _ => is_zero(value),
    })
}
