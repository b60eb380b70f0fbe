//! The two forms of an Event: core/v1 and events.k8s.io/v1 share one store.
//!
//! Only the names of some fields differ. An Event is stored as core/v1 and converted when it is read or written in the
//! other form.

use serde_json::{Map, Value, json};

/// Fields by their core/v1 name and their events.k8s.io/v1 name. All others have the same name.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts an events.k8s.io/v1 Event to core/v1. In other objects only the apiVersion is set.
pub fn to_core(event: &mut Value) {
    rename(event, "v1", |(core, new)| (new, core));
}

/// Converts a core/v1 Event to events.k8s.io/v1. In other objects only the apiVersion is set.
pub fn to_events(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |(core, new)| (core, new));
    // The new group omits fields that the old one always shows.
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, value| !(name.starts_with("reporting") && value.as_str() == Some("")));
    }
}

/// The core/v1 name of a field selector of events.k8s.io/v1, and the other way round.
pub fn selector_field(field: &str, to_core: bool) -> String {
    let (head, rest) = field
        .split_once('.')
        .map_or((field, None), |(head, rest)| (head, Some(rest)));
    let renamed = RENAMED.iter().find_map(|(core, new)| match to_core {
        true if head == *new => Some(*core),
        false if head == *core && head != "source" => Some(*new),
        _ => None,
    });
    let head = renamed.unwrap_or(head);
    rest.map_or_else(|| head.to_owned(), |rest| format!("{head}.{rest}"))
}

fn rename(
    event: &mut Value,
    api_version: &str,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(fields) = event.as_object_mut() else {
        return;
    };
    fields.insert("apiVersion".into(), json!(api_version));
    let moved: Map<String, Value> = RENAMED
        .into_iter()
        .map(direction)
        .filter_map(|(from, to)| Some((to.to_owned(), fields.remove(from)?)))
        .collect();
    fields.extend(moved);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_is_read_through_both_groups() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "uid": "u", "resourceVersion": "7"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "message": "m", "reason": "R", "type": "Normal",
            "reportingComponent": "c", "reportingInstance": "i", "source": {"component": "s"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z", "count": 2,
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}, "related": {"kind": "Node"},
        });
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "uid": "u", "resourceVersion": "7"},
            "regarding": {"kind": "Pod", "name": "p"}, "note": "m", "reason": "R", "type": "Normal",
            "reportingController": "c", "reportingInstance": "i", "deprecatedSource": {"component": "s"},
            "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T00:00:01Z",
            "deprecatedCount": 2,
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}, "related": {"kind": "Node"},
        });
        let mut turned = core.clone();
        to_events(&mut turned);
        assert_eq!(turned, new);
        to_core(&mut turned);
        assert_eq!(turned, core);
    }

    #[test]
    fn selectors_are_turned_too() {
        assert_eq!(
            selector_field("regarding.name", true),
            "involvedObject.name"
        );
        assert_eq!(
            selector_field("reportingController", true),
            "reportingComponent"
        );
        assert_eq!(selector_field("involvedObject.uid", false), "regarding.uid");
        assert_eq!(selector_field("source", false), "source");
        assert_eq!(selector_field("type", true), "type");
    }

    proptest! {
        #[test]
        fn turning_there_and_back_loses_nothing(
            chosen in prop::collection::btree_map(prop::sample::select(RENAMED.map(|(core, _)| core).to_vec()), any::<i64>(), 0..7),
        ) {
            let mut event = json!({"apiVersion": "v1", "reason": "r"});
            for (field, value) in chosen {
                event[field] = json!(value);
            }
            let before = event.clone();
            to_events(&mut event);
            to_core(&mut event);
            prop_assert_eq!(event, before);
        }
    }
}
