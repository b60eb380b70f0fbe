//! Turns a computed status into a write: entries of other controllers are kept, and nothing is written twice.
//! See docs/spec/attachment.md#7-2.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Ancestor, CONTROLLER, Condition, PolicyStatus};
use crate::object::{list, text};

/// The `status.ancestors` to write for a policy as stored, or `None` when it says all that already.
///
/// Entries of other controllers are kept in their order. `max` is the limit of the CRD, shared by all: when ours do not
/// all fit, those not accepted come first, then those overridden, and the last one says that some are missing.
pub fn policy_status_to_write(
    stored: &Value,
    status: &PolicyStatus,
    max: usize,
    now: Timestamp,
) -> Option<Value> {
    let present = list(stored, &["status", "ancestors"]);
    let is_ours = |entry: &&Value| text(entry, &["controllerName"]) == Some(CONTROLLER);
    let others: Vec<Value> = present
        .iter()
        .filter(|entry| !is_ours(entry))
        .cloned()
        .collect();
    let before: BTreeMap<String, &Value> = present
        .iter()
        .filter(is_ours)
        .map(|entry| (key(&entry["ancestorRef"]), entry))
        .collect();
    let room = max.saturating_sub(others.len());
    let mut ours = Vec::new();
    for ancestor in fitting(&status.ancestors, room) {
        let reference =
            serde_json::to_value(&ancestor.ancestor_ref).expect("references are plain data");
        let stored = before.get(&key(&reference)).copied();
        let conditions = conditions_to_write(
            stored.map_or(&[][..], |entry| list(entry, &["conditions"])),
            &ancestor.conditions,
            now,
        )?;
        ours.push(json!({"ancestorRef": reference, "controllerName": CONTROLLER, "conditions": conditions}));
    }
    let n_before = present.iter().filter(is_ours).count();
    let unchanged = n_before == ours.len()
        && ours.iter().all(|entry| {
            before
                .get(&key(&entry["ancestorRef"]))
                .is_some_and(|stored| same(stored, entry))
        });
    if unchanged {
        return None;
    }
    Some(Value::Array(others.into_iter().chain(ours).collect()))
}

/// The `status.conditions` to write for a kind without ancestors, or `None` when it says all that already.
pub fn flat_status(stored: &Value, status: &PolicyStatus, now: Timestamp) -> Option<Value> {
    let desired = flatten(&status.ancestors);
    let present = list(stored, &["status", "conditions"]);
    let ours: Vec<&str> = desired
        .iter()
        .map(|condition| condition.kind.as_str())
        .collect();
    let is_ours = |condition: &&Value| {
        let kind = text(condition, &["type"]).unwrap_or("");
        ours.contains(&kind) || matches!(kind, "Accepted" | "ResolvedRefs" | "Programmed")
    };
    let written = conditions_to_write(present, &desired, now)?;
    let kept: Vec<Value> = present
        .iter()
        .filter(|condition| !is_ours(condition))
        .cloned()
        .collect();
    let all: Vec<Value> = kept.into_iter().chain(written).collect();
    (!same_set(present, &all)).then_some(Value::Array(all))
}

/// One word for all targets: what is accepted anywhere is accepted, and a target that is not shows in `ResolvedRefs`.
fn flatten(ancestors: &[Ancestor]) -> Vec<Condition> {
    let best = ancestors
        .iter()
        .find(|ancestor| ancestor.is_accepted())
        .or(ancestors.first());
    let Some(best) = best else {
        return Vec::new();
    };
    let mut conditions = best.conditions.clone();
    let unresolved = ancestors
        .iter()
        .filter_map(|ancestor| ancestor.condition("ResolvedRefs"))
        .find(|condition| condition.status == "False");
    if let Some(unresolved) = unresolved {
        conditions.retain(|condition| condition.kind != "ResolvedRefs");
        conditions.push(unresolved.clone());
    }
    conditions
}

/// As many as there is room for. The list is bounded in one pass, however many ancestors there are.
fn fitting(ancestors: &[Ancestor], room: usize) -> Vec<Ancestor> {
    if ancestors.len() <= room {
        return ancestors.to_vec();
    }
    let mut order: Vec<&Ancestor> = ancestors.iter().collect();
    order.sort_by_key(|ancestor| {
        let reference = &ancestor.ancestor_ref;
        let weight = match (ancestor.is_accepted(), ancestor.is_overridden()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        (weight, &reference.namespace, &reference.name, reference)
    });
    let mut kept: Vec<Ancestor> = order.into_iter().take(room).cloned().collect();
    if let Some(last) = kept.last_mut() {
        let generation = last
            .conditions
            .first()
            .and_then(|condition| condition.observed_generation);
        let message = format!(
            "{} of {} ancestors are shown; all are in the AttachmentStatus",
            room,
            ancestors.len()
        );
        last.conditions.push(Condition::new(
            "polity.dev/Truncated",
            true,
            "Truncated",
            message,
            generation,
        ));
    }
    kept
}

/// Conditions with their times: that of the last change moves only with the status. `None` when what is stored speaks
/// of a later generation than we have seen.
fn conditions_to_write(
    stored: &[Value],
    desired: &[Condition],
    now: Timestamp,
) -> Option<Vec<Value>> {
    let mut written = Vec::with_capacity(desired.len());
    for condition in desired {
        let before = stored
            .iter()
            .find(|stored| text(stored, &["type"]) == Some(&condition.kind));
        let newer = |stored: &Value| {
            let observed = stored.get("observedGeneration").and_then(Value::as_i64);
            matches!((observed, condition.observed_generation), (Some(theirs), Some(ours)) if theirs > ours)
        };
        if before.is_some_and(newer) {
            return None;
        }
        let mut value = serde_json::to_value(condition).expect("conditions are plain data");
        let unmoved = before
            .filter(|stored| text(stored, &["status"]) == Some(condition.status))
            .and_then(|stored| text(stored, &["lastTransitionTime"]));
        let time = unmoved.map_or_else(
            || now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            str::to_owned,
        );
        value["lastTransitionTime"] = Value::from(time);
        written.push(value);
    }
    Some(written)
}

/// The identity of an ancestor: unset group and kind mean a Gateway.
fn key(reference: &Value) -> String {
    let field = |name: &str| text(reference, &[name]);
    format!(
        "{}|{}|{}|{}|{}|{}",
        field("group").unwrap_or("gateway.networking.k8s.io"),
        field("kind").unwrap_or("Gateway"),
        field("namespace").unwrap_or(""),
        field("name").unwrap_or(""),
        field("sectionName").unwrap_or(""),
        reference
            .get("port")
            .map_or_else(String::new, Value::to_string),
    )
}

fn same(stored: &Value, desired: &Value) -> bool {
    same_set(
        list(stored, &["conditions"]),
        list(desired, &["conditions"]),
    )
}

/// Whether two lists hold the same conditions, times of the last change aside.
fn same_set(one: &[Value], other: &[Value]) -> bool {
    let timeless = |conditions: &[Value]| -> BTreeMap<String, Map<String, Value>> {
        conditions
            .iter()
            .filter_map(Value::as_object)
            .map(|condition| {
                let mut condition = condition.clone();
                condition.remove("lastTransitionTime");
                let kind = condition
                    .get("type")
                    .map_or_else(String::new, Value::to_string);
                (kind, condition)
            })
            .collect()
    };
    one.len() == other.len() && timeless(one) == timeless(other)
}
