//! CustomResourceDefinition objects: defaults, validation, status as they are written.

use std::collections::BTreeSet;

use jiff::Timestamp;
use polity_core::field::{FieldError, FieldErrors, FieldPath};
use polity_core::findings::MAX_FINDINGS;
use polity_core::name;
use serde_json::{Value, json};

use super::CLEANUP_FINALIZER;
use super::approval::validate_approval;
use crate::object::conditions::{self, Condition};
use crate::object::meta;
use crate::served::Compiler;
use polity_kinds::jsonpath::JsonPath;

/// Sets the defaults of a definition.
pub fn apply_defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if !kind.is_empty() {
            fill(names, "singular", json!(kind.to_lowercase()));
            fill(names, "listKind", json!(format!("{kind}List")));
        }
    }
    fill(spec, "conversion", json!({"strategy": "None"}));
}

fn fill(map: &mut serde_json::Map<String, Value>, field: &str, value: Value) {
    let empty = map
        .get(field)
        .is_none_or(|found| found.is_null() || found.as_str() == Some(""));
    if empty {
        map.insert(field.to_owned(), value);
    }
}

/// The first status of a definition.
pub fn complete_new(crd: &mut Value) {
    let stored: Vec<&str> = storage_version(crd).into_iter().collect();
    let status = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    });
    crd["status"] = status;
}

/// A changed definition remembers every version that was ever stored.
pub fn complete_changed(live: &Value, crd: &mut Value) {
    let mut stored: Vec<String> = meta::strings(live.pointer("/status/storedVersions"))
        .into_iter()
        .map(str::to_owned)
        .collect();
    if let Some(version) = storage_version(crd)
        && !stored.iter().any(|known| known == version)
    {
        stored.push(version.to_owned());
        crd["status"]["storedVersions"] = json!(stored);
    }
}

/// Deletion waits for the objects.
pub fn deletion_begins(crd: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<String> = meta::finalizers(crd)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == CLEANUP_FINALIZER)
    {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    meta::set(crd, "finalizers", json!(finalizers));
    let condition = Condition {
        kind: "Terminating",
        status: true,
        reason: "InstanceDeletionPending",
        message:
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                .into(),
    };
    condition.set(crd, now);
}

/// The version objects are stored in.
pub fn storage_version(crd: &Value) -> Option<&str> {
    versions(crd)
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
}

/// `spec.versions`.
pub fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Everything that can be wrong with a definition.
pub fn validate(crd: &Value, live: Option<&Value>, compiler: &Compiler) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if live.is_none() {
        validate_name(crd, &mut errors);
    }
    let spec = FieldPath::of("spec");
    validate_group_and_scope(crd, &spec, &mut errors);
    validate_versions(crd, &spec, compiler, &mut errors);
    validate_names(crd, &spec, &mut errors);
    validate_conversion(crd, &spec, &mut errors);
    if crd.pointer("/spec/preserveUnknownFields") == Some(&json!(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            &spec.child("preserveUnknownFields"),
            &json!(true),
            detail,
        ));
    }
    validate_approval(crd, live, &mut errors);
    if let Some(live) = live {
        validate_change(crd, live, &mut errors);
    }
    validate_stored_versions(crd, &mut errors);
    errors.into_vec()
}

/// The name is `{plural}.{group}`.
fn validate_name(crd: &Value, errors: &mut FieldErrors) {
    let expected = format!(
        "{}.{}",
        text(crd, "/spec/names/plural"),
        text(crd, "/spec/group")
    );
    if meta::name(crd) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(
            &FieldPath::of("metadata").child("name"),
            &json!(meta::name(crd)),
            detail,
        ));
    }
}

fn validate_group_and_scope(crd: &Value, spec: &FieldPath, errors: &mut FieldErrors) {
    let group = text(crd, "/spec/group");
    let group_field = spec.child("group");
    if group.is_empty() {
        errors.push(FieldError::required(&group_field, ""));
    } else if let Err(details) = name::dns_subdomain(group) {
        errors.extend(
            details
                .iter()
                .map(|detail| FieldError::invalid(&group_field, &json!(group), detail)),
        );
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            &group_field,
            &json!(group),
            "should be a domain with at least one dot",
        ));
    }
    match text(crd, "/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" => errors.push(FieldError::required(&spec.child("scope"), "")),
        other => errors.push(FieldError::not_supported(
            &spec.child("scope"),
            &json!(other),
            &["Cluster", "Namespaced"],
        )),
    }
}

/// Every name is set, and every name is a valid label.
fn validate_names(crd: &Value, spec: &FieldPath, errors: &mut FieldErrors) {
    let names = spec.child("names");
    let fields = [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ];
    for (field, _) in fields {
        if text(crd, &format!("/spec/names/{field}")).is_empty() {
            errors.push(FieldError::required(&names.child(field), ""));
        }
    }
    for (field, lower) in fields {
        let value = text(crd, &format!("/spec/names/{field}"));
        if value.is_empty() {
            continue;
        }
        let checked = if lower {
            value.to_lowercase()
        } else {
            value.to_owned()
        };
        if let Err(details) = name::dns_1035_label(&checked) {
            let shown = if lower {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            errors.extend(details.iter().map(|d| {
                FieldError::invalid(&names.child(field), &json!(value), &format!("{shown}{d}"))
            }));
        }
    }
    for field in ["shortNames", "categories"] {
        let list = crd.pointer(&format!("/spec/names/{field}"));
        for (index, value) in meta::strings(list).into_iter().enumerate() {
            if let Err(details) = name::dns_1035_label(value) {
                let at = names.child(field).index(index);
                errors.extend(
                    details
                        .iter()
                        .map(|detail| FieldError::invalid(&at, &json!(value), detail)),
                );
            }
        }
    }
    let (kind, list_kind) = (
        text(crd, "/spec/names/kind"),
        text(crd, "/spec/names/listKind"),
    );
    if !kind.is_empty() && kind == list_kind {
        errors.push(FieldError::invalid(
            &names.child("listKind"),
            &json!(list_kind),
            "kind and listKind may not be the same",
        ));
    }
}

/// Exactly one version is stored, and each version is valid by itself.
fn validate_versions(crd: &Value, spec: &FieldPath, compiler: &Compiler, errors: &mut FieldErrors) {
    let field = &spec.child("versions");
    let all: Vec<&Value> = versions(crd).collect();
    let common = Common::of(&all);
    let mut seen = BTreeSet::new();
    let mut n_storage = 0;
    for (index, version) in all.iter().enumerate() {
        let at = field.index(index);
        let version_name = text(version, "/name");
        if !seen.insert(version_name) {
            let detail = "must be unique in the list of versions";
            errors.push(FieldError::invalid(
                &at.child("name"),
                &json!(version_name),
                detail,
            ));
        }
        if let Err(details) = name::dns_1035_label(version_name) {
            errors.extend(details.iter().map(|detail| {
                FieldError::invalid(&at.child("name"), &json!(version_name), detail)
            }));
        }
        n_storage += usize::from(version["storage"] == true);
        if version.get("deprecationWarning").is_some() && version["deprecated"] != true {
            let detail = "can only be set for deprecated versions";
            errors.push(FieldError::invalid(
                &at.child("deprecationWarning"),
                &version["deprecationWarning"],
                detail,
            ));
        }
        if !common.schema || version.pointer("/schema/openAPIV3Schema").is_none() {
            validate_schema(
                version,
                &at.child("schema").child("openAPIV3Schema"),
                compiler,
                errors,
            );
        }
        if !common.subresources {
            validate_subresources(version, &at.child("subresources"), errors);
        }
        if !common.columns {
            validate_columns(version, &at.child("additionalPrinterColumns"), errors);
        }
        if !common.selectable_fields {
            validate_selectable_fields(version, &at.child("selectableFields"), errors);
        }
    }
    if n_storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        let shown = crd.pointer("/spec/versions").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(field, shown, detail));
    }
    if let Some(first) = all.first() {
        common.validate(first, spec, compiler, errors);
    }
}

/// The fields that all versions share. A real server stores them once, above the versions, so its errors name that
/// path.
#[expect(
    clippy::struct_excessive_bools,
    reason = "one question for each part of a version"
)]
struct Common {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable_fields: bool,
}

impl Common {
    fn of(all: &[&Value]) -> Self {
        let same = |field: &str| {
            all.iter()
                .all(|version| version.get(field) == all[0].get(field))
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable_fields: same("selectableFields"),
        }
    }

    fn validate(
        &self,
        version: &Value,
        spec: &FieldPath,
        compiler: &Compiler,
        errors: &mut FieldErrors,
    ) {
        if self.schema && version.pointer("/schema/openAPIV3Schema").is_some() {
            validate_schema(
                version,
                &spec.child("validation").child("openAPIV3Schema"),
                compiler,
                errors,
            );
        }
        if self.subresources {
            validate_subresources(version, &spec.child("subresources"), errors);
        }
        if self.columns {
            validate_columns(version, &spec.child("additionalPrinterColumns"), errors);
        }
        if self.selectable_fields {
            validate_selectable_fields(version, &spec.child("selectableFields"), errors);
        }
    }
}

/// The schema is structural and its rules compile.
fn validate_schema(
    version: &Value,
    field: &FieldPath,
    compiler: &Compiler,
    errors: &mut FieldErrors,
) {
    let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
        errors.push(FieldError::required(field, ""));
        return;
    };
    let prefixed = |error: FieldError| FieldError {
        field: if error.field.is_empty() {
            field.to_string()
        } else {
            format!("{field}.{}", error.field)
        },
        ..error
    };
    if let Err(found) = compiler.compile(schema) {
        // One schema does not keep the errors of the other parts from being found.
        errors.extend(found.into_iter().take(MAX_FINDINGS).map(prefixed));
    }
}

fn validate_subresources(version: &Value, field: &FieldPath, errors: &mut FieldErrors) {
    let Some(scale) = version.pointer("/subresources/scale") else {
        return;
    };
    let field = field.child("scale");
    for (name, prefix, required) in [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", ".", false),
    ] {
        let path = scale.get(name).and_then(Value::as_str).unwrap_or_default();
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(&field.child(name), ""));
            }
            continue;
        }
        if path.parse::<JsonPath>().is_err() {
            errors.push(FieldError::invalid(
                &field.child(name),
                &json!(path),
                "must be a simple JSON path",
            ));
        } else if !path.starts_with(prefix) {
            let detail = format!(
                "should be a json path under {}",
                prefix.trim_end_matches('.')
            );
            errors.push(FieldError::invalid(
                &field.child(name),
                &json!(path),
                &detail,
            ));
        }
    }
}

fn validate_columns(version: &Value, field: &FieldPath, errors: &mut FieldErrors) {
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    for (index, column) in columns.into_iter().flatten().enumerate() {
        let at = field.index(index);
        for (name, shown) in [("name", "name"), ("jsonPath", "JSONPath")] {
            if text(column, &format!("/{name}")).is_empty() {
                errors.push(FieldError::required(&at.child(shown), ""));
            }
        }
        let kind = text(column, "/type");
        let known = ["boolean", "date", "integer", "number", "string"];
        if kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        } else if !known.contains(&kind) {
            let detail = format!("must be one of {}", known.join(","));
            errors.push(FieldError::invalid(
                &at.child("type"),
                &json!(kind),
                &detail,
            ));
        }
        let path = text(column, "/jsonPath");
        if !path.is_empty() && path.parse::<JsonPath>().is_err() {
            errors.push(FieldError::invalid(
                &at.child("JSONPath"),
                &json!(path),
                "must be a simple json path starting with .",
            ));
        }
    }
}

fn validate_selectable_fields(version: &Value, field: &FieldPath, errors: &mut FieldErrors) {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let all: Vec<&Value> = fields.into_iter().flatten().collect();
    if all.len() > 8 {
        errors.push(FieldError::too_many(field, all.len(), 8));
    }
    for (index, selectable) in all.iter().enumerate() {
        let at = field.index(index).child("jsonPath");
        let path = text(selectable, "/jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if path.parse::<JsonPath>().is_err() || !path.starts_with('.') {
            errors.push(FieldError::invalid(
                &at,
                &json!(path),
                "is an invalid path: must be a simple path",
            ));
        } else if path.starts_with(".metadata.") || path == ".metadata" {
            errors.push(FieldError::invalid(
                &at,
                &json!(path),
                "must not point to fields in metadata",
            ));
        }
    }
}

/// Only the conversion that changes nothing but the apiVersion.
fn validate_conversion(crd: &Value, spec: &FieldPath, errors: &mut FieldErrors) {
    let field = spec.child("conversion").child("strategy");
    match text(crd, "/spec/conversion/strategy") {
        "None" => {}
        "" => errors.push(FieldError::required(&field, "")),
        "Webhook" => errors.push(FieldError::not_supported(
            &field,
            &json!("Webhook"),
            &["None"],
        )),
        other => errors.push(FieldError::not_supported(
            &field,
            &json!(other),
            &["None", "Webhook"],
        )),
    }
}

/// Immutable fields, and versions that must stay as long as objects are stored in them.
fn validate_change(crd: &Value, live: &Value, errors: &mut FieldErrors) {
    let established = conditions::is_true(live, "Established");
    for (pointer, always) in [
        ("/spec/group", true),
        ("/spec/names/plural", true),
        ("/spec/scope", false),
        ("/spec/names/kind", false),
    ] {
        if (always || established) && text(crd, pointer) != text(live, pointer) {
            let field = FieldPath::of(&pointer.trim_start_matches('/').replace('/', "."));
            errors.push(FieldError::invalid(
                &field,
                &json!(text(crd, pointer)),
                "field is immutable",
            ));
        }
    }
}

fn validate_stored_versions(crd: &Value, errors: &mut FieldErrors) {
    let known: BTreeSet<&str> = versions(crd)
        .map(|version| text(version, "/name"))
        .collect();
    let field = FieldPath::of("status").child("storedVersions");
    if meta::strings(crd.pointer("/status/storedVersions")).is_empty() {
        errors.push(FieldError::invalid(
            &field,
            &Value::Null,
            "must have at least one stored version",
        ));
    }
    for (index, stored) in meta::strings(crd.pointer("/status/storedVersions"))
        .into_iter()
        .enumerate()
    {
        if !known.contains(stored) {
            let detail = "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions".replace("v1", stored);
            errors.push(FieldError::invalid(
                &field.index(index),
                &json!(stored),
                &detail,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use polity_core::field::MAX_ERRORS;

    use super::*;

    /// A property without a type is an error of its own. Versions with equal schemas would share their errors.
    fn schema(version: &str, n_errors: usize) -> Value {
        let properties: serde_json::Map<String, Value> = (0..n_errors)
            .map(|number| (format!("{version}p{number}"), json!({})))
            .collect();
        json!({"openAPIV3Schema": {"type": "object", "properties": properties}})
    }

    #[test]
    fn one_broken_schema_does_not_hide_other_errors_and_all_are_bounded() {
        let version =
            |name: String, n_errors| json!({"name": name, "schema": schema(&name, n_errors)});
        let crd = |versions: Vec<Value>| {
            json!({
                "metadata": {"name": "widgets.example.com"},
                "spec": {"group": "example.com", "scope": "Planet", "versions": versions, "names": {}},
            })
        };
        let validated = |crd: &Value| validate(crd, None, &Compiler::default());

        let errors = validated(&crd(vec![
            version("v1".into(), 5 * MAX_ERRORS),
            version("v2".into(), 1),
        ]));
        let n_below = |prefix: &str| {
            let below = errors
                .iter()
                .filter(|error| error.field.starts_with(prefix));
            below.count()
        };
        assert_eq!(n_below("spec.versions[0].schema"), MAX_FINDINGS);
        assert!(n_below("spec.versions[1].schema") > 0);
        assert!(n_below("spec.names") > 0);

        let versions = (0..50).map(|number| version(format!("v{number}"), MAX_FINDINGS));
        assert_eq!(validated(&crd(versions.collect())).len(), MAX_ERRORS);
    }
}
