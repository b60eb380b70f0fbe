//! From JSON to [`Schema`]: custom resource schemas under the structural rules, built-in definitions leniently.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use polity_core::FieldError;
use regex::Regex;
use serde_json::{Map, Value};

use super::{
    Additional, Checks, ListType, MapType, PatchStrategy, Schema, Type, defaults, format::Format,
    openapi, pattern, structural,
};

/// The schemas of built-in kinds, by definition name.
#[derive(Debug, Default)]
pub struct SchemaSet {
    by_name: BTreeMap<String, Arc<Schema>>,
}

impl SchemaSet {
    /// Parses definitions that refer to each other by `#/definitions/NAME` (or `#/components/schemas/NAME`).
    ///
    /// A reference is the same shared node in every place. Recursion stops at a definition that contains itself: the
    /// inner occurrence accepts any value.
    pub fn from_definitions(definitions: &BTreeMap<String, Value>) -> Self {
        let mut builder = Builder {
            definitions: Some(definitions),
            ..Builder::default()
        };
        for name in definitions.keys() {
            builder.resolve(name);
        }
        Self {
            by_name: builder.done,
        }
    }

    /// The schema called `name`.
    pub fn get(&self, name: &str) -> Option<Arc<Schema>> {
        self.by_name.get(name).cloned()
    }
}

impl Schema {
    /// Reads the `openAPIV3Schema` of a custom resource, enforcing the structural rules and that defaults are valid.
    ///
    /// Paths of errors are relative to the schema: `properties[spec].type`.
    pub fn parse_crd(raw: &Value) -> Result<Schema, Vec<FieldError>> {
        let mut errors = openapi::malformed(raw);
        if !errors.is_empty() {
            return Err(errors);
        }
        let supported = openapi::all_supported(raw);
        if supported {
            errors.extend(structural::check(raw));
        }
        let mut schema = Builder::default().node(raw, false);
        schema.root = true;
        if supported && errors.is_empty() {
            errors.extend(defaults::check(&schema));
        }
        errors.extend(openapi::check(raw));
        if !errors.is_empty() {
            return Err(errors);
        }
        schema.raw = Some(Arc::new(raw.clone()));
        Ok(schema)
    }

    /// Reads a schema without references and without judging it.
    pub(crate) fn lenient(raw: &Value) -> Schema {
        Builder::default().node(raw, false)
    }

    /// The formats this server does not check, each once: the warnings `unrecognized format "x"`.
    pub fn unknown_formats(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        if let Some(raw) = self.to_openapi() {
            openapi::unknown_formats(raw, &mut found);
        }
        found.into_iter().collect()
    }
}

#[derive(Default)]
struct Builder<'a> {
    definitions: Option<&'a BTreeMap<String, Value>>,
    done: BTreeMap<String, Arc<Schema>>,
    in_progress: BTreeSet<String>,
    patterns: HashMap<String, Regex>,
}

impl Builder<'_> {
    fn resolve(&mut self, name: &str) -> Arc<Schema> {
        if let Some(done) = self.done.get(name) {
            return done.clone();
        }
        let Some(raw) = self.definitions.and_then(|all| all.get(name)) else {
            return Arc::new(anything());
        };
        if !self.in_progress.insert(name.to_owned()) {
            return Arc::new(anything());
        }
        let schema = Arc::new(self.node(raw, false));
        self.in_progress.remove(name);
        self.done.insert(name.to_owned(), schema.clone());
        schema
    }

    /// A child node: shared when it is nothing but a reference.
    fn child(&mut self, raw: &Value, open: bool) -> Arc<Schema> {
        if let Some(name) = reference(raw)
            && !overrides(raw)
        {
            return self.resolve(name);
        }
        Arc::new(self.node(raw, open))
    }

    fn node(&mut self, raw: &Value, open: bool) -> Schema {
        let Value::Object(map) = raw else {
            return anything();
        };
        let mut schema = match reference(raw) {
            Some(name) => (*self.resolve(name)).clone(),
            None => self.own(map, open),
        };
        if let Some(text) = map.get("description").and_then(Value::as_str) {
            schema.description = Some(text.to_owned());
        }
        if let Some(default) = map.get("default").filter(|default| !default.is_null()) {
            schema.default = Some(default.clone());
        }
        schema.nullable |= flag(map, "nullable");
        extensions(map, &mut schema);
        schema
    }

    /// The schema of a node without its references.
    fn own(&mut self, map: &Map<String, Value>, open: bool) -> Schema {
        let preserve_unknown = flag(map, "x-kubernetes-preserve-unknown-fields");
        let open = open || preserve_unknown;
        let properties = map.get("properties").and_then(Value::as_object);
        let mut schema = Schema {
            kind: kind(map),
            preserve_unknown,
            open,
            embedded: flag(map, "x-kubernetes-embedded-resource"),
            validations: map
                .get("x-kubernetes-validations")
                .filter(|rules| !is_zero(rules))
                .cloned(),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, raw)| (name.clone(), self.child(raw, open)))
                .collect(),
            additional: match map.get("additionalProperties") {
                None | Some(Value::Null) => Additional::Absent,
                Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
                Some(raw) => Additional::Schema(self.child(raw, open)),
            },
            items: map
                .get("items")
                .filter(|items| items.is_object())
                .map(|raw| self.child(raw, open)),
            ..Schema::default()
        };
        schema.checks = self.checks(map, schema.kind);
        schema
    }

    fn checks(&mut self, map: &Map<String, Value>, kind: Type) -> Option<Box<Checks>> {
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_i64);
        let nested = |this: &mut Self, key: &str| -> Vec<Schema> {
            list(map, key)
                .iter()
                .map(|raw| this.node(raw, false))
                .collect()
        };
        const KEYWORDS: &[&str] = &[
            "format",
            "maximum",
            "minimum",
            "multipleOf",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "maxProperties",
            "minProperties",
            "enum",
            "required",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !KEYWORDS.iter().any(|key| map.contains_key(*key)) {
            return None;
        }
        Some(Box::new(Checks {
            format: text(map, "format").and_then(|name| Format::known(name, kind)),
            maximum: number("maximum"),
            exclusive_maximum: flag(map, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(map, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: text(map, "pattern").and_then(|pattern| self.pattern(pattern)),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            choices: list(map, "enum").to_vec(),
            required: texts(map, "required"),
            all_of: nested(self, "allOf"),
            any_of: nested(self, "anyOf"),
            one_of: nested(self, "oneOf"),
            not: map
                .get("not")
                .filter(|not| not.is_object())
                .map(|raw| Box::new(self.node(raw, false))),
        }))
    }

    fn pattern(&mut self, text: &str) -> Option<(String, Regex)> {
        if let Some(compiled) = self.patterns.get(text) {
            return Some((text.to_owned(), compiled.clone()));
        }
        let compiled = pattern::compile(text).ok()?;
        self.patterns.insert(text.to_owned(), compiled.clone());
        Some((text.to_owned(), compiled))
    }
}

/// A node that takes and keeps anything.
fn anything() -> Schema {
    Schema {
        preserve_unknown: true,
        open: true,
        ..Schema::default()
    }
}

/// The definition a node refers to, directly or as the only member of `allOf`.
fn reference(raw: &Value) -> Option<&str> {
    let direct = raw
        .get("$ref")
        .or_else(|| match raw.get("allOf")?.as_array()?.as_slice() {
            [only] => only.get("$ref"),
            _ => None,
        });
    direct?.as_str()?.rsplit('/').next()
}

/// Whether a node with a reference has other keywords too.
fn overrides(raw: &Value) -> bool {
    raw.as_object()
        .is_some_and(|map| map.keys().any(|key| key != "$ref" && key != "allOf"))
}

fn kind(map: &Map<String, Value>) -> Type {
    if flag(map, "x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match (text(map, "type").unwrap_or_default(), text(map, "format")) {
        // How the built-in definitions spell an IntOrString.
        ("string", Some("int-or-string")) => Type::IntOrString,
        ("object", _) => Type::Object,
        ("array", _) => Type::Array,
        ("string", _) => Type::String,
        ("integer", _) => Type::Integer,
        ("number", _) => Type::Number,
        ("boolean", _) => Type::Boolean,
        _ => Type::Any,
    }
}

fn extensions(map: &Map<String, Value>, schema: &mut Schema) {
    if let Some(strategy) = text(map, "x-kubernetes-patch-strategy") {
        let has = |part| strategy.split(',').any(|one| one == part);
        schema.patch_strategy = PatchStrategy {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
        };
    }
    if let Some(key) = text(map, "x-kubernetes-patch-merge-key") {
        schema.patch_merge_key = Some(key.to_owned());
    }
    match text(map, "x-kubernetes-list-type") {
        Some("atomic") => schema.list_type = ListType::Atomic,
        Some("set") => schema.list_type = ListType::Set,
        Some("map") => {
            schema.list_type = ListType::Map;
            schema.list_keys = texts(map, "x-kubernetes-list-map-keys");
        }
        // Older definitions describe merged lists only to strategic merge; apply reads the same hint.
        _ if schema.kind == Type::Array
            && schema.patch_strategy.merge
            && schema.list_type == ListType::Unset =>
        {
            schema.list_keys = schema.patch_merge_key.iter().cloned().collect();
            schema.list_type = if schema.list_keys.is_empty() {
                ListType::Set
            } else {
                ListType::Map
            };
        }
        _ => {}
    }
    match text(map, "x-kubernetes-map-type") {
        Some("atomic") => schema.map_type = MapType::Atomic,
        Some("granular") => schema.map_type = MapType::Granular,
        _ => {}
    }
}

pub(super) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

pub(super) fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn list<'a>(map: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    map.get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    list(map, key)
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Whether a keyword's value is the same as leaving the keyword out.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
