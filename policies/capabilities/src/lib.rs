//! Which Linux capabilities containers may add, and which they must drop; adds what is missing.

use std::collections::BTreeSet;

use policy_kit::{Policy, Request, Verdict, containers, containers_mut, pod_spec, pod_spec_mut};
use serde::Deserialize;
use serde_json::{Value, json};

/// Names of capabilities without `CAP_`; `*` stands for all.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What containers may add.
    pub allowed_capabilities: BTreeSet<String>,
    /// What every container drops; added where it is missing.
    pub required_drop_capabilities: BTreeSet<String>,
    /// What every container gets; added where it is missing.
    pub default_add_capabilities: BTreeSet<String>,
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        match self
            .default_add_capabilities
            .intersection(&self.required_drop_capabilities)
            .next()
        {
            Some(both) => Err(format!("{both} cannot be both added and dropped")),
            None => Ok(()),
        }
    }

    fn judge(&self, request: &Request) -> Verdict {
        let kind = &request.kind.kind;
        let Some(spec) = pod_spec(kind, &request.object) else {
            return Verdict::Accept;
        };
        let mut problems = Vec::new();
        for container in containers(spec) {
            for added in listed(container.value, "add") {
                if !self.may_add(added) {
                    problems.push(format!(
                        "container {} must not add capability {added}",
                        container.name()
                    ));
                }
            }
        }
        if !problems.is_empty() {
            return Verdict::from_problems(problems);
        }
        let mut object = request.object.clone();
        if let Some(spec) = pod_spec_mut(kind, &mut object) {
            for container in containers_mut(spec) {
                complete(container, "add", &self.default_add_capabilities);
                complete(container, "drop", &self.required_drop_capabilities);
            }
        }
        if object == request.object {
            Verdict::Accept
        } else {
            Verdict::Mutate(object)
        }
    }
}

impl Settings {
    fn may_add(&self, capability: &str) -> bool {
        self.allowed_capabilities.contains("*")
            || self.allowed_capabilities.contains(capability)
            || self.default_add_capabilities.contains(capability)
    }
}

fn listed<'a>(container: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    let names = container["securityContext"]["capabilities"][list].as_array();
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Adds what is wanted and not there; a list with `ALL` has everything.
fn complete(container: &mut Value, list: &str, wanted: &BTreeSet<String>) {
    let present: BTreeSet<&str> = listed(container, list).collect();
    if present.contains("ALL") {
        return;
    }
    let missing: Vec<Value> = wanted
        .iter()
        .filter(|name| !present.contains(name.as_str()))
        .map(|name| json!(name))
        .collect();
    if missing.is_empty() || !container.is_object() {
        return;
    }
    let names = &mut object(object(container, "securityContext"), "capabilities")[list];
    match names.as_array_mut() {
        Some(names) => names.extend(missing),
        None => *names = Value::Array(missing),
    }
}

/// The field of that name, made an object if it is none.
fn object<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    let field = &mut value[name];
    if !field.is_object() {
        *field = json!({});
    }
    field
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;

    use super::*;

    fn settings(value: Value) -> Settings {
        serde_json::from_value(value).expect("settings")
    }

    fn pod(capabilities: Value) -> Value {
        json!({"spec":{"containers":[{"name":"a","securityContext":{"capabilities":capabilities}}]}})
    }

    #[test]
    fn additions_must_be_allowed() {
        let judge = |allowed: Value| {
            settings(json!({"allowed_capabilities":allowed}))
                .judge(&request("Pod", pod(json!({"add":["NET_ADMIN"]}))))
        };
        let refusal = Verdict::Reject("container a must not add capability NET_ADMIN".to_owned());
        assert_eq!(judge(json!([])), refusal);
        assert_eq!(judge(json!(["NET_ADMIN"])), Verdict::Accept);
        assert_eq!(judge(json!(["*"])), Verdict::Accept);
    }

    #[test]
    fn what_is_missing_is_added() {
        let settings = settings(json!({"required_drop_capabilities":["KILL","MKNOD"]}));
        let judge = |object: Value| settings.judge(&request("Pod", object));
        assert_eq!(
            judge(pod(json!({"drop":["KILL"]}))),
            Verdict::Mutate(pod(json!({"drop":["KILL","MKNOD"]})))
        );
        assert_eq!(judge(pod(json!({"drop":["ALL"]}))), Verdict::Accept);
        assert_eq!(
            judge(json!({"spec":{"containers":[{"name":"a"}]}})),
            Verdict::Mutate(pod(json!({"drop":["KILL","MKNOD"]})))
        );
    }

    #[test]
    fn settings_must_not_contradict_themselves() {
        let odd = settings(
            json!({"required_drop_capabilities":["KILL"],"default_add_capabilities":["KILL"]}),
        );
        assert_eq!(
            odd.check(),
            Err("KILL cannot be both added and dropped".to_owned())
        );
    }
}
