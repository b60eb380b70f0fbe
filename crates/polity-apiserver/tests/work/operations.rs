//! The operations on a request body.

use std::sync::LazyLock;

use polity_apiserver::request::body;
use polity_core::field::join;
use polity_merge::apply::{self, ApplyInput, UpdateInput};
use polity_merge::fields::FieldSet;
use polity_merge::patch;
use polity_merge::schema::{self, Schema};
use serde_json::{Value, json};

type Operation = fn(&[u8]);

pub(crate) const OPERATIONS: [(&str, Operation); 10] = [
    ("decoding JSON", decode_json),
    ("decoding YAML", decode_yaml),
    ("pruning", prune),
    ("validating", validate),
    ("validating an update", validate_update),
    ("recording field owners", track),
    ("applying", apply_new),
    ("applying against another owner", apply_conflict),
    ("a strategic merge", strategic),
    ("a merge patch", merge),
];

/// A schema with fewer fields than the input, and with other types.
static STRICT: LazyLock<Schema> = LazyLock::new(|| {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let items = json!({
        "type": "object", "required": ["value"],
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
    });
    parse(&json!({
        "maps": {"type": "object", "additionalProperties": texts},
        "lists": {"type": "object", "additionalProperties": {"type": "array", "items": items}},
        "list": {"type": "array", "items": items},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }))
});

/// A schema that accepts all input.
static OPEN: LazyLock<Schema> = LazyLock::new(|| {
    let mut spec = json!({
        "list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"name": {"type": "string"}},
            },
        },
    });
    spec["set"] =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    parse(&spec)
});

fn parse(spec: &Value) -> Schema {
    let is_open = spec.get("maps").is_none();
    let mut node = json!({"type": "object", "properties": spec});
    if is_open {
        node["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let root = json!({"type": "object", "properties": {"spec": node}});
    Schema::parse_crd(&root).unwrap()
}

fn value(input: &[u8]) -> Value {
    serde_json::from_slice(input).unwrap()
}

fn decode_json(input: &[u8]) {
    body::json(input).unwrap();
}

/// Input that is not JSON takes the other path.
fn decode_yaml(input: &[u8]) {
    let mut text = b"# YAML\n".to_vec();
    text.extend(input);
    // Duplicate keys are an error in YAML.
    let _ = body::yaml(&text);
}

fn prune(input: &[u8]) {
    schema::prune(&STRICT, &mut value(input));
}

fn validate(input: &[u8]) {
    join(&schema::validate(&STRICT, &value(input)));
}

fn validate_update(input: &[u8]) {
    let new = value(input);
    let mut old = new.clone();
    old["spec"]["list"] = json!([]);
    join(&schema::validate_update(&STRICT, &new, &old));
}

fn track(input: &[u8]) {
    let mut new = value(input);
    track_as("test", &mut new);
}

fn track_as(manager: &str, new: &mut Value) {
    apply::track_update(UpdateInput {
        schema: &OPEN,
        live: None,
        blank: None,
        new,
        manager,
        subresource: "",
        api_version: "it.polity.dev/v1",
        now: jiff::Timestamp::UNIX_EPOCH,
        ignore: &FieldSet::new(),
    });
}

fn apply_to(live: Option<&Value>, body: &Value) {
    let outcome = apply::apply(&ApplyInput {
        schema: &OPEN,
        live,
        body,
        manager: "applier",
        subresource: "",
        api_version: "it.polity.dev/v1",
        force: false,
        now: jiff::Timestamp::UNIX_EPOCH,
        ignore: &FieldSet::new(),
    });
    if let Err(error) = outcome {
        let _ = error.to_string();
    }
}

fn apply_new(input: &[u8]) {
    apply_to(None, &value(input));
}

/// All scalars differ from those of the live object, which another manager owns.
fn apply_conflict(input: &[u8]) {
    let mut live = value(input);
    track_as("owner", &mut live);
    let mut body = value(input);
    change(&mut body["spec"]);
    apply_to(Some(&live), &body);
}

fn change(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(change),
        Value::Array(items) => items.iter_mut().for_each(change),
        Value::Number(_) => *value = json!(-1),
        _ => {}
    }
}

fn strategic(input: &[u8]) {
    let live = value(input);
    let mut new = live.clone();
    change(&mut new["spec"]);
    let _ = patch::strategic(&OPEN, &live, &new);
}

fn merge(input: &[u8]) {
    let mut live = value(input);
    let mut new = live.clone();
    change(&mut new["spec"]);
    patch::merge_patch(&mut live, &new);
}
