//! Labels and annotations that objects must have: checked, and filled in where there is a default.

use std::collections::{BTreeMap, BTreeSet};

use policy_kit::{Policy, Request, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is required of labels and of annotations.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Labels.
    pub labels: Rules,
    /// Annotations.
    pub annotations: Rules,
}

/// Rules for one map of strings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Keys that must be there.
    pub required: BTreeSet<String>,
    /// Keys that must not be there.
    pub denied: BTreeSet<String>,
    /// The only values a key may have.
    pub values: BTreeMap<String, BTreeSet<String>>,
    /// Values for keys that are not there.
    pub defaults: BTreeMap<String, String>,
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        self.labels.check("labels")?;
        self.annotations.check("annotations")
    }

    fn judge(&self, request: &Request) -> Verdict {
        if request.object.is_null() {
            return Verdict::Accept;
        }
        let mut object = request.object.clone();
        let mut problems = Vec::new();
        for (field, rules) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            rules.fill(&mut object, field);
            problems.extend(rules.problems(&object["metadata"][field], field));
        }
        if !problems.is_empty() {
            return Verdict::from_problems(problems);
        }
        if object == request.object {
            Verdict::Accept
        } else {
            Verdict::Mutate(object)
        }
    }
}

impl Rules {
    fn check(&self, field: &str) -> Result<(), String> {
        if let Some(key) = self.required.intersection(&self.denied).next() {
            return Err(format!("{field}: {key} is both required and denied"));
        }
        for (key, value) in &self.defaults {
            if self
                .values
                .get(key)
                .is_some_and(|allowed| !allowed.contains(value))
            {
                return Err(format!(
                    "{field}: the default of {key} is not one of its values"
                ));
            }
            if self.denied.contains(key) {
                return Err(format!("{field}: {key} is denied and has a default"));
            }
        }
        Ok(())
    }

    fn fill(&self, object: &mut Value, field: &str) {
        for (key, value) in &self.defaults {
            let metadata = &mut object["metadata"];
            if !metadata.is_object() {
                *metadata = json!({});
            }
            let map = &mut metadata[field];
            if !map.is_object() {
                *map = json!({});
            }
            if map[key].is_null() {
                map[key] = json!(value);
            }
        }
    }

    fn problems(&self, map: &Value, field: &str) -> Vec<String> {
        let kind = field.trim_end_matches('s');
        let mut problems = Vec::new();
        for key in &self.required {
            if map[key].is_null() {
                problems.push(format!("{kind} {key} is required"));
            }
        }
        for key in &self.denied {
            if !map[key].is_null() {
                problems.push(format!("{kind} {key} is not allowed"));
            }
        }
        for (key, allowed) in &self.values {
            if let Some(value) = map[key].as_str().filter(|value| !allowed.contains(*value)) {
                let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
                problems.push(format!(
                    "{kind} {key} is {value}, must be one of {}",
                    allowed.join(", ")
                ));
            }
        }
        problems
    }
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;

    use super::*;

    fn settings() -> Settings {
        serde_json::from_value(json!({
            "labels":{"required":["team"],"denied":["legacy"],"values":{"tier":["front","back"]},"defaults":{"tier":"back"}},
            "annotations":{"defaults":{"cost":"shared"}}}))
        .expect("settings")
    }

    fn judge(metadata: Value) -> Verdict {
        settings().judge(&request("Pod", json!({ "metadata": metadata })))
    }

    #[test]
    fn defaults_are_filled_in() {
        let full = json!({"labels":{"team":"a","tier":"back"},"annotations":{"cost":"shared"}});
        assert_eq!(
            judge(json!({"labels":{"team":"a"}})),
            Verdict::Mutate(json!({ "metadata": full }))
        );
        assert_eq!(judge(full), Verdict::Accept);
    }

    #[test]
    fn everything_wrong_is_said() {
        assert_eq!(
            judge(json!({"labels":{"legacy":"x","tier":"middle"}})),
            Verdict::Reject(
                "label team is required; label legacy is not allowed; label tier is middle, must be one of back, front"
                    .to_owned()
            )
        );
    }

    #[test]
    fn contradictions_are_refused() {
        for settings in [
            json!({"labels":{"required":["a"],"denied":["a"]}}),
            json!({"labels":{"values":{"a":["x"]},"defaults":{"a":"y"}}}),
            json!({"annotations":{"denied":["a"],"defaults":{"a":"y"}}}),
        ] {
            let parsed: Settings = serde_json::from_value(settings.clone()).expect("settings");
            assert!(parsed.check().is_err(), "{settings}");
        }
        assert_eq!(settings().check(), Ok(()));
    }
}
