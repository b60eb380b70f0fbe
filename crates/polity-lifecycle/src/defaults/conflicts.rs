//! A document without the fields that other managers have.

use polity_reconcile::FieldConflict;
use serde_json::Value;

/// The body without the fields in conflict; `None` if one of them is inside a list, where leaving it out would take away
/// what is ours beside it.
pub(super) fn without(body: &Value, conflicts: &[FieldConflict]) -> Option<Value> {
    let mut body = body.clone();
    let all_left = conflicts
        .iter()
        .all(|conflict| remove(&mut body, &conflict.field));
    all_left.then_some(body)
}

fn remove(value: &mut Value, path: &str) -> bool {
    let (Some(path), Value::Object(fields)) = (path.strip_prefix('.'), value) else {
        return false;
    };
    // Keys of labels hold dots themselves: the longest that fits is meant.
    let fitting = fields.keys().filter_map(|key| {
        let after = path.strip_prefix(key.as_str())?;
        (after.is_empty() || after.starts_with(['.', '['])).then(|| (key.clone(), after))
    });
    match fitting.max_by_key(|(key, _)| key.len()) {
        None => false,
        Some((key, "")) => fields.remove(&key).is_some(),
        Some((key, after)) => fields
            .get_mut(&key)
            .is_some_and(|below| remove(below, after)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_left_out_wherever_it_is() {
        let body = json!({
            "metadata": {"labels": {"a": "1", "a.b": "2", "a.b/c": "3"}},
            "spec": {"mode": "protect", "settings": {"deep": {"x": 1, "y": 2}}, "list": [{"name": "n"}]},
        });
        for (case, fields, expected) in [
            (
                "a leaf",
                &[".spec.mode"][..],
                Some(("/spec/mode", json!(null))),
            ),
            (
                "below",
                &[".spec.settings.deep.x"],
                Some(("/spec/settings/deep", json!({"y": 2}))),
            ),
            (
                "several",
                &[".spec.mode", ".spec.settings"],
                Some(("/spec", json!({"list": [{"name": "n"}]}))),
            ),
            (
                "a label with dots",
                &[".metadata.labels.a.b/c"],
                Some(("/metadata/labels", json!({"a": "1", "a.b": "2"}))),
            ),
            (
                "a shorter one",
                &[".metadata.labels.a"],
                Some(("/metadata/labels", json!({"a.b": "2", "a.b/c": "3"}))),
            ),
            ("in a list", &[r#".spec.list[name="n"].x"#], None),
            (
                "one of two in a list",
                &[".spec.mode", ".spec.list[0]"],
                None,
            ),
            ("not there", &[".spec.other"], None),
            ("nonsense", &["spec", "", ".é"], None),
        ] {
            let conflicts: Vec<_> = fields
                .iter()
                .map(|field| FieldConflict {
                    field: (*field).to_owned(),
                    message: String::new(),
                })
                .collect();
            let left = without(&body, &conflicts);
            let found = expected.as_ref().map(|(pointer, _)| {
                let left = left.as_ref().and_then(|left| left.pointer(pointer));
                (*pointer, left.cloned().unwrap_or_default())
            });
            assert_eq!(left.is_some(), expected.is_some(), "{case}");
            assert_eq!(found, expected, "{case}");
        }
    }
}
