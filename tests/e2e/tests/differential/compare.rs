//! Finds the differences between two normalised responses.

use std::collections::BTreeSet;

use serde_json::Value;

/// One member that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// A JSON pointer: `/body/metadata/labels/x`.
    pub(crate) at: String,
    /// `None` if the member is missing.
    pub(crate) ours: Option<Value>,
    pub(crate) real: Option<Value>,
}

/// All differences, in order.
pub(crate) fn differences(ours: &Value, real: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(ours), Some(real), &mut found);
    found
}

fn walk(at: String, ours: Option<&Value>, real: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, real) {
        (Some(Value::Object(ours)), Some(Value::Object(real))) => {
            let keys: BTreeSet<&String> = ours.keys().chain(real.keys()).collect();
            for key in keys {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                walk(
                    format!("{at}/{escaped}"),
                    ours.get(key),
                    real.get(key),
                    found,
                );
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(real))) => {
            for index in 0..ours.len().max(real.len()) {
                walk(
                    format!("{at}/{index}"),
                    ours.get(index),
                    real.get(index),
                    found,
                );
            }
        }
        (ours, real) if ours == real => {}
        (ours, real) => found.push(Difference {
            at,
            ours: ours.cloned(),
            real: real.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_compared_one_by_one() {
        let ours = json!({"a": 1, "b": [1, 2], "c": {"d/e": null}});
        let real = json!({"a": 1, "b": [1], "c": {"d/e": 3}, "f": ""});
        let found: Vec<String> = differences(&ours, &real)
            .into_iter()
            .map(|difference| difference.at)
            .collect();
        assert_eq!(found, ["/b/1", "/c/d~1e", "/f"]);
        assert!(differences(&ours, &ours).is_empty());
    }
}
