//! Template objects: how they are written, and whether one is up to date.

use crate::objects::{Policy, PolicyTemplate};
use polity_api::policy::v1::RemediationAction;
use polity_core::governance::{Action, names};
use serde_json::{Map, Value, json};

use super::effective_action;

const CONSTRAINTS: &str = "constraints.gatekeeper.sh/";

/// The object of a template as it is to be written.
pub(super) fn build(
    policy: &Policy,
    cluster_name: &str,
    template: &PolicyTemplate,
    namespaced: bool,
) -> Value {
    let mut object = template.definition.clone();
    let namespace = policy.namespace.as_str();
    let labels = [
        (names::CLUSTER_NAME, cluster_name),
        (names::CLUSTER_NAMESPACE, namespace),
        (names::OLD_CLUSTER_NAME, cluster_name),
        (names::OLD_CLUSTER_NAMESPACE, namespace),
        (names::POLICY, policy.name.as_str()),
    ];
    let metadata = child(&mut object, "metadata");
    let written = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(written) = written {
        written.extend(labels.map(|(name, value)| (name.to_owned(), json!(value))));
    }
    if namespaced {
        metadata.insert("namespace".to_owned(), json!(namespace));
        metadata.insert(
            "ownerReferences".to_owned(),
            json!([owner_reference(policy)]),
        );
    }
    set_action(&mut object, policy, template);
    object
}

fn owner_reference(policy: &Policy) -> Value {
    json!({
        "apiVersion": names::V1,
        "kind": "Policy",
        "name": policy.name,
        "uid": policy.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Sets the action in the field that the kind has for it.
fn set_action(object: &mut Value, policy: &Policy, template: &PolicyTemplate) {
    let Some(action) = effective_action(policy, template).filter(|_| object.get("spec").is_some())
    else {
        return;
    };
    let enforces = action == Action::Enforce;
    let spelled = policy.spec.wire().remediation_action;
    if template.api_version().starts_with(CONSTRAINTS) {
        let word = if enforces { "deny" } else { "warn" };
        child(object, "spec").insert("enforcementAction".to_owned(), json!(word));
    } else if template.is_admission_policy() {
        if policy.spec.action.is_some() {
            let spec = child(object, "spec");
            spec.insert(
                "mode".to_owned(),
                json!(if enforces { "protect" } else { "monitor" }),
            );
            if !enforces {
                // Observing must never block a request.
                spec.insert("failurePolicy".to_owned(), json!("Ignore"));
            }
        }
    } else if template.kind() != "ConstraintTemplate" {
        let own = template
            .definition
            .pointer("/spec/remediationAction")
            .and_then(Value::as_str);
        let is_inform_only = own.is_some_and(|text| text.eq_ignore_ascii_case("informonly"));
        let word = spelled
            .filter(|_| !is_inform_only)
            .map_or(action.as_str(), RemediationAction::as_str);
        if is_inform_only || policy.spec.action.is_some() {
            child(object, "spec").insert("remediationAction".to_owned(), json!(word));
        }
    }
}

fn child<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let fields = object.as_object_mut().expect("made an object above");
    let value = fields.entry(field).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("made an object above")
}

/// Whether an object belongs to this policy: by owner reference or, without one, by label.
pub(super) fn belongs_to(object: &Value, policy: &Policy) -> bool {
    match owner(object) {
        Some(owner) => owner == policy.name,
        None => {
            object
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(names::POLICY))
                == Some(&json!(policy.name))
        }
    }
}

/// The policy that an object belongs to by its owner reference.
pub(super) fn owner(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["kind"] == "Policy")?;
    owner["name"].as_str()
}

/// Whether an object changes its cluster.
pub(super) fn enforces(object: &Value) -> bool {
    let action = object
        .pointer("/spec/remediationAction")
        .and_then(Value::as_str);
    action.and_then(Action::parse) == Some(Action::Enforce)
}

/// Whether an object need not be written: spec and owners equal, labels and annotations at least those wanted.
pub(super) fn is_as_wanted(existing: &Value, wanted: &Value) -> bool {
    let spec =
        |object: &Value| with_defaults(object, object.get("spec").cloned().unwrap_or_default());
    let owners = |object: &Value| {
        object
            .pointer("/metadata/ownerReferences")
            .cloned()
            .unwrap_or_else(|| json!([]))
    };
    spec(existing) == spec(wanted)
        && same_owners(&owners(existing), &owners(wanted))
        && has_all(existing, wanted, "/metadata/labels")
        && has_all(existing, wanted, "/metadata/annotations")
}

fn same_owners(existing: &Value, wanted: &Value) -> bool {
    let names = |owners: &Value| {
        let owners = owners.as_array().into_iter().flatten();
        owners
            .map(|owner| {
                (
                    owner["kind"].clone(),
                    owner["name"].clone(),
                    owner["uid"].clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    names(existing) == names(wanted)
}

fn has_all(existing: &Value, wanted: &Value, pointer: &str) -> bool {
    let Some(Value::Object(wanted)) = wanted.pointer(pointer) else {
        return true;
    };
    let existing = existing.pointer(pointer);
    wanted
        .iter()
        .all(|(name, value)| existing.and_then(|fields| fields.get(name)) == Some(value))
}

/// A spec with the defaults of its definition.
fn with_defaults(object: &Value, mut spec: Value) -> Value {
    if !spec.is_object() {
        return spec;
    }
    match object["kind"].as_str() {
        Some("ConfigurationPolicy") => {
            set_default(&mut spec, "pruneObjectBehavior", json!("None"));
            for template in spec["object-templates"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                set_default(template, "recreateOption", json!("None"));
            }
        }
        Some("OperatorPolicy") => {
            set_default(&mut spec, "complianceConfig", json!({}));
            for (name, value) in [
                ("catalogSourceUnhealthy", "Compliant"),
                ("deploymentsUnavailable", "NonCompliant"),
                ("upgradesAvailable", "Compliant"),
                ("deprecationsPresent", "Compliant"),
                ("minorChannelUpgradeAvailable", "Compliant"),
            ] {
                set_default(&mut spec["complianceConfig"], name, json!(value));
            }
        }
        _ if object["apiVersion"]
            .as_str()
            .is_some_and(|text| text.starts_with(names::ADMISSION_GROUP)) =>
        {
            set_default(&mut spec, "policyServer", json!("default"));
            set_default(&mut spec, "mode", json!("protect"));
            set_default(&mut spec, "timeoutSeconds", json!(10));
            set_default(&mut spec, "backgroundAudit", json!(true));
        }
        _ => {}
    }
    spec
}

fn set_default(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.entry(field).or_insert(value);
    }
}

/// The object with what is wanted: spec and owners replaced, labels and annotations added.
pub(super) fn merged(existing: &Value, wanted: &Value) -> Value {
    let mut object = existing.clone();
    if let Some(spec) = wanted.get("spec") {
        child(&mut object, "spec");
        object["spec"] = spec.clone();
    }
    let metadata = child(&mut object, "metadata");
    if let Some(owners) = wanted.pointer("/metadata/ownerReferences") {
        metadata.insert("ownerReferences".to_owned(), owners.clone());
    }
    for field in ["labels", "annotations"] {
        let Some(Value::Object(wanted)) = wanted["metadata"].get(field) else {
            continue;
        };
        let found = metadata.entry(field).or_insert_with(|| json!({}));
        if let Value::Object(found) = found {
            found.extend(wanted.clone());
        }
    }
    object
}
