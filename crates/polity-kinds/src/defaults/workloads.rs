//! Computed defaults of the workload kinds.

use serde_json::{Value, json};

use super::{Object, set_default, text};

pub(super) fn rolling_update(strategy: &mut Object) {
    if text(strategy, "type") == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
    }
}

/// Unlike the others, a StatefulSet gets a rollingUpdate only together with its type.
pub(super) fn stateful_set_update(strategy: &mut Object) {
    if text(strategy, "type").is_empty() {
        strategy.insert("type".into(), json!("RollingUpdate"));
        set_default(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate")
    {
        set_default(rolling, "partition", 0);
        set_default(rolling, "maxUnavailable", 1);
    }
}

/// Claim templates are complete objects with apiVersion and kind.
pub(super) fn volume_claim_templates(spec: &mut Object) {
    for claim in super::objects(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".into(), json!("v1"));
        claim.insert("kind".into(), json!("PersistentVolumeClaim"));
    }
}

pub(super) fn job(job: &mut Object) {
    if let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) {
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            spec.insert("completions".into(), json!(1));
        }
        set_default(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        set_default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        set_default(spec, "completionMode", "NonIndexed");
        set_default(spec, "suspend", false);
        set_default(spec, "manualSelector", false);
        let on_failure = spec.contains_key("podFailurePolicy");
        set_default(
            spec,
            "podReplacementPolicy",
            if on_failure {
                "Failed"
            } else {
                "TerminatingOrFailed"
            },
        );
    }
    labels_from_template(job);
}

pub(super) fn replication_controller(controller: &mut Object) {
    if let Some(spec) = controller.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(labels) = template_labels(spec)
    {
        set_default(spec, "selector", labels);
    }
    labels_from_template(controller);
}

/// A workload without labels takes those of its Pods.
fn labels_from_template(object: &mut Object) {
    let labels = object
        .get("spec")
        .and_then(Value::as_object)
        .and_then(template_labels);
    if let (Some(labels), Some(Value::Object(metadata))) = (labels, object.get_mut("metadata")) {
        set_default(metadata, "labels", labels);
    }
}

fn template_labels(spec: &Object) -> Option<Value> {
    spec.get("template")?
        .get("metadata")?
        .get("labels")
        .cloned()
}
