//! ConfigMaps, Secrets, Events and claims.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polity_core::name;
use polity_core::quantity::Quantity;
use polity_core::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::{Errors, Object, at, field, list, text};

/// The most a ConfigMap or Secret may hold.
const MAX_DATA: usize = 1024 * 1024;

pub(super) fn config_map(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let mut n_bytes = 0;
    for bag in ["data", "binaryData"] {
        let path = FieldPath::of(bag);
        for (key, value) in at(new, bag).as_object().into_iter().flatten() {
            errors.named(&path.key(key), &json!(key), name::config_key(key));
            if bag == "data" && at(new, "binaryData").get(key).is_some() {
                errors.invalid(
                    &path.key(key),
                    &json!(key),
                    "duplicate of key present in binaryData",
                );
            }
            let text = value.as_str().unwrap_or_default();
            n_bytes += if bag == "data" {
                text.len()
            } else {
                decoded_length(text)
            };
        }
    }
    if n_bytes > MAX_DATA {
        // The error is about the object as a whole.
        errors.0.add(|| FieldError {
            field: "[]".to_owned(),
            ..FieldError::too_long(&FieldPath::root(), MAX_DATA)
        });
    }
    keeps_immutable(new, old, &["data", "binaryData"], errors);
}

pub(super) fn secret(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = FieldPath::of("data");
    let data = at(new, "data");
    let mut n_bytes = 0;
    for (key, value) in data.as_object().into_iter().flatten() {
        errors.named(&path.key(key), &json!(key), name::config_key(key));
        n_bytes += decoded_length(value.as_str().unwrap_or_default());
    }
    if n_bytes > MAX_DATA {
        errors.too_long(&path, MAX_DATA);
    }
    let mut require = |keys: &[&str]| {
        for key in keys.iter().filter(|key| data.get(**key).is_none()) {
            errors.required(&path.key(key), "");
        }
    };
    match at(new, "type").as_str().unwrap_or_default() {
        "kubernetes.io/dockercfg" => require(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => require(&[".dockerconfigjson"]),
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => require(&["ssh-privatekey"]),
        "kubernetes.io/basic-auth"
            if data.get("username").is_none() && data.get("password").is_none() =>
        {
            require(&["username", "password"]);
        }
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let account = at(new, "metadata.annotations")
                .get(key)
                .and_then(Value::as_str);
            if account.is_none_or(str::is_empty) {
                errors.required(&FieldPath::of("metadata").child("annotations").key(key), "");
            }
        }
        _ => {}
    }
    for key in [".dockercfg", ".dockerconfigjson"] {
        docker_config(new, key, &path, errors);
    }
    keeps_immutable(new, old, &["data"], errors);
}

/// Registry credentials are JSON objects; errors about them do not contain them.
fn docker_config(secret: &Value, key: &str, path: &FieldPath, errors: &mut Errors) {
    if at(secret, "type").as_str()
        != Some(&format!("kubernetes.io/{}", key.trim_start_matches('.')))
    {
        return;
    }
    let Some(text) = at(secret, "data").get(key).and_then(Value::as_str) else {
        return;
    };
    let content = STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<Object>(&content).is_err() {
        errors.invalid(
            &path.key(key),
            &json!("<secret contents redacted>"),
            "must be a JSON object",
        );
    }
}

fn decoded_length(base64: &str) -> usize {
    base64.len() / 4 * 3
        - base64
            .bytes()
            .rev()
            .take_while(|b| *b == b'=')
            .count()
            .min(base64.len() / 4 * 3)
}

fn keeps_immutable(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Errors) {
    let Some(old) = old.filter(|old| at(old, "immutable") == &json!(true)) else {
        return;
    };
    let detail = "field is immutable when `immutable` is set";
    if at(new, "immutable") != &json!(true) {
        errors.forbidden(&FieldPath::of("immutable"), detail);
    }
    for field in fields
        .iter()
        .filter(|field| at(new, field) != at(old, field))
    {
        errors.forbidden(&FieldPath::of(field), detail);
    }
}

/// Checks an Event with core/v1 field names. `reporter` is the name of the field for the reporting controller.
pub(super) fn event(event: &Value, reporter: &str, errors: &mut Errors) {
    let namespace = at(event, "metadata.namespace").as_str().unwrap_or_default();
    let involved = at(event, "involvedObject.namespace")
        .as_str()
        .unwrap_or_default();
    let is_new = !at(event, "eventTime").is_null();
    let fits = match (is_new, involved) {
        (false, "") => ["", "default"].contains(&namespace),
        (false, involved) => namespace == involved,
        (true, "") => ["default", "kube-system"].contains(&namespace),
        (true, _) => true,
    };
    if !fits {
        let path = FieldPath::of("involvedObject").child("namespace");
        errors.invalid(&path, &json!(involved), "does not match event.namespace");
    }
    if !is_new {
        return;
    }
    let given = |name: &str| at(event, name).as_str().unwrap_or_default();
    for (field, shown, most) in [
        ("reportingComponent", reporter, usize::MAX),
        ("reportingInstance", "reportingInstance", 128),
        ("action", "action", 128),
        ("reason", "reason", 128),
        ("message", "message", 1024),
    ] {
        let path = FieldPath::of(shown);
        if given(field).is_empty() && field != "message" {
            errors.required(&path, "");
        }
        if given(field).len() > most {
            errors.invalid(
                &path,
                &json!(""),
                &format!("can have at most {most} characters"),
            );
        }
    }
    let component = at(event, "reportingComponent");
    errors.named(
        &FieldPath::of(reporter),
        &json!(given("reportingComponent")),
        match component {
            Value::String(text) => name::qualified_name(text),
            _ => Ok(()),
        },
    );
}

/// An Event that is written through events.k8s.io/v1. The rules are stricter, and few fields may change.
pub(super) fn new_event(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let as_core = |event: &Value| {
        let mut event = event.clone();
        super::super::events::to_core(&mut event);
        event
    };
    let new = as_core(new);
    event(&new, "reportingController", errors);
    let old = old.map(as_core);
    if old
        .as_ref()
        .is_none_or(|old| at(old, "series") != at(&new, "series"))
    {
        series(&new, errors);
    }
    let Some(old) = old else {
        new_event_fields(&new, errors);
        return;
    };
    let fixed = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingInstance",
    ];
    for field in fixed {
        errors.unchanged(&FieldPath::of(field), at(&new, field), at(&old, field));
    }
    let reporter = "reportingComponent";
    errors.unchanged(
        &FieldPath::of("reportingController"),
        at(&new, reporter),
        at(&old, reporter),
    );
}

fn new_event_fields(event: &Value, errors: &mut Errors) {
    if at(event, "eventTime").is_null() {
        errors.required(&FieldPath::of("eventTime"), "");
    }
    let ty = at(event, "type").as_str().unwrap_or_default();
    if !["Normal", "Warning"].contains(&ty) {
        errors.invalid(
            &FieldPath::of("type"),
            &json!(""),
            &format!("has invalid value: {ty}"),
        );
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let value = at(event, field);
        let is_unset = value.is_null() || value == &json!(0) || value == &json!({});
        if !is_unset {
            errors.invalid(&FieldPath::of(field), &json!(""), "needs to be unset");
        }
    }
}

fn series(event: &Value, errors: &mut Errors) {
    let series = at(event, "series");
    if !series.is_object() {
        return;
    }
    if at(series, "count").as_i64().unwrap_or_default() < 2 {
        errors.invalid(
            &FieldPath::of("series.count"),
            &json!(""),
            "should be at least 2",
        );
    }
    if at(series, "lastObservedTime").is_null() {
        errors.required(&FieldPath::of("series.lastObservedTime"), "");
    }
}

pub(super) fn claim_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let supported = [
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOnce",
        "ReadWriteOncePod",
    ];
    for mode in list(spec, "accessModes") {
        if !supported.contains(&mode.as_str().unwrap_or_default()) {
            errors.not_supported(&path.child("accessModes"), mode, &supported);
        }
    }
    let storage_path = path.child("resources").key("storage");
    let storage = at(field(spec, "resources"), "requests.storage");
    match storage.as_str().map(str::parse::<Quantity>) {
        None => errors.required(&storage_path, ""),
        Some(Ok(quantity)) if quantity <= Quantity::ZERO => {
            errors.invalid(&storage_path, storage, "must be greater than zero");
        }
        _ => {}
    }
}

/// A volume is somewhere, and has a size.
pub(super) fn volume_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let capacity = field(spec, "capacity");
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|c| c.len() > 1) {
        errors.not_supported(&path.child("capacity"), capacity, &["storage"]);
    }
    let common = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if spec.keys().all(|key| common.contains(&key.as_str())) {
        errors.required(path, "must specify a volume type");
    }
}

/// The spec of a claim is immutable, except for an increase of the requested storage.
pub(super) fn claim_update(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let Some(old) = old else { return };
    let fixed = |claim: &Value| {
        let mut spec = claim
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        for mutable in ["resources", "volumeAttributesClassName"] {
            spec.remove(mutable);
        }
        // The controller binds a claim by naming its volume.
        if text(
            old.get("spec")
                .and_then(Value::as_object)
                .unwrap_or(&Object::new()),
            "volumeName",
        )
        .is_empty()
        {
            spec.remove("volumeName");
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.forbidden(
            &FieldPath::of("spec"),
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
}
