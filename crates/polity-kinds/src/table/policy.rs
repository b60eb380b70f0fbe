//! Rows of kinds that restrict or allow: RBAC, admission, autoscaling, budgets, definitions.

use serde_json::{Value, json};

use super::{Row, at, join, list, scalar, text, workload};

pub(super) fn pod_disruption_budget(row: &Row<'_>) -> Vec<Value> {
    let bound = |path: &str| match row.at(path) {
        Value::Null => json!("N/A"),
        value => json!(scalar(value)),
    };
    vec![
        row.name(),
        bound("spec.minAvailable"),
        bound("spec.maxUnavailable"),
        json!(row.int("status.disruptionsAllowed")),
        row.age(),
    ]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.int("value")),
        json!(row.at("globalDefault").as_bool().unwrap_or_default()),
        row.age(),
        row.text_cell("preemptionPolicy"),
    ]
}

pub(super) fn role_binding(row: &Row<'_>) -> Vec<Value> {
    let subjects = |kind: &str| -> Vec<&Value> {
        row.list("subjects")
            .iter()
            .filter(|subject| text(subject, "kind") == kind)
            .collect()
    };
    let names = |kind: &str| {
        json!(join(
            subjects(kind)
                .into_iter()
                .map(|subject| text(subject, "name")),
            ", "
        ))
    };
    let accounts: Vec<String> = subjects("ServiceAccount")
        .into_iter()
        .map(|subject| match text(subject, "namespace") {
            "" => text(subject, "name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "name")),
        })
        .collect();
    vec![
        row.name(),
        json!(format!(
            "{}/{}",
            row.text("roleRef.kind"),
            row.text("roleRef.name")
        )),
        row.age(),
        names("User"),
        names("Group"),
        json!(accounts.join(", ")),
    ]
}

pub(super) fn admission(row: &Row<'_>, kind: &str) -> Vec<Value> {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            vec![row.name(), json!(row.list("webhooks").len()), row.age()]
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            vec![
                row.name(),
                row.text_cell("spec.policyName"),
                json!(param_ref(row.at("spec.paramRef"))),
                row.age(),
            ]
        }
        _ => {
            let rules = if kind == "MutatingAdmissionPolicy" {
                "spec.mutations"
            } else {
                "spec.validations"
            };
            let params = row.at("spec.paramKind");
            let params = if params.is_object() {
                format!("{}/{}", text(params, "apiVersion"), text(params, "kind"))
            } else {
                "<unset>".to_owned()
            };
            vec![
                row.name(),
                json!(row.list(rules).len()),
                json!(params),
                row.age(),
            ]
        }
    }
}

fn param_ref(params: &Value) -> String {
    match (text(params, "namespace"), text(params, "name")) {
        ("", "") if params.get("selector").is_some() => {
            scalar(&workload::selector(&params["selector"]))
        }
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

pub(super) fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        row.text("spec.scaleTargetRef.kind"),
        row.text("spec.scaleTargetRef.name")
    );
    let least = row.at("spec.minReplicas");
    vec![
        row.name(),
        json!(reference),
        json!(targets(
            row.list("spec.metrics"),
            row.list("status.currentMetrics")
        )),
        json!(if least.is_null() {
            "<unset>".to_owned()
        } else {
            scalar(least)
        }),
        json!(row.int("spec.maxReplicas")),
        json!(row.int("status.currentReplicas")),
        row.age(),
    ]
}

/// Current and wanted value of each metric.
fn targets(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(2)
        .map(|(index, spec)| target(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    if specs.len() > 2 {
        format!("{shown} + {} more...", specs.len() - 2)
    } else {
        shown
    }
}

fn target(spec: &Value, status: &Value) -> String {
    let ty = text(spec, "type");
    let source = match ty {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = at(spec, &format!("{source}.target"));
    let current = at(status, &format!("{source}.current"));
    let pair = |field: &str, percent: &str| {
        let of = |value: &Value, none: &str| match value.get(field) {
            Some(value) if !value.is_null() => format!("{}{percent}", scalar(value)),
            _ => none.to_owned(),
        };
        format!("{}/{}", of(current, "<unknown>"), of(wanted, "<auto>"))
    };
    let has_average = wanted.get("averageValue").is_some();
    match (ty, has_average) {
        ("Resource" | "ContainerResource", true) => format!(
            "{}: {}",
            text(spec, &format!("{source}.name")),
            pair("averageValue", "")
        ),
        ("Resource" | "ContainerResource", false) => {
            format!(
                "{}: {}",
                text(spec, &format!("{source}.name")),
                pair("averageUtilization", "%")
            )
        }
        ("Pods", _) => pair("averageValue", ""),
        (_, true) => format!("{} (avg)", pair("averageValue", "")),
        (_, false) => pair("value", ""),
    }
}

pub(super) fn custom_resource_definition(row: &Row<'_>) -> Vec<Value> {
    let served = row
        .list("spec.versions")
        .iter()
        .filter(|version| version["served"] == json!(true));
    let mut versions: Vec<String> = served
        .map(|version| {
            let storage = if version["storage"] == json!(true) {
                "(storage)"
            } else {
                ""
            };
            format!("{}{storage}", text(version, "name"))
        })
        .collect();
    versions.sort();
    let short_names = list(row.object, "spec.names.shortNames")
        .iter()
        .filter_map(Value::as_str);
    vec![
        row.name(),
        row.text_cell("spec.scope"),
        json!(versions.join(",")),
        row.text_cell("metadata.creationTimestamp"),
        row.text_cell("spec.group"),
        row.text_cell("spec.names.kind"),
        json!(join(short_names, ",")),
        json!(row.has_condition("Established")),
    ]
}
