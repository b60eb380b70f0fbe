//! Whether an object has everything that was applied.

use serde_json::Value;

use crate::hash::name_hash;

/// The length of a hash; long enough that two contents never have the same.
const HASH: usize = 16;

/// A hash of everything that is applied.
pub(super) fn content_hash(wanted: &Value) -> String {
    name_hash(&wanted.to_string(), HASH)
}

/// Whether everything wanted is there. Other fields may stand beside it, since the API server fills in defaults; lists
/// have exactly the wanted items, and selectors exactly the wanted labels.
pub(super) fn includes(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (_, Value::Null) => true,
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            includes(found, wanted)
                && (key != "selector" || wanted.is_null() || includes(wanted, found))
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| includes(found, wanted))
        }
        // The API server does not store empty lists and maps.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_server_fills_in_is_not_an_edit() {
        let wanted = json!({
            "a": {"b": 1}, "list": [{"name": "x"}], "none": null, "empty": {}, "selector": {"app": "x"},
        });
        let found = json!({
            "a": {"b": 1, "c": 2}, "list": [{"name": "x", "more": true}], "d": 3, "selector": {"app": "x"},
        });
        assert!(includes(&found, &wanted));
        let mut narrowed = found.clone();
        narrowed["selector"]["pod"] = json!("none");
        for edited in [
            narrowed,
            json!({"a": {"b": 2}, "list": [{"name": "x"}]}),
            json!({"a": {}, "list": [{"name": "x"}]}),
            json!({"a": {"b": 1}, "list": [{"name": "x"}, {"name": "y"}]}),
            json!({"a": {"b": 1}}),
        ] {
            assert!(!includes(&edited, &wanted), "{edited}");
        }
    }
}
