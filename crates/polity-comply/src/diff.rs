//! The change to an object as a unified diff of YAML, in the format of Go's tools. See docs/spec/governance.md#11-7.

mod unified;

use std::borrow::Cow;

use polity_core::yaml_out;
use serde_json::Value;

use crate::compare::LAST_APPLIED;
use crate::policy::RecordDiff;

/// Lines of difference that are shown, besides the three of the header.
const SHOWN: usize = 50;
const HEADER: usize = 3;
/// Lines around a change.
const CONTEXT: usize = 5;

const CENSORED: &str = "# The difference is redacted because it contains sensitive data. To override, the \
    spec[\"object-templates\"][].recordDiff field must be set to \"InStatus\" for the difference to be \
    recorded in the policy status. Consider existing access to the ConfigurationPolicy objects and the etcd \
    encryption configuration before you proceed with an override.";

/// Where a difference goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    InStatus(String),
    Log(String),
    Nothing,
}

/// The difference, for where the template wants it.
pub(crate) fn record(
    record: RecordDiff,
    existing: &Value,
    updated: &Value,
    full: bool,
) -> Recorded {
    match record {
        RecordDiff::None => Recorded::Nothing,
        RecordDiff::Censored => Recorded::InStatus(CENSORED.to_owned()),
        RecordDiff::Log => Recorded::Log(diff(existing, updated, full)),
        RecordDiff::InStatus => Recorded::InStatus(diff(existing, updated, full)),
    }
}

/// The unified diff between two objects; empty when they are the same. Unless it is wanted in full, a long one
/// is cut, and its first line says so.
pub fn diff(existing: &Value, updated: &Value, full: bool) -> String {
    let name = display_name(existing);
    let text = unified::unified(
        &yaml_out::to_yaml(&comparable(existing)),
        &yaml_out::to_yaml(&comparable(updated)),
        &format!("{name} : existing"),
        &format!("{name} : updated"),
        CONTEXT,
    );
    let lines: Vec<&str> = text.split('\n').collect();
    if full || lines.len() <= SHOWN + HEADER {
        return text;
    }
    format!(
        "# Truncated: showing {SHOWN}/{} diff lines:\n{}",
        lines.len(),
        lines[..SHOWN + HEADER].join("\n")
    )
}

fn display_name(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// An object without what changes with every write: who owns which field, kubectl's own annotation, the
/// generation, annotations that are empty.
pub(crate) fn comparable(object: &Value) -> Cow<'_, Value> {
    let metadata = &object["metadata"];
    let annotations = metadata.get("annotations");
    let noisy = metadata.get("managedFields").is_some()
        || metadata.get("generation").is_some()
        || annotations.is_some_and(|annotations| {
            annotations.get(LAST_APPLIED).is_some()
                || annotations
                    .as_object()
                    .is_some_and(serde_json::Map::is_empty)
        });
    if !noisy {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("generation");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    Cow::Owned(object)
}
