//! Workloads: their selector finds the Pods of their template.

use std::collections::HashSet;

use polity_core::selector::LabelSelector;
use polity_core::{FieldErrorKind, FieldPath};
use serde_json::{Value, json};

use super::{Errors, Object, at, field, list, rules, text};

pub(super) fn deployment(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    selects_template(spec, "deployment", path, errors);
    runs_always(spec, "ReplicaSet", path, errors);
    let strategy_path = path.child("strategy");
    let strategy = field(spec, "strategy");
    let rolling = strategy.get("rollingUpdate");
    match (at(strategy, "type").as_str().unwrap_or_default(), rolling) {
        ("Recreate", Some(_)) => errors.forbidden(
            &strategy_path.child("rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        ("RollingUpdate", Some(rolling)) => {
            let path = strategy_path.child("rollingUpdate").child("maxUnavailable");
            let unavailable = at(rolling, "maxUnavailable");
            if amount(unavailable) == 0 && amount(at(rolling, "maxSurge")) == 0 {
                errors.invalid(&path, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(unavailable, &path, errors);
        }
        ("Recreate" | "RollingUpdate", _) => {}
        _ => {
            let shown = go_strategy(strategy);
            let detail = "supported values: \"Recreate\", \"RollingUpdate\"";
            errors.shown(FieldErrorKind::NotSupported, &strategy_path, &shown, detail);
        }
    }
    let deadline = field(spec, "progressDeadlineSeconds");
    let ready = field(spec, "minReadySeconds").as_i64().unwrap_or_default();
    if deadline.as_i64().is_some_and(|seconds| seconds <= ready) {
        errors.invalid(
            &path.child("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

pub(super) fn replica_set(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    // A real server also reports "deployment" here.
    selects_template(spec, "deployment", path, errors);
    runs_always(spec, "ReplicaSet", path, errors);
}

pub(super) fn stateful_set(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    selects_template(spec, "statefulset", path, errors);
    runs_always(spec, "StatefulSet", path, errors);
    if !["OrderedReady", "Parallel"].contains(&text(spec, "podManagementPolicy")) {
        let path = path.child("podManagementPolicy");
        errors.invalid(
            &path,
            field(spec, "podManagementPolicy"),
            "must be 'OrderedReady' or 'Parallel'",
        );
    }
    let strategy = field(spec, "updateStrategy");
    let path = path.child("updateStrategy");
    match at(strategy, "type").as_str().unwrap_or_default() {
        "OnDelete" => {
            if let Some(rolling) = strategy.get("rollingUpdate") {
                errors.invalid(
                    &path.child("rollingUpdate"),
                    rolling,
                    "only allowed for updateStrategy 'RollingUpdate'",
                );
            }
        }
        "RollingUpdate" => {}
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.shown(
                FieldErrorKind::Invalid,
                &path,
                &go_strategy(strategy),
                detail,
            );
        }
    }
}

/// The StatefulSet spec with the volumes that its Pods will have: one for each claim template, which replaces a volume
/// of the same name. `None` without claim templates.
pub(super) fn with_claimed_volumes(spec: &Object) -> Option<Object> {
    let claims = list(spec, "volumeClaimTemplates").iter();
    let names: Vec<&str> = claims
        .filter_map(|claim| claim.pointer("/metadata/name")?.as_str())
        .collect();
    if names.is_empty() {
        return None;
    }
    let mut spec = spec.clone();
    let template = spec.get_mut("template")?.get_mut("spec")?.as_object_mut()?;
    let volumes = template.entry("volumes").or_insert_with(|| json!([]));
    let volumes = volumes.as_array_mut()?;
    let claimed: HashSet<&str> = names.iter().copied().collect();
    volumes.retain(|volume| !claimed.contains(at(volume, "name").as_str().unwrap_or_default()));
    volumes.extend(
        names
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})),
    );
    Some(spec)
}

pub(super) fn daemon_set(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    selects_template(spec, "daemonset", path, errors);
    runs_always(spec, "DaemonSet", path, errors);
    let strategy = field(spec, "updateStrategy");
    let path = path.child("updateStrategy");
    match (
        at(strategy, "type").as_str().unwrap_or_default(),
        strategy.get("rollingUpdate"),
    ) {
        ("RollingUpdate", Some(rolling)) => {
            let path = path.child("rollingUpdate");
            let (unavailable, surge) = (at(rolling, "maxUnavailable"), at(rolling, "maxSurge"));
            at_most_all(unavailable, &path.child("maxUnavailable"), errors);
            at_most_all(surge, &path.child("maxSurge"), errors);
            match (amount(unavailable), amount(surge)) {
                (0, 0) => errors.required(
                    &path.child("maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                ),
                (1.., 1..) => {
                    errors.invalid(
                        &path.child("maxSurge"),
                        surge,
                        "may not be set when maxUnavailable is non-zero",
                    );
                }
                _ => {}
            }
        }
        ("RollingUpdate", None) => errors.required(&path.child("rollingUpdate"), ""),
        ("OnDelete", _) => {}
        _ => {
            let detail = "supported values: \"RollingUpdate\", \"OnDelete\"";
            errors.shown(
                FieldErrorKind::NotSupported,
                &path,
                &go_strategy(strategy),
                detail,
            );
        }
    }
}

pub(super) fn replication_controller(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let selector = field(spec, "selector")
        .as_object()
        .filter(|selector| !selector.is_empty());
    if selector.is_none() {
        errors.required(&path.child("selector"), "");
    }
    if field(spec, "template").is_null() {
        errors.required(&path.child("template"), "");
        return;
    }
    let labels = at(field(spec, "template"), "metadata.labels");
    let finds = |selector: &Object| {
        selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    };
    if !selector.is_none_or(finds) {
        does_not_match(labels, path, errors);
    }
    runs_always(spec, "ReplicationController", path, errors);
}

/// Rules for a Job and for the template in a CronJob.
pub(super) fn job_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let policy = at(field(spec, "template"), "spec.restartPolicy");
    let policy_path = path.child("template").child("spec").child("restartPolicy");
    match policy.as_str().unwrap_or_default() {
        "" | "Always" => errors.required(&policy_path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if field(spec, "podFailurePolicy").is_null() => {}
        "OnFailure" => {
            errors.invalid(
                &policy_path,
                policy,
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        _ => errors.not_supported(&policy_path, policy, &["OnFailure", "Never"]),
    }
    if text(spec, "completionMode") == "Indexed" {
        if field(spec, "completions").is_null() {
            errors.required(
                &path.child("completions"),
                "when completion mode is Indexed",
            );
        }
    } else {
        for only_indexed in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            let value = field(spec, only_indexed);
            if !value.is_null() {
                errors.invalid(
                    &path.child(only_indexed),
                    value,
                    "requires indexed completion mode",
                );
            }
        }
    }
}

pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = FieldPath::of("spec");
    let Some(spec) = new.get("spec").and_then(Value::as_object) else {
        return;
    };
    if field(spec, "selector").is_null() {
        errors.required(&path.child("selector"), "");
    }
    matches_template(spec, &path, errors);
    if old.is_none() {
        generated_labels(new, spec, &path, errors);
    }
    let Some(old) = old else { return };
    let suspended = at(old, "spec.suspend") == &json!(true);
    if !suspended {
        errors.unchanged(
            &path.child("template"),
            at(new, "spec.template"),
            at(old, "spec.template"),
        );
    }
    if at(old, "spec.completionMode") != "Indexed" {
        errors.unchanged(
            &path.child("completions"),
            at(new, "spec.completions"),
            at(old, "spec.completions"),
        );
    }
}

/// Labels the server writes may not be set to something else.
fn generated_labels(job: &Value, spec: &Object, path: &FieldPath, errors: &mut Errors) {
    if field(spec, "manualSelector") == &json!(true) {
        return;
    }
    let uid = at(job, "metadata.uid");
    let name = at(job, "metadata.name");
    let labels = at(field(spec, "template"), "metadata.labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let path = path.child("template").child("metadata").child("labels");
    for (label, expected) in expected
        .into_iter()
        .filter(|(_, expected)| expected.is_string())
    {
        let Some(actual) = labels.get(label) else {
            continue;
        };
        if actual != expected {
            let detail = format!("must be '{}'", expected.as_str().unwrap_or_default());
            errors.invalid(&path.key(label), labels, &detail);
        }
    }
}

pub(super) fn cron_job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let name = at(new, "metadata.name");
    // The name of a Job is this one and eleven characters more.
    if old.is_none() && name.as_str().is_some_and(|name| name.len() > 52) {
        errors.invalid(
            &FieldPath::of("metadata").child("name"),
            name,
            "must be no more than 52 characters",
        );
    }
    let schedule = at(new, "spec.schedule");
    let path = FieldPath::of("spec").child("schedule");
    if let Some(text) = schedule
        .as_str()
        .filter(|text| !text.is_empty() && !is_schedule(text))
    {
        let fields: Vec<&str> = text.split_whitespace().collect();
        errors.invalid(
            &path,
            schedule,
            &format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            ),
        );
    }
}

/// Five fields, or a macro such as `@daily`. The values of the fields are not checked here.
fn is_schedule(text: &str) -> bool {
    if let Some(word) = text.strip_prefix('@') {
        let words = [
            "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly",
        ];
        return words.contains(&word) || word.starts_with("every ");
    }
    text.split_whitespace().count() == 5
}

/// The selector exists, is not empty, and matches the Pod template.
fn selects_template(spec: &Object, kind: &str, path: &FieldPath, errors: &mut Errors) {
    let selector = field(spec, "selector");
    if selector.is_object() && LabelSelector::from_json(selector, path).is_err() {
        match kind {
            "daemonset" => {}
            "statefulset" => errors.invalid(&path.child("selector"), selector, ""),
            _ => errors.invalid(&path.child("selector"), selector, "invalid label selector"),
        }
    }
    let is_empty = |part: &str| match at(selector, part) {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if selector.is_object() && is_empty("matchLabels") && is_empty("matchExpressions") {
        errors.invalid(
            &path.child("selector"),
            selector,
            &format!("empty selector is invalid for {kind}"),
        );
        return;
    }
    matches_template(spec, path, errors);
}

fn matches_template(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let selector = field(spec, "selector");
    let labels = at(field(spec, "template"), "metadata.labels");
    // No selector finds nothing; one that cannot be read was reported by its own check.
    if selector.is_null() {
        does_not_match(labels, path, errors);
    } else if let Ok(selector) = LabelSelector::from_json(selector, path)
        && !selector.matches(labels)
    {
        does_not_match(labels, path, errors);
    }
}

fn does_not_match(labels: &Value, path: &FieldPath, errors: &mut Errors) {
    let path = path.child("template").child("metadata").child("labels");
    errors.invalid(&path, labels, "`selector` does not match template `labels`");
}

/// Pods of a replica controller always restart.
fn runs_always(spec: &Object, kind: &str, path: &FieldPath, errors: &mut Errors) {
    let pod = field(spec, "template").get("spec").unwrap_or(&Value::Null);
    let path = path.child("template").child("spec");
    let policy = at(pod, "restartPolicy");
    if policy.as_str().is_some_and(|policy| policy != "Always") {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if pod.get("activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), &detail);
    }
}

/// A strategy as a real server shows it: with the names of its Go fields.
fn go_strategy(strategy: &Value) -> String {
    let rolling = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
    format!(
        "{{\"Type\":{},\"RollingUpdate\":{rolling}}}",
        at(strategy, "type")
    )
}

/// The number of a number or percentage.
fn amount(value: &Value) -> u64 {
    match value {
        Value::String(text) => rules::percent(text).unwrap_or_default(),
        other => other.as_u64().unwrap_or_default(),
    }
}

pub(super) fn at_most_all(value: &Value, path: &FieldPath, errors: &mut Errors) {
    if value
        .as_str()
        .and_then(rules::percent)
        .is_some_and(|percent| percent > 100)
    {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}
