//! Words that several commands share.

use jiff::Timestamp;
use serde_json::Value;

use crate::output;

/// How long ago something was made.
pub(super) fn age(created: Option<&str>, now: Timestamp) -> String {
    let created = created.and_then(|text| text.parse().ok());
    output::age(created, now)
}

pub(super) fn age_of(object: &Value, now: Timestamp) -> String {
    age(object["metadata"]["creationTimestamp"].as_str(), now)
}

/// A value in one line.
pub(super) fn short(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The status of a condition, `Unknown` when there is none.
pub(super) fn condition(conditions: &Value, kind: &str) -> String {
    let all = conditions.as_array().into_iter().flatten();
    let found = all
        .filter(|condition| condition["type"] == kind)
        .find_map(|condition| condition["status"].as_str());
    found.unwrap_or("Unknown").to_owned()
}

/// A row of a table.
pub(super) fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}
