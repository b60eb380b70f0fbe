//! The defaults of a real server: constants from a table, by type, and the few values that are computed.
//!
//! Defaulting walks an object along its Go types, so a Pod template is defaulted wherever it occurs. The defaults of a
//! parent are set before those of its children, so the rules of the child complete the values that the parent inserts.

mod pods;
mod rest;
mod workloads;

use std::collections::HashMap;
use std::sync::LazyLock;

use polity_core::GroupVersionKind;
use serde_json::{Map, Value};

use super::normalise::normalise;
use super::wire::{self, FieldType, Message, MessageId, Presence};

type Object = Map<String, Value>;

/// Normalises `object` and sets its defaults, as decoding on a real server does.
///
/// This runs on every decode: of a request, after a patch, after a webhook. The server handles fields that are only
/// set on create.
pub fn apply_defaults(gvk: &GroupVersionKind, object: &mut Value) {
    normalise(gvk, object);
    if let (Some(message), Some(fields)) = (wire::table().of_kind(gvk), object.as_object_mut()) {
        default_message(message, fields);
    }
}

static CONSTANTS: LazyLock<HashMap<&'static str, Vec<(&'static str, Value)>>> =
    LazyLock::new(|| {
        let mut by_type: HashMap<_, Vec<_>> = HashMap::new();
        for line in include_str!("defaults.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let columns: Vec<&'static str> = line.split('\t').collect();
            let [ty, field, value] = columns[..] else {
                unreachable!("defaults.tsv has three columns: {line:?}")
            };
            let value =
                serde_json::from_str(value).expect("the third column of defaults.tsv is JSON");
            by_type.entry(ty).or_default().push((field, value));
        }
        by_type
    });

fn default_message(id: MessageId, object: &mut Object) {
    let message = wire::table().message(id);
    for (field, value) in CONSTANTS.get(message.name).into_iter().flatten() {
        if object
            .get(*field)
            .is_none_or(|given| is_unset(message, field, given))
        {
            object.insert((*field).to_owned(), value.clone());
        }
    }
    default_computed(message.name, object);
    for field in &message.fields {
        match (&field.ty, field.presence) {
            (FieldType::Message(inner), Presence::Inline) => default_message(*inner, object),
            (ty, _) => {
                if let Some(value) = object.get_mut(field.name) {
                    default_value(ty, value);
                }
            }
        }
    }
}

/// Whether a value is the zero value of a field that is always present.
fn is_unset(message: &Message, field: &str, given: &Value) -> bool {
    let always = message
        .fields
        .iter()
        .any(|known| known.name == field && known.presence == Presence::Always);
    always && given.as_str() == Some("")
}

fn default_value(ty: &FieldType, value: &mut Value) {
    match (ty, value) {
        (FieldType::Message(message), Value::Object(fields)) => default_message(*message, fields),
        (FieldType::List(of), Value::Array(items)) => {
            for item in items {
                default_value(of, item);
            }
        }
        (FieldType::Map(of), Value::Object(entries)) => entries
            .values_mut()
            .for_each(|value| default_value(of, value)),
        _ => {}
    }
}

/// Defaults that depend on something.
fn default_computed(ty: &str, object: &mut Object) {
    match ty {
        "core.v1.Pod" => pods::pod(object),
        "core.v1.PodSpec" => pods::pod_spec(object),
        "core.v1.PodStatus" => pods::pod_status(object),
        "core.v1.Container" | "core.v1.EphemeralContainerCommon" => {
            pods::pull_policy(object, "image", "imagePullPolicy");
        }
        "core.v1.ImageVolumeSource" => pods::pull_policy(object, "reference", "pullPolicy"),
        "core.v1.Volume" => pods::volume(object),
        "apps.v1.DeploymentStrategy" | "apps.v1.DaemonSetUpdateStrategy" => {
            workloads::rolling_update(object);
        }
        "apps.v1.StatefulSetUpdateStrategy" => workloads::stateful_set_update(object),
        "apps.v1.StatefulSetSpec" => workloads::volume_claim_templates(object),
        "batch.v1.Job" => workloads::job(object),
        "core.v1.ReplicationController" => workloads::replication_controller(object),
        "core.v1.Service" => rest::service(object),
        "core.v1.Secret" => rest::secret(object),
        "core.v1.Namespace" => rest::namespace(object),
        "core.v1.NodeStatus" => rest::node_status(object),
        "core.v1.LimitRangeItem" => rest::limit_range_item(object),
        "networking.v1.NetworkPolicySpec" => rest::network_policy(object),
        "rbac.v1.Subject" => rest::subject(object),
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => rest::autoscaler_behavior(object),
        _ => {}
    }
}

/// Inserts `value` unless the field is set.
fn set_default(object: &mut Object, field: &str, value: impl Into<Value>) {
    if !object.contains_key(field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// The text of a field; empty when there is none.
fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The objects in a list field.
fn objects<'a>(object: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Object> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Copies the entries of `object[from]` that `object[to]` lacks.
fn fill_from(object: &mut Object, from: &str, to: &str) {
    let Some(Value::Object(source)) = object.get(from).cloned() else {
        return;
    };
    let target = object
        .entry(to)
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(target) = target.as_object_mut() {
        for (key, value) in source {
            target.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests;
