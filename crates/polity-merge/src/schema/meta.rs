//! The schema of `apiVersion`, `kind` and `metadata`, which every resource has without declaring them.

use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::Schema;

static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let number = json!({"type": "integer", "format": "int64"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let owner = json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        },
    });
    let entry = json!({
        "type": "object",
        "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "subresource": text,
        },
    });
    let meta = json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": number, "creationTimestamp": time,
            "deletionTimestamp": time, "deletionGracePeriodSeconds": number,
            "labels": texts, "annotations": texts,
            "ownerReferences": {
                "type": "array", "items": owner,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
            },
            "finalizers": {
                "type": "array", "items": text,
                "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {"type": "array", "items": entry, "x-kubernetes-list-type": "atomic"},
        },
    });
    Arc::new(Schema::lenient(&meta))
});

static TEXT: LazyLock<Schema> = LazyLock::new(|| Schema::lenient(&json!({"type": "string"})));

/// The schema of `metadata`.
pub fn object_meta() -> &'static Arc<Schema> {
    &OBJECT_META
}

/// The schema of a field every resource has.
pub(super) fn type_and_object_meta(name: &str) -> Option<&'static Schema> {
    match name {
        "metadata" => Some(&OBJECT_META),
        "apiVersion" | "kind" => Some(&TEXT),
        _ => None,
    }
}
