//! Every container says how much it needs, and asks for no more than it may have.

mod quantity;

use std::collections::BTreeMap;

use policy_kit::{Policy, Request, Verdict, containers, containers_mut, pod_spec, pod_spec_mut};
use quantity::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};

/// Rules by resource: `cpu`, `memory`, …
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Rule>);

/// The rule for one resource.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// The most that a limit or a request may be.
    pub max: Option<Quantity>,
    /// The limit of a container that has none; without it, a limit is required.
    pub default_limit: Option<Quantity>,
    /// The request of a container that has none; without it, none is required.
    pub default_request: Option<Quantity>,
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        for (resource, rule) in &self.0 {
            let defaults = [&rule.default_limit, &rule.default_request];
            for default in defaults.into_iter().flatten() {
                if rule.max.as_ref().is_some_and(|max| default > max) {
                    return Err(format!(
                        "{resource}: a default of {default} is more than the maximum"
                    ));
                }
            }
            if let (Some(request), Some(limit)) = (&rule.default_request, &rule.default_limit)
                && request > limit
            {
                return Err(format!(
                    "{resource}: the default request is more than the default limit"
                ));
            }
        }
        Ok(())
    }

    fn judge(&self, request: &Request) -> Verdict {
        let kind = &request.kind.kind;
        let mut object = request.object.clone();
        let Some(spec) = pod_spec_mut(kind, &mut object) else {
            return Verdict::Accept;
        };
        for container in containers_mut(spec) {
            self.fill(container);
        }
        let problems = pod_spec(kind, &object)
            .into_iter()
            .flat_map(containers)
            // Ephemeral containers may not have resources.
            .filter(|container| container.list != "ephemeralContainers")
            .flat_map(|container| self.problems(container.name(), &container.value["resources"]))
            .collect::<Vec<_>>();
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

impl Settings {
    fn fill(&self, container: &mut Value) {
        for (resource, rule) in &self.0 {
            for (list, default) in [
                ("limits", &rule.default_limit),
                ("requests", &rule.default_request),
            ] {
                let Some(default) = default else { continue };
                if !container.is_object() || !container["resources"][list][resource].is_null() {
                    continue;
                }
                let resources = &mut container["resources"];
                if !resources.is_object() {
                    *resources = json!({});
                }
                if !resources[list].is_object() {
                    resources[list] = json!({});
                }
                resources[list][resource] = json!(default.to_string());
            }
        }
    }

    fn problems(&self, container: &str, resources: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        for (resource, rule) in &self.0 {
            if resources["limits"][resource].is_null() {
                problems.push(format!("container {container} has no {resource} limit"));
            }
            let Some(max) = &rule.max else { continue };
            for (list, what) in [("limits", "limit"), ("requests", "request")] {
                match Quantity::of(&resources[list][resource]) {
                    None => {}
                    Some(Err(problem)) => problems.push(format!(
                        "container {container}: {resource} {what}: {problem}"
                    )),
                    Some(Ok(value)) if value > *max => problems.push(format!(
                        "container {container} has a {resource} {what} of {value}, more than {max}"
                    )),
                    Some(Ok(_)) => {}
                }
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

    fn judge(settings: Value, resources: Value) -> Verdict {
        let settings: Settings = serde_json::from_value(settings).expect("settings");
        let pod = json!({"spec":{"containers":[{"name":"a","resources":resources}]}});
        settings.judge(&request("Pod", pod))
    }

    #[test]
    fn limits_are_required_bounded_and_filled_in() {
        let strict = json!({"cpu":{"max":"2"},"memory":{}});
        assert_eq!(
            judge(strict.clone(), json!({"limits":{"cpu":"2500m"}})),
            Verdict::Reject("container a has a cpu limit of 2500m, more than 2; container a has no memory limit".to_owned())
        );
        assert_eq!(
            judge(strict, json!({"limits":{"cpu":2,"memory":"1Gi"}})),
            Verdict::Accept
        );
        let filling =
            json!({"memory":{"default_limit":"1Gi","default_request":"256Mi","max":"2G"}});
        let pod = json!({"spec":{"containers":[{"name":"a","resources":{
            "limits":{"memory":"1Gi"},"requests":{"memory":"256Mi"}}}]}});
        assert_eq!(judge(filling, json!({})), Verdict::Mutate(pod));
    }

    #[test]
    fn odd_quantities_are_named() {
        assert_eq!(
            judge(json!({"cpu":{"max":"1"}}), json!({"limits":{"cpu":"lots"}})),
            Verdict::Reject("container a: cpu limit: lots is no quantity".to_owned())
        );
    }

    #[test]
    fn defaults_must_fit() {
        for settings in [
            json!({"cpu":{"max":"1","default_limit":"2"}}),
            json!({"cpu":{"default_limit":"1","default_request":"2"}}),
        ] {
            let parsed: Settings = serde_json::from_value(settings).expect("settings");
            assert!(parsed.check().is_err());
        }
        assert!(serde_json::from_value::<Settings>(json!({"cpu":{"max":"x"}})).is_err());
    }
}
