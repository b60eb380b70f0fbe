//! Rows of the workload kinds.

use jiff::Timestamp;
use polity_core::FieldPath;
use polity_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::{Row, human_duration, join, labels, list, or, text};

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, "template.spec.containers");
    vec![
        row.name(),
        names,
        images,
        json!(labels(row.at("template.metadata.labels"))),
    ]
}

pub(super) fn replication_controller(row: &Row<'_>) -> Vec<Value> {
    replicas(row, json!(labels(row.at("spec.selector"))))
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    replicas(row, selector(row.at("spec.selector")))
}

fn replicas(row: &Row<'_>, selector: Value) -> Vec<Value> {
    let [names, images] = containers(row, "spec.template.spec.containers");
    vec![
        row.name(),
        json!(row.int("spec.replicas")),
        json!(row.int("status.replicas")),
        json!(row.int("status.readyReplicas")),
        row.age(),
        names,
        images,
        selector,
    ]
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, "spec.template.spec.containers");
    vec![
        row.name(),
        ready_of_wanted(row),
        json!(row.int("status.updatedReplicas")),
        json!(row.int("status.availableReplicas")),
        row.age(),
        names,
        images,
        selector(row.at("spec.selector")),
    ]
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, "spec.template.spec.containers");
    vec![row.name(), ready_of_wanted(row), row.age(), names, images]
}

fn ready_of_wanted(row: &Row<'_>) -> Value {
    json!(format!(
        "{}/{}",
        row.int("status.readyReplicas"),
        row.int("spec.replicas")
    ))
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, "spec.template.spec.containers");
    vec![
        row.name(),
        json!(row.int("status.desiredNumberScheduled")),
        json!(row.int("status.currentNumberScheduled")),
        json!(row.int("status.numberReady")),
        json!(row.int("status.updatedNumberScheduled")),
        json!(row.int("status.numberAvailable")),
        json!(labels(row.at("spec.template.spec.nodeSelector"))),
        row.age(),
        names,
        images,
        selector(row.at("spec.selector")),
    ]
}

pub(super) fn controller_revision(row: &Row<'_>) -> Vec<Value> {
    let owner = row
        .list("metadata.ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == json!(true));
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = text(owner, "kind").to_lowercase();
            let group = text(owner, "apiVersion")
                .split_once('/')
                .map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(owner, "name"))
        },
    );
    vec![
        row.name(),
        json!(controller),
        json!(row.int("revision")),
        row.age(),
    ]
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let succeeded = row.int("status.succeeded");
    let completions = match (
        row.at("spec.completions").as_i64(),
        row.int("spec.parallelism"),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    };
    let time = |path: &str| row.text(path).parse::<Timestamp>().ok();
    let duration = time("status.startTime")
        .map(|start| human_duration(start, time("status.completionTime").unwrap_or(row.now)))
        .unwrap_or_default();
    let [names, images] = containers(row, "spec.template.spec.containers");
    vec![
        row.name(),
        json!(job_status(row)),
        json!(completions),
        json!(duration),
        row.age(),
        names,
        images,
        selector(row.at("spec.selector")),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    let first =
        |conditions: &[&'static str]| conditions.iter().copied().find(|ty| row.has_condition(ty));
    if let Some(end) = first(&["Complete", "Failed"]) {
        return end;
    }
    if row.is_terminating() {
        return "Terminating";
    }
    first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]).unwrap_or("Running")
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let last = match row.text("status.lastScheduleTime") {
        "" => "<none>".to_owned(),
        time => row.since(time),
    };
    let suspend = match row.at("spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let [names, images] = containers(row, "spec.jobTemplate.spec.template.spec.containers");
    vec![
        row.name(),
        row.text_cell("spec.schedule"),
        json!(or(row.text("spec.timeZone"), "<none>")),
        json!(suspend),
        json!(row.list("status.active").len()),
        json!(last),
        row.age(),
        names,
        images,
        selector(row.at("spec.jobTemplate.spec.selector")),
    ]
}

/// Names and images, each joined by commas.
fn containers(row: &Row<'_>, path: &str) -> [Value; 2] {
    let containers = list(row.object, path);
    ["name", "image"].map(|field| {
        json!(join(
            containers.iter().map(|container| text(container, field)),
            ","
        ))
    })
}

/// A label selector as one would type it.
pub(super) fn selector(value: &Value) -> Value {
    match LabelSelector::from_json(value, &FieldPath::root()) {
        Ok(selector) => json!(or(&selector.to_string(), "<none>")),
        Err(_) => json!("<error>"),
    }
}
