//! The definitions of `polity.dev`: settings of the attachment engine, and what it publishes.
//!
//! EffectivePolicy and AttachmentStatus have neither `spec` nor `status`: their fields stand at the top, and what is in
//! them is read as it is stored. So they are written here as schemas, not derived from types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use crate::attachment::AttachmentConfig;

const GROUP: &str = "polity.dev";

pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    let effective =
        "What policies come to for the objects of this name, with the source of every field.";
    let status = "What a policy acts on, and what is said about it, whoever its controller is.";
    vec![
        config(),
        definition(
            "EffectivePolicy",
            "effectivepolicies",
            &["effpol"],
            "Namespaced",
            &effective_policy(effective),
            &[],
        ),
        definition(
            "ClusterEffectivePolicy",
            "clustereffectivepolicies",
            &["ceffpol"],
            "Cluster",
            &effective_policy(effective),
            &[],
        ),
        definition(
            "AttachmentStatus",
            "attachmentstatuses",
            &["attst"],
            "Namespaced",
            &attachment_status(status),
            &columns(),
        ),
        definition(
            "ClusterAttachmentStatus",
            "clusterattachmentstatuses",
            &["cattst"],
            "Cluster",
            &attachment_status(status),
            &columns(),
        ),
    ]
}

/// AttachmentConfig, whose spec may be absent. Unknown fields are refused by the reader; a structural schema cannot
/// refuse them.
fn config() -> CustomResourceDefinition {
    let crd = super::definition(vec![AttachmentConfig::crd()], &[]);
    let mut value = serde_json::to_value(&crd).expect("a definition is plain data");
    let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
    }
    allow_pruning(schema);
    serde_json::from_value(value).expect("removing keywords keeps a definition valid")
}

/// Removes `additionalProperties: false`, which the API server does not accept beside `properties`.
fn allow_pruning(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("additionalProperties") == Some(&Value::Bool(false)) {
                fields.remove("additionalProperties");
            }
            fields.values_mut().for_each(allow_pruning);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_pruning),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn definition(
    kind: &str,
    plural: &str,
    short: &[&str],
    scope: &str,
    schema: &Value,
    columns: &[Value],
) -> CustomResourceDefinition {
    let mut version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = columns.into();
    }
    let singular = kind.to_lowercase();
    let value = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular, "shortNames": short, "categories": ["polity"]},
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    });
    serde_json::from_value(value).expect("the definitions in this file are well formed")
}

fn columns() -> Vec<Value> {
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    vec![
        column("Kind", "string", ".policyRef.kind"),
        column("Policy", "string", ".policyRef.name"),
        column("Affects", "integer", ".affects.total"),
        column(
            "Accepted",
            "string",
            r#".conditions[?(@.type=="Accepted")].status"#,
        ),
        column(
            "Effective",
            "string",
            r#".conditions[?(@.type=="polity.dev/Effective")].reason"#,
        ),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn one_of(description: &str, choices: &[&str]) -> Value {
    json!({"type": "string", "description": description, "enum": choices})
}

fn list(description: &str, items: &Value) -> Value {
    json!({"type": "array", "description": description, "items": items})
}

fn object(description: &str, properties: &Value, required: &[&str]) -> Value {
    let mut schema =
        json!({"type": "object", "description": description, "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn resource(description: &str, properties: Value) -> Value {
    let mut all = json!({
        "apiVersion": text("The version of the schema of this object."),
        "kind": text("The kind of this object."),
        "metadata": {"type": "object"},
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut all, properties) {
        all.extend(own);
    }
    object(description, &all, &[])
}

fn policy_ref(description: &str) -> Value {
    let properties = json!({
        "name": text("Its name."),
        "namespace": text("Its namespace; absent for cluster-scoped policies."),
        "apiGroup": text("Its API group."),
        "kind": text("Its kind."),
        "generation": {"type": "integer", "format": "int64", "description": "The generation that was used."},
    });
    object(description, &properties, &["name", "kind"])
}

fn free(description: &str) -> Value {
    json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true})
}

fn effective_policy(description: &str) -> Value {
    let target = json!({
        "group": text("The API group of the object."),
        "kind": text("The kind of the object."),
        "name": text("The name of the object."),
        "sectionName": text("The section, where the result is that of a section."),
    });
    let provenance = json!({
        "field": text("The field, with the key of its kind and its stanza."),
        "from": {"type": "integer", "description": "The place in `objects` of the policy it comes from."},
        "level": text("The kind of the object that policy is attached to."),
    });
    let entry = json!({
        "controllerName": text("Who wrote the entry."),
        "basis": one_of("Whether Polity is the controller of the kind, or computes what its controller should do.", &["authoritative", "computed"]),
        "targetRef": object("The object the entry is about.", &target, &["kind", "name"]),
        "contexts": list("The paths that share this result.", &free("A path from the root to the object.")),
        "moreContexts": {"type": "integer", "description": "How many more paths there are."},
        "objects": list("The policies that act.", &policy_ref("A policy.")),
        "provenance": list("Where every field comes from.", &object("The source of a field.", &provenance, &["field"])),
        "redacted": list("Fields that are not shown.", &json!({"type": "string"})),
        "resultantPolicy": free("The result, usable as the spec of its kind."),
    });
    resource(
        description,
        json!({
            "policies": list("One entry for each kind, object and different result.", &object("A result.", &entry, &["controllerName"])),
            "truncated": {"type": "boolean", "description": "Whether results were left out because there is too much of them."},
        }),
    )
}

fn attachment_status(description: &str) -> Value {
    let policy = json!({
        "group": text("Its API group."),
        "kind": text("Its kind."),
        "namespace": text("Its namespace."),
        "name": text("Its name."),
        "uid": text("Its uid."),
        "generation": {"type": "integer", "format": "int64", "description": "The generation that was used."},
    });
    let count = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let counts = |description: &str| json!({"type": "object", "description": description, "additionalProperties": {"type": "integer", "format": "int64"}});
    let affects = json!({
        "total": count("Objects that get at least one field."),
        "byKind": counts("By kind."),
        "byNamespace": counts("By namespace: the largest hundred, then `other`."),
        "full": count("Objects where all fields are in force."),
        "partial": count("Objects where some are."),
        "overridden": count("Objects where none is."),
    });
    resource(
        description,
        json!({
            "policyRef": object("The policy.", &policy, &["kind", "name"]),
            "conditions": list("Accepted, ResolvedRefs and polity.dev/Effective.", &free("A condition.")),
            "ancestors": list("By ancestor, all of them.", &free("An ancestor with its conditions.")),
            "affects": object("How much it acts on.", &affects, &[]),
            "beatenBy": list("The first ten policies that take fields from it.", &free("A policy and the fields it takes.")),
            "moreBeaters": count("How many more there are."),
            "truncated": {"type": "boolean", "description": "Whether ancestors were left out because there are too many."},
        }),
    )
}
