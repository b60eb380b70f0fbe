//! `--desired-status`: the status that was expected, field by field against the one that came out.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::output::Paint;
use polity_source::manifests::describe_yaml_error;

/// Reads the expected status.
pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the desired status {}", path.display()))?;
    let status: Value = serde_saphyr::from_str(&text).map_err(|error| {
        let (line, words) = describe_yaml_error(&error);
        anyhow::anyhow!(
            "the desired status {}:{line}: not YAML: {words}",
            path.display()
        )
    })?;
    if !status.is_object() {
        anyhow::bail!("the desired status {} is not an object", path.display());
    }
    Ok(status)
}

/// What agrees and what does not, a line each, and the verdict.
pub(super) fn compare(desired: &Value, actual: &Value, paint: Paint) -> String {
    let mut comparing = Comparing {
        out: "# Status compare:\n".to_owned(),
        paint,
    };
    let matched = match (desired.as_object(), actual.as_object()) {
        (Some(desired), Some(actual)) => comparing.maps("", desired, actual),
        _ => false,
    };
    let verdict = match matched {
        true => paint.good(&paint.bold(" Expected status matches the actual status")),
        false => paint.bad(&paint.bold(" Expected status does not match the actual status")),
    };
    comparing.out.push_str(&verdict);
    comparing.out.push('\n');
    comparing.out
}

struct Comparing {
    out: String,
    paint: Paint,
}

impl Comparing {
    /// Says something about a path; what is deep inside the items of a list is left out.
    fn say(&mut self, path: &str, good: bool, text: &str) {
        if is_deep(path) {
            return;
        }
        let line = match good {
            true => self.paint.good(text),
            false => self.paint.bad(text),
        };
        self.out.push_str(&line);
        self.out.push('\n');
    }

    fn maps(
        &mut self,
        path: &str,
        desired: &Map<String, Value>,
        actual: &Map<String, Value>,
    ) -> bool {
        let mut matched = true;
        for (key, wanted) in desired {
            let Some(found) = actual.get(key) else {
                let text = format!("Key '{key}' not found in result at path '{path}'");
                self.say(path, false, &text);
                matched = false;
                continue;
            };
            matched &= self.value(&format!("{path}.{key}"), wanted, found);
        }
        matched
    }

    fn value(&mut self, path: &str, wanted: &Value, found: &Value) -> bool {
        match (wanted, found) {
            (Value::Object(wanted), Value::Object(found)) => self.maps(path, wanted, found),
            (Value::Array(wanted), Value::Array(found)) => self.lists(path, wanted, found),
            (Value::Object(_) | Value::Array(_), _) => {
                let text = format!(
                    "The input status field '{path}' is not the right type - expected '{}'",
                    type_name(found)
                );
                self.say(path, false, &text);
                false
            }
            _ => {
                let (wanted, found) = (plain(wanted), plain(found));
                let same = wanted == found;
                let does = if same { "does" } else { "does not" };
                self.say(
                    path,
                    same,
                    &format!("{path}: '{wanted}' {does} match '{found}'"),
                );
                same
            }
        }
    }

    /// Lists of objects: each wanted one must be like one that is there. Other lists are compared as they are.
    fn lists(&mut self, path: &str, wanted: &[Value], found: &[Value]) -> bool {
        if !wanted.first().is_some_and(Value::is_object) {
            let same = wanted == found;
            let does = if same { "does" } else { "does not" };
            let (wanted, found) = (plain_list(wanted), plain_list(found));
            self.say(
                path,
                same,
                &format!("{path}: '{wanted}' {does} match '{found}'"),
            );
            return same;
        }
        for (index, item) in wanted.iter().enumerate() {
            let at = format!("{path}[{index}]");
            let matched = found.iter().any(|candidate| match (item, candidate) {
                (Value::Object(item), Value::Object(candidate)) => self.maps(&at, item, candidate),
                _ => false,
            });
            if !matched {
                self.say(&at, false, &format!("{at} does not match any elements"));
                self.say(path, false, &format!("{path} does not match the elements"));
                return false;
            }
            self.say(&at, true, &format!("{at} matches"));
        }
        self.say(path, true, &format!("{path} matches"));
        true
    }
}

/// A field of an item of a list: `.relatedObjects[1].reason`.
fn is_deep(path: &str) -> bool {
    path.match_indices("].").any(|(at, _)| {
        let index = path[..at].rsplit_once('[').map_or("", |(_, index)| index);
        !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn plain_list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(plain).collect();
    format!("[{}]", items.join(" "))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(desired: Value) -> String {
        let actual = json!({
            "compliant": "NonCompliant",
            "lastEvaluatedGeneration": 2,
            "compliancyDetails": [{"Compliant": "NonCompliant", "conditions": [{"type": "violation"}]}],
            "relatedObjects": [
                {"compliant": "Compliant", "object": {"kind": "Pod", "metadata": {"name": "a"}}},
                {"compliant": "NonCompliant", "object": {"kind": "Pod", "metadata": {"name": "b"}}},
            ],
        });
        compare(&desired, &actual, Paint::plain())
    }

    #[test]
    fn a_partial_status_that_fits() {
        let text = compared(json!({
            "compliant": "NonCompliant",
            "lastEvaluatedGeneration": 2,
            "relatedObjects": [{"object": {"metadata": {"name": "b"}}, "compliant": "NonCompliant"}],
        }));
        insta::assert_snapshot!(text, @r"
        # Status compare:
        .compliant: 'NonCompliant' does match 'NonCompliant'
        .lastEvaluatedGeneration: '2' does match '2'
        .relatedObjects[0] matches
        .relatedObjects matches
         Expected status matches the actual status
        ");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let text = compared(json!({
            "compliant": "Compliant",
            "nothing": 1,
            "compliancyDetails": [{"conditions": [{"type": "notification"}]}],
            "relatedObjects": {"x": 1},
        }));
        insta::assert_snapshot!(text, @r"
        # Status compare:
        .compliancyDetails[0] does not match any elements
        .compliancyDetails does not match the elements
        .compliant: 'Compliant' does not match 'NonCompliant'
        Key 'nothing' not found in result at path ''
        The input status field '.relatedObjects' is not the right type - expected 'list'
         Expected status does not match the actual status
        ");
    }

    #[test]
    fn empty_lists_are_compared_as_they_are() {
        assert!(compared(json!({"relatedObjects": []})).contains("does not match"));
    }
}
