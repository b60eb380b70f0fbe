//! A raw policy: may this user do this? Judges `{"user", "action", "resource"}`, which no Kubernetes sent, and
//! stamps what it lets through with the rule that did.

use std::collections::BTreeSet;

use policy_kit::sdk::{
    self, protocol_version_guest,
    wapc_guest::{CallResult, register_function},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is allowed; nothing else is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Tried in order.
    pub rules: Vec<Rule>,
}

/// Who may do what with what; `*` stands for all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, for the stamp.
    pub name: String,
    /// Who.
    pub users: BTreeSet<String>,
    /// What.
    pub actions: BTreeSet<String>,
    /// With what.
    pub resources: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Payload {
    request: Value,
    settings: Settings,
}

#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    let Payload { request, settings } = serde_json::from_slice(payload)?;
    match settings.judge(request) {
        Ok(stamped) => sdk::mutate_request(stamped),
        Err(problem) => sdk::reject_request(Some(problem), Some(403), None, None),
    }
}

fn validate_settings(payload: &[u8]) -> CallResult {
    let problem = match serde_json::from_slice::<Settings>(payload) {
        Ok(settings) if settings.rules.is_empty() => {
            Some("there are no rules: nobody may do anything".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    Ok(serde_json::to_vec(
        &sdk::settings::SettingsValidationResponse {
            valid: problem.is_none(),
            message: problem,
        },
    )?)
}

impl Settings {
    fn judge(&self, mut request: Value) -> Result<Value, String> {
        let field = |name: &str| {
            request[name]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| format!("the request has no {name}"))
        };
        let (user, action, resource) = (field("user")?, field("action")?, field("resource")?);
        let allows = |set: &BTreeSet<String>, word: &str| set.contains(word) || set.contains("*");
        let rule = self.rules.iter().find(|rule| {
            allows(&rule.users, &user)
                && allows(&rule.actions, &action)
                && allows(&rule.resources, &resource)
        });
        match rule {
            Some(rule) => {
                request["allowedBy"] = json!(rule.name);
                Ok(request)
            }
            None => Err(format!("{user} may not {action} {resource}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_is_stamped() {
        let settings: Settings = serde_json::from_value(json!({"rules":[
            {"name":"admins","users":["root"],"actions":["*"],"resources":["*"]},
            {"name":"readers","users":["*"],"actions":["read"],"resources":["docs"]}]}))
        .expect("settings");
        let judge = |user: &str, action: &str| {
            settings.judge(json!({"user":user,"action":action,"resource":"docs"}))
        };
        assert_eq!(
            judge("root", "delete").expect("allowed")["allowedBy"],
            "admins"
        );
        assert_eq!(
            judge("ann", "read").expect("allowed")["allowedBy"],
            "readers"
        );
        assert_eq!(
            judge("ann", "delete"),
            Err("ann may not delete docs".to_owned())
        );
        assert_eq!(
            settings.judge(json!([])),
            Err("the request has no user".to_owned())
        );
    }
}
