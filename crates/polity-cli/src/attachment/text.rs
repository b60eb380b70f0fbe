//! Words that several commands share.

use jiff::Timestamp;
use serde_json::Value;

/// How long ago something was made, as kubectl writes it: `3d`, `2h`, `5m`, `7s`.
pub(super) fn age(created: Option<&str>, now: Timestamp) -> String {
    let created: Option<Timestamp> = created.and_then(|text| text.parse().ok());
    let Some(created) = created else {
        return "<unknown>".to_owned();
    };
    let seconds = (now.as_second() - created.as_second()).max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
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
