//! The row of a Pod, with one summary of the state of its containers.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Row, at, int, list, or, text};

pub(super) fn pod(row: &Row<'_>) -> Vec<Value> {
    let summary = summarise(row);
    let restarts = match summary.last_restart {
        Some(time) if summary.n_restarts != 0 => {
            format!(
                "{} ({} ago)",
                summary.n_restarts,
                super::human_duration(time, row.now)
            )
        }
        _ => summary.n_restarts.to_string(),
    };
    let ip = row
        .list("status.podIPs")
        .first()
        .map_or("", |ip| text(ip, "ip"));
    vec![
        row.name(),
        json!(format!("{}/{}", summary.n_ready, summary.n_containers)),
        json!(summary.reason),
        json!(restarts),
        row.age(),
        json!(or(ip, "<none>")),
        json!(or(row.text("spec.nodeName"), "<none>")),
        json!(or(row.text("status.nominatedNodeName"), "<none>")),
        json!(readiness_gates(row)),
    ]
}

#[derive(Default)]
struct Summary {
    reason: String,
    n_containers: usize,
    n_ready: usize,
    n_restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn count_restarts(&mut self, status: &Value) {
        self.n_restarts = self.n_restarts.saturating_add(int(status, "restartCount"));
        let finished = text(status, "lastState.terminated.finishedAt")
            .parse::<Timestamp>()
            .ok();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn summarise(row: &Row<'_>) -> Summary {
    let phase = row.text("status.phase");
    let mut summary = Summary {
        reason: or(row.text("status.reason"), phase).to_owned(),
        ..Summary::default()
    };
    let gated =
        |c: &Value| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated";
    if row.list("status.conditions").iter().any(gated) {
        summary.reason = "SchedulingGated".into();
    }
    let sidecars: HashSet<&str> = row
        .list("spec.initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    summary.n_containers = row.list("spec.containers").len() + sidecars.len();
    let initialising = summarise_init(row, &sidecars, &mut summary);
    if !initialising || row.has_condition("Initialized") {
        summarise_containers(row, &sidecars, &mut summary);
    }
    if row.is_terminating() {
        if row.text("status.reason") == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if !["Succeeded", "Failed"].contains(&phase) {
            summary.reason = "Terminating".into();
        }
    }
    summary
}

/// Evaluates init containers up to the first that has not finished. Returns whether there is one.
fn summarise_init(row: &Row<'_>, sidecars: &HashSet<&str>, summary: &mut Summary) -> bool {
    let n_init = row.list("spec.initContainers").len();
    for (index, status) in row.list("status.initContainerStatuses").iter().enumerate() {
        summary.count_restarts(status);
        let terminated = at(status, "state.terminated");
        if terminated.is_object() && int(terminated, "exitCode") == 0 {
            continue;
        }
        if sidecars.contains(text(status, "name")) && status["started"] == json!(true) {
            summary.n_ready += usize::from(status["ready"] == json!(true));
            continue;
        }
        let waiting = text(status, "state.waiting.reason");
        summary.reason = if terminated.is_object() {
            format!("Init:{}", end_of(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{n_init}")
        };
        return true;
    }
    false
}

fn summarise_containers(row: &Row<'_>, sidecars: &HashSet<&str>, summary: &mut Summary) {
    // Restarts of init containers count only while the Pod initialises, those of sidecars always.
    (summary.n_restarts, summary.last_restart) = (0, None);
    for status in row
        .list("status.initContainerStatuses")
        .iter()
        .filter(|s| sidecars.contains(text(s, "name")))
    {
        summary.count_restarts(status);
    }
    let (mut has_running, mut failure) = (false, None);
    for status in row.list("status.containerStatuses").iter().rev() {
        summary.count_restarts(status);
        let waiting = text(status, "state.waiting.reason");
        let terminated = at(status, "state.terminated");
        if !waiting.is_empty() {
            summary.reason = waiting.into();
        } else if terminated.is_object() {
            summary.reason = end_of(terminated);
            if int(terminated, "exitCode") != 0 {
                failure = Some(summary.reason.clone());
            }
        } else if status["ready"] == json!(true) && at(status, "state.running").is_object() {
            has_running = true;
            summary.n_ready += 1;
        }
    }
    // One container may have completed while others go on.
    if summary.reason == "Completed" {
        if has_running && row.has_condition("Ready") {
            summary.reason = "Running".into();
        } else if let Some(failure) = failure {
            summary.reason = failure;
        } else if has_running {
            summary.reason = "NotReady".into();
        }
    }
}

/// How a container ended: its reason, else its signal, else its exit code.
fn end_of(terminated: &Value) -> String {
    match (text(terminated, "reason"), int(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(row: &Row<'_>) -> String {
    let gates = list(row.object, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let n_true = gates
        .iter()
        .filter(|gate| row.has_condition(text(gate, "conditionType")))
        .count();
    format!("{n_true}/{}", gates.len())
}
