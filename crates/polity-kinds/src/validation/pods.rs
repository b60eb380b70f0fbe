//! Pods and Pod templates.

use std::collections::{BTreeMap, HashSet};

use polity_core::FieldPath;
use polity_core::name;
use polity_core::quantity::Quantity;
use serde_json::{Value, json};

use super::{Errors, Object, at, field, list, rules, text};

/// Names are unique across the lists of a Pod, and mounts refer to existing volumes.
pub(super) fn pod_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let mut names: HashSet<&str> = list(spec, "containers")
        .iter()
        .filter_map(|c| c.get("name")?.as_str())
        .collect();
    let init_path = path.child("initContainers");
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let here = init_path.index(index);
        let name = at(container, "name");
        if let Some(text) = name.as_str().filter(|text| !text.is_empty())
            && !names.insert(text)
        {
            errors.duplicate(&here.child("name"), name);
        }
        if at(container, "restartPolicy").as_str() != Some("Always") {
            for probe in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                if container.get(probe).is_some() {
                    errors.forbidden(
                        &here.child(probe),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
        }
    }
    let volumes: HashSet<&str> = list(spec, "volumes")
        .iter()
        .filter_map(|v| v.get("name")?.as_str())
        .collect();
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in list(spec, containers).iter().enumerate() {
            let mounts = path.child(containers).index(index).child("volumeMounts");
            check_mounts(container, &volumes, &mounts, errors);
        }
    }
}

fn check_mounts(container: &Value, volumes: &HashSet<&str>, path: &FieldPath, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, mount) in at(container, "volumeMounts")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let here = path.index(index);
        let (name, mount_path) = (at(mount, "name"), at(mount, "mountPath"));
        if !volumes.contains(name.as_str().unwrap_or_default()) {
            errors.not_found(&here.child("name"), name);
        }
        if let Some(text) = mount_path.as_str()
            && !taken.insert(text)
        {
            errors.invalid(&here.child("mountPath"), mount_path, "must be unique");
        }
    }
}

/// Labels and annotations of a template. Their paths omit `metadata`.
pub(super) fn template(template: &Object, path: &FieldPath, errors: &mut Errors) {
    let metadata = field(template, "metadata");
    rules::labels(at(metadata, "labels"), &path.child("labels"), errors);
    for key in at(metadata, "annotations")
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        errors.named(
            &path.child("annotations"),
            &json!(key),
            name::annotation_key(key),
        );
    }
    let ephemeral = field(template, "spec").get("ephemeralContainers");
    if ephemeral
        .and_then(Value::as_array)
        .is_some_and(|containers| !containers.is_empty())
    {
        let path = path.child("spec").child("ephemeralContainers");
        errors.forbidden(&path, "ephemeral containers not allowed in pod template");
    }
}

/// A volume has one source. Real servers check them in this order.
pub(super) fn volume(volume: &Object, path: &FieldPath, errors: &mut Errors) {
    const SOURCES: [&str; 30] = [
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "flocker",
        "persistentVolumeClaim",
        "rbd",
        "cinder",
        "cephfs",
        "quobyte",
        "downwardAPI",
        "fc",
        "flexVolume",
        "configMap",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "storageos",
        "projected",
        "scaleIO",
        "csi",
        "ephemeral",
        "image",
    ];
    for extra in SOURCES
        .iter()
        .filter(|source| volume.contains_key(**source))
        .skip(1)
    {
        errors.forbidden(
            &path.child(extra),
            "may not specify more than 1 volume type",
        );
    }
}

/// An environment variable has a value or one source.
pub(super) fn env_var(variable: &Object, path: &FieldPath, errors: &mut Errors) {
    let Some(source) = variable.get("valueFrom").and_then(Value::as_object) else {
        return;
    };
    let path = path.child("valueFrom");
    let kinds = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    match kinds.iter().filter(|kind| source.contains_key(**kind)).count() {
        0 => errors.invalid(
            &path,
            &json!(""),
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !text(variable, "value").is_empty() => {
            errors.invalid(&path, &json!(""), "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => errors.invalid(&path, &json!(""), "may not have more than one field specified at a time"),
    }
}

/// A probe has one handler.
pub(super) fn handler(probe: &Object, path: &FieldPath, errors: &mut Errors) {
    let given = ["exec", "httpGet", "tcpSocket", "grpc"]
        .into_iter()
        .filter(|kind| probe.contains_key(*kind));
    let given: Vec<&str> = given.collect();
    if given.is_empty() {
        errors.required(path, "must specify a handler type");
    }
    for extra in given.iter().skip(1) {
        errors.forbidden(
            &path.child(extra),
            "may not specify more than 1 handler type",
        );
    }
}

pub(super) fn toleration(toleration: &Object, path: &FieldPath, errors: &mut Errors) {
    let operator = field(toleration, "operator");
    let value = field(toleration, "value");
    if text(toleration, "key").is_empty() && operator != "Exists" {
        errors.invalid(
            &path.child("operator"),
            &json!(text(toleration, "operator")),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.contains_key("tolerationSeconds") && text(toleration, "effect") != "NoExecute" {
        errors.invalid(
            &path.child("effect"),
            &json!(text(toleration, "effect")),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    match operator.as_str().unwrap_or_default() {
        "" | "Equal" => {
            if let Err(complaints) = name::label_value(value.as_str().unwrap_or_default()) {
                errors.invalid(&path.child("operator"), value, &complaints.join(";"));
            }
        }
        "Exists" if !value.is_null() => {
            errors.invalid(
                &path.child("operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            );
        }
        "Exists" => {}
        _ => errors.not_supported(&path.child("operator"), operator, &["Equal", "Exists"]),
    }
}

/// Quantities are not negative, and no request is above its limit.
pub(super) fn resources(resources: &Object, path: &FieldPath, errors: &mut Errors) {
    let amounts = |list: &str| -> BTreeMap<String, Quantity> {
        let entries = field(resources, list).as_object().into_iter().flatten();
        entries
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.parse().ok()?)))
            .collect()
    };
    for list in ["limits", "requests"] {
        for (name, value) in field(resources, list).as_object().into_iter().flatten() {
            let here = path.child(list).key(name);
            match value.as_str().map(str::parse::<Quantity>) {
                Some(Ok(quantity)) if quantity.is_negative() => {
                    errors.invalid(&here, value, "must be greater than or equal to 0");
                }
                Some(Err(error)) => errors.invalid(&here, value, &error.to_string()),
                _ => {}
            }
        }
    }
    let limits = amounts("limits");
    for (name, request) in amounts("requests") {
        if let Some(limit) = limits.get(&name).filter(|limit| request > **limit) {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.invalid(
                &path.child("requests"),
                &json!(request.to_string()),
                &detail,
            );
        }
    }
}

/// Of a Pod's spec, only a few fields may change.
pub(super) fn pod_update(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = FieldPath::of("spec");
    let (Some(new), Some(old)) = (new.get("spec"), old.and_then(|old| old.get("spec"))) else {
        return;
    };
    for containers in ["containers", "initContainers"] {
        let count = |spec: &Value| at(spec, containers).as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            errors.forbidden(
                &path.child(containers),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    check_deadline(new, old, &path.child("activeDeadlineSeconds"), errors);
    check_tolerations(new, old, &path.child("tolerations"), errors);
    check_gates(new, old, &path.child("schedulingGates"), errors);
    if without_mutable(new, old) != *old {
        errors.forbidden(
            &path,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

/// A deadline may be set, and shortened.
fn check_deadline(new: &Value, old: &Value, path: &FieldPath, errors: &mut Errors) {
    let (new, old) = (
        at(new, "activeDeadlineSeconds"),
        at(old, "activeDeadlineSeconds"),
    );
    match (new.as_i64(), old.as_i64()) {
        (None, Some(_)) => errors.invalid(
            path,
            new,
            "must not update from a positive integer to nil value",
        ),
        (Some(now), Some(before)) if now > before => {
            errors.invalid(path, new, "must be less than or equal to previous value");
        }
        _ => {}
    }
}

/// Tolerations may be added; of the others, only the seconds may change.
fn check_tolerations(new: &Value, old: &Value, path: &FieldPath, errors: &mut Errors) {
    let tolerations = |spec: &Value| -> HashSet<String> {
        let mut all = at(spec, "tolerations")
            .as_array()
            .cloned()
            .unwrap_or_default();
        for toleration in all.iter_mut().filter_map(Value::as_object_mut) {
            toleration.remove("tolerationSeconds");
        }
        all.iter().map(Value::to_string).collect()
    };
    if !tolerations(old).is_subset(&tolerations(new)) {
        errors.forbidden(
            path,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

/// Scheduling gates may only be removed.
fn check_gates(new: &Value, old: &Value, path: &FieldPath, errors: &mut Errors) {
    let before: HashSet<String> = at(old, "schedulingGates")
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    for (index, gate) in at(new, "schedulingGates")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !before.contains(&gate.to_string()) {
            let name = at(gate, "name").as_str().unwrap_or_default();
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(index).child("name"), &detail);
        }
    }
}

/// The new spec with everything that may change set back.
fn without_mutable(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    for list in ["containers", "initContainers"] {
        let before = at(old, list).as_array().map_or(&[][..], Vec::as_slice);
        let containers = fields
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (container, before) in containers.zip(before) {
            put_back(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(&mut spec, old, field);
    }
    let was_negative = at(old, "terminationGracePeriodSeconds")
        .as_i64()
        .is_some_and(|seconds| seconds < 0);
    if was_negative && at(&spec, "terminationGracePeriodSeconds") == &json!(1) {
        put_back(&mut spec, old, "terminationGracePeriodSeconds");
    }
    if at(old, "schedulingGates")
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        // A gated Pod may still be directed to other nodes.
        put_back(&mut spec, old, "nodeSelector");
        put_back(&mut spec, old, "affinity");
    }
    spec
}

fn put_back(target: &mut Value, source: &Value, field: &str) {
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    match source.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}
