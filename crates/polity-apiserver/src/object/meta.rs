//! `metadata`: reading it, filling it in, and validating it (docs/spec/apiserver.md#6).

use std::collections::HashSet;

use jiff::Timestamp;
use polity_core::field::{FieldError, FieldErrors, FieldPath, MAX_ERRORS};
use polity_core::name;
use serde_json::{Map, Value, json};

/// The metadata of an object; empty when there is none.
pub fn of(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object
        .get("metadata")
        .and_then(Value::as_object)
        .unwrap_or(&EMPTY)
}

/// The metadata of an object, made when there is none.
pub fn of_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let root = object.as_object_mut().expect("made an object above");
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("made an object above")
}

/// A text field of the metadata, `""` when absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    of(object)
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

pub fn generation(object: &Value) -> i64 {
    of(object)
        .get("generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

pub fn is_deleting(object: &Value) -> bool {
    of(object)
        .get("deletionTimestamp")
        .is_some_and(|time| !time.is_null())
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    strings(of(object).get("finalizers"))
}

/// The strings of a list. Other elements are skipped.
pub fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Sets or, when empty, removes a field of the metadata.
pub fn set(object: &mut Value, field: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let metadata = of_mut(object);
    if empty {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Takes a field over from another object's metadata, also its absence.
pub fn carry(from: &Value, to: &mut Value, field: &str) {
    let value = of(from).get(field).cloned().unwrap_or(Value::Null);
    set(to, field, value);
}

/// A time as objects show it: UTC, whole seconds.
pub fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// 58 characters of the prefix and 5 of an alphabet without vowels or look-alikes.
pub fn generate_name(prefix: &str, random: u64) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name: String = prefix.chars().take(58).collect();
    let mut rest = random;
    for _ in 0..5 {
        name.push(char::from(ALPHABET[(rest % 27) as usize]));
        rest /= 27;
    }
    name
}

/// Validates labels, annotations, finalizers and owner references.
pub fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let field = FieldPath::of("metadata");
    let mut errors = FieldErrors::default();
    let metadata = of(object);
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        validate_labels(labels, &field.child("labels"), &mut errors);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        validate_annotations(annotations, &field.child("annotations"), &mut errors);
    }
    validate_owners(
        metadata.get("ownerReferences"),
        &field.child("ownerReferences"),
        &mut errors,
    );
    validate_finalizers(object, &field.child("finalizers"), &mut errors);
    if let Some(old) = old.filter(|old| is_deleting(old)) {
        let before: HashSet<&str> = finalizers(old).into_iter().collect();
        let added: Vec<&str> = finalizers(object)
            .into_iter()
            .filter(|f| !before.contains(f))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                go_strings(&added)
            );
            errors.push(FieldError::forbidden(&field.child("finalizers"), &detail));
        }
    }
    errors
}

/// A slice of strings as Go's `%#v` prints it.
fn go_strings(items: &[&str]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

fn complaints(check: name::Check) -> Vec<String> {
    check.err().unwrap_or_default()
}

fn validate_labels(labels: &Map<String, Value>, field: &FieldPath, errors: &mut FieldErrors) {
    for (key, value) in labels {
        if errors.is_full() {
            return;
        }
        for detail in complaints(name::qualified_name(key)) {
            errors.push(FieldError::invalid(field, &json!(key), &detail));
        }
        for detail in complaints(name::label_value(value.as_str().unwrap_or_default())) {
            errors.push(FieldError::invalid(field, value, &detail));
        }
    }
}

fn validate_annotations(
    annotations: &Map<String, Value>,
    field: &FieldPath,
    errors: &mut FieldErrors,
) {
    const MAX_BYTES: usize = 256 * 1024;
    let mut total = 0;
    for (key, value) in annotations {
        for detail in complaints(name::annotation_key(key)) {
            errors.add(|| FieldError::invalid(field, &json!(key), &detail));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > MAX_BYTES {
        errors.push(FieldError::too_long(field, MAX_BYTES));
    }
}

/// The additional rule for finalizers of built-in kinds: those without a domain are reserved.
pub fn validate_plain_finalizers(object: &Value) -> Vec<FieldError> {
    let field = FieldPath::of("metadata").child("finalizers");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let plain = finalizers(object)
        .into_iter()
        .enumerate()
        .filter(|(_, finalizer)| is_plain(finalizer));
    plain
        .map(|(index, finalizer)| {
            FieldError::invalid(&field.index(index), &json!(finalizer), detail)
        })
        .take(MAX_ERRORS)
        .collect()
}

/// The warnings that a custom resource gets instead, about finalizers that it did not have before.
pub fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before: HashSet<&str> = old.map(finalizers).into_iter().flatten().collect();
    let plain = finalizers(object)
        .into_iter()
        .filter(|finalizer| is_plain(finalizer) && !before.contains(finalizer));
    plain
        .map(|finalizer| {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{path} \
                 to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn is_plain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

fn validate_finalizers(object: &Value, field: &FieldPath, errors: &mut FieldErrors) {
    let all = finalizers(object);
    for finalizer in &all {
        if errors.is_full() {
            return;
        }
        for detail in complaints(name::qualified_name(finalizer)) {
            errors.push(FieldError::invalid(field, &json!(finalizer), &detail));
        }
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, &json!(all), detail));
    }
}

/// How many errors about a second controller are reported.
const MAX_CONTROLLER_ERRORS: usize = 3;

fn validate_owners(owners: Option<&Value>, field: &FieldPath, errors: &mut FieldErrors) {
    let Some(owners) = owners.and_then(Value::as_array) else {
        return;
    };
    let mut controller: Option<String> = None;
    let mut n_more_controllers = 0;
    for (index, owner) in owners.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let at = field.index(index);
        let get = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let api_version = get("apiVersion");
        match api_version.parse::<polity_core::GroupVersion>() {
            _ if api_version.is_empty() => errors.push(FieldError::required(
                &at.child("apiVersion"),
                "must not be empty",
            )),
            Ok(gv) if !gv.version.is_empty() => {}
            _ => errors.push(FieldError::invalid(
                &at.child("apiVersion"),
                &json!(api_version),
                "version must not be empty",
            )),
        }
        for key in ["kind", "name", "uid"] {
            if get(key).is_empty() {
                errors.push(FieldError::required(&at.child(key), "must not be empty"));
            }
        }
        if get("kind") == "Event" && matches!(api_version, "v1" | "events.k8s.io/v1") {
            let detail = format!("{api_version}, Kind=Event is disallowed from being an owner");
            errors.push(FieldError::invalid(&at, owner, &detail));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            if let Some(first) = &controller {
                n_more_controllers += 1;
                // Each of these errors shows the whole list.
                if n_more_controllers > MAX_CONTROLLER_ERRORS {
                    continue;
                }
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}/{}",
                    get("kind"),
                    get("name")
                );
                errors.push(FieldError::invalid(field, &json!(owners), &detail));
            }
            controller.get_or_insert_with(|| format!("{}/{}", get("kind"), get("name")));
        }
    }
}

/// Drops exact duplicates of owner references. Returns the uids of the dropped ones.
pub fn drop_duplicate_owners(object: &mut Value) -> Vec<String> {
    let Some(owners) = of_mut(object)
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    else {
        return Vec::new();
    };
    let mut dropped = Vec::new();
    let mut kept = HashSet::new();
    owners.retain(|owner| {
        let is_first = kept.insert(owner.to_string());
        if !is_first {
            let uid = owner.get("uid").and_then(Value::as_str);
            dropped.push(uid.unwrap_or_default().to_owned());
        }
        is_first
    });
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_whole_seconds() {
        let now: Timestamp = "2026-11-15T10:20:30.987Z".parse().unwrap();
        assert_eq!(time(now), "2026-11-15T10:20:30Z");
    }

    #[test]
    fn generated_names_fit() {
        let name = generate_name(&"x".repeat(80), 123_456_789);
        assert_eq!(name.len(), 63);
        assert_ne!(generate_name("a-", 1), generate_name("a-", 2));
    }

    #[track_caller]
    fn check(metadata: Value, expected: &[&str]) {
        let errors = validate(&json!({"metadata": metadata}), None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected, "{errors:?}");
    }

    #[test]
    fn to_m13_are_checked() {
        check(json!({"labels": {"a/b": "c", "x": ""}}), &[]);
        check(json!({"labels": {"a b": "c"}}), &["metadata.labels"]);
        check(json!({"labels": {"a": "-"}}), &["metadata.labels"]);
        check(json!({"annotations": {"A.example/b": "any thing"}}), &[]);
        check(
            json!({"annotations": {"big": "x".repeat(300_000)}}),
            &["metadata.annotations"],
        );
        check(json!({"finalizers": ["example.com/x", "orphan"]}), &[]);
        assert_eq!(
            validate_plain_finalizers(&json!({"metadata": {"finalizers": ["a.b/c", "x"]}}))[0]
                .field,
            "metadata.finalizers[1]"
        );
        let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true});
        check(json!({"ownerReferences": [owner("a", "1")]}), &[]);
        check(
            json!({"ownerReferences": [owner("a", "")]}),
            &["metadata.ownerReferences[0].uid"],
        );
        check(
            json!({"ownerReferences": [owner("a", "1"), owner("b", "2")]}),
            &["metadata.ownerReferences"],
        );
        check(
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}]}),
            &["metadata.ownerReferences[0]"],
        );
    }

    #[test]
    fn metadata_with_very_many_mistakes_has_a_bounded_number_of_errors() {
        let keys: Vec<String> = (0..5000).map(|number| format!("-{number}")).collect();
        let labels: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!("v"))).collect();
        for metadata in [
            json!({"labels": labels}),
            json!({"annotations": labels}),
            json!({"finalizers": keys}),
            json!({"ownerReferences": vec![json!({}); 5000]}),
        ] {
            let errors = validate(&json!({"metadata": metadata}), None);
            assert_eq!(
                errors.len(),
                MAX_ERRORS,
                "{:?}",
                metadata.as_object().map(|map| map.keys().next())
            );
        }
        let object = json!({"metadata": {"finalizers": keys}});
        assert_eq!(validate_plain_finalizers(&object).len(), MAX_ERRORS);
    }

    #[test]
    fn no_finalizer_joins_a_deletion() {
        let old = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"finalizers": ["a/b", "a/c"]}});
        let errors = validate(&new, Some(&old));
        assert_eq!(errors[0].kind.reason(), "FieldValueForbidden");
        assert!(validate(&json!({"metadata": {}}), Some(&old)).is_empty());
    }

    #[test]
    fn exact_duplicates_are_dropped() {
        let mut object =
            json!({"metadata": {"ownerReferences": [{"uid": "1"}, {"uid": "1"}, {"uid": "2"}]}});
        assert_eq!(drop_duplicate_owners(&mut object), ["1"]);
        assert_eq!(
            of(&object)["ownerReferences"],
            json!([{"uid": "1"}, {"uid": "2"}])
        );
        assert!(drop_duplicate_owners(&mut object).is_empty());
    }
}
