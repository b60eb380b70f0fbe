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
    let effective = "EffectivePolicy shows the policies in effect for the objects of this name, with the source of every field.";
    let status = "AttachmentStatus shows which objects a policy affects and its conditions, independent of the controller of its kind.";
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
        "apiVersion": text("APIVersion defines the versioned schema of this representation of an object."),
        "kind": text("Kind is the REST resource that this object represents."),
        "metadata": {"type": "object"},
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut all, properties) {
        all.extend(own);
    }
    object(description, &all, &[])
}

fn policy_ref(description: &str) -> Value {
    let properties = json!({
        "name": text("Name of the policy."),
        "namespace": text("Namespace of the policy. Not set for cluster-scoped policies."),
        "apiGroup": text("API group of the policy."),
        "kind": text("Kind of the policy."),
        "generation": {"type": "integer", "format": "int64", "description": "Generation of the policy that was evaluated."},
    });
    object(description, &properties, &["name", "kind"])
}

fn free(description: &str) -> Value {
    json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true})
}

fn effective_policy(description: &str) -> Value {
    let target = json!({
        "group": text("API group of the object."),
        "kind": text("Kind of the object."),
        "name": text("Name of the object."),
        "sectionName": text("Section of the object, if the entry is about a section."),
    });
    let provenance = json!({
        "field": text("Path of the field, with the key of its kind and its stanza."),
        "from": {"type": "integer", "description": "Index in `objects` of the policy that sets the field."},
        "level": text("Kind of the object that the policy is attached to."),
    });
    let entry = json!({
        "controllerName": text("Controller that wrote the entry."),
        "basis": one_of("`authoritative` if Polity is the controller of the policy kind, `computed` if the result predicts what its controller does.", &["authoritative", "computed"]),
        "targetRef": object("Object that the entry is about.", &target, &["kind", "name"]),
        "contexts": list("Paths through the hierarchy that have this result.", &free("Path from the root of the hierarchy to the object.")),
        "moreContexts": {"type": "integer", "description": "Number of further paths that are not listed."},
        "objects": list("Policies that affect the object.", &policy_ref("Reference to a policy.")),
        "provenance": list("Source of every field.", &object("Source of a field.", &provenance, &["field"])),
        "redacted": list("Paths of fields whose values are redacted.", &json!({"type": "string"})),
        "resultantPolicy": free("Combined policy, in the form of the spec of its kind."),
    });
    resource(
        description,
        json!({
            "policies": list("Entries by policy kind, object and distinct result.", &object("Effective policy of one kind for one object.", &entry, &["controllerName"])),
            "truncated": {"type": "boolean", "description": "Whether entries were omitted because of the size limit."},
        }),
    )
}

fn attachment_status(description: &str) -> Value {
    let policy = json!({
        "group": text("API group of the policy."),
        "kind": text("Kind of the policy."),
        "namespace": text("Namespace of the policy."),
        "name": text("Name of the policy."),
        "uid": text("UID of the policy."),
        "generation": {"type": "integer", "format": "int64", "description": "Generation of the policy that was evaluated."},
    });
    let count = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let counts = |description: &str| json!({"type": "object", "description": description, "additionalProperties": {"type": "integer", "format": "int64"}});
    let affects = json!({
        "total": count("Number of objects that take at least one field from the policy."),
        "byKind": counts("Number of affected objects by kind."),
        "byNamespace": counts("Number of affected objects by namespace: the 100 largest, and `other` for the rest."),
        "full": count("Number of objects on which all fields of the policy are in effect."),
        "partial": count("Number of objects on which some fields of the policy are in effect."),
        "overridden": count("Number of objects on which no field of the policy is in effect."),
    });
    resource(
        description,
        json!({
            "policyRef": object("Reference to the policy.", &policy, &["kind", "name"]),
            "conditions": list("Conditions `Accepted`, `ResolvedRefs` and `polity.dev/Effective`.", &free("A condition of the policy.")),
            "ancestors": list("Status of the policy for each ancestor.", &free("Ancestor and the conditions of the policy for it.")),
            "affects": object("Number of objects that the policy affects.", &affects, &[]),
            "beatenBy": list("Policies that override fields of this policy, at most 10.", &free("Policy and the fields that it overrides.")),
            "moreBeaters": count("Number of further policies that are not listed."),
            "truncated": {"type": "boolean", "description": "Whether ancestors were omitted because of the size limit."},
        }),
    )
}
