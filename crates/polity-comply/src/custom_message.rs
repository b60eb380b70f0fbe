//! Renders the custom compliance message of a policy. See docs/spec/governance.md#11-8.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Templates;
use crate::message;
use crate::policy::ConfigurationPolicy;
use crate::related::ObjectRef;
use crate::status::{State, Status};

/// The whole objects behind the related ones, as far as they are at hand.
pub type Objects = BTreeMap<ObjectRef, Arc<Value>>;

/// The message for the state of things. A template that fails is named behind the default message.
pub fn message(
    policy: &ConfigurationPolicy,
    status: &Status,
    templates: &dyn Templates,
    objects: &Objects,
) -> String {
    let default = message::whole(status.state, &status.details);
    let template = match status.state {
        State::Compliant => &policy.custom_message.compliant,
        _ => &policy.custom_message.noncompliant,
    };
    let Some(template) = template else {
        return default;
    };
    match templates.message(template, &data(policy, status, objects, &default)) {
        Err(error) => format!("{default} (failure processing the custom message: {error})"),
        Ok(custom) => {
            let prefix = format!("{}; ", status.state);
            match custom.starts_with(&prefix) {
                true => custom,
                false => prefix + &custom,
            }
        }
    }
}

/// `.DefaultMessage` and `.Policy`, the latter with its new status and its related objects in full.
fn data(policy: &ConfigurationPolicy, status: &Status, objects: &Objects, default: &str) -> Value {
    let mut document = policy.document.clone();
    let now = status.last_evaluated.unwrap_or_default();
    let mut wire = status.to_json(now, &document["status"]);
    for (index, related) in status.related.iter().enumerate() {
        if let Some(object) = objects.get(&related.object) {
            wire["relatedObjects"][index]["object"] = Value::clone(object);
        }
    }
    if let Some(document) = document.as_object_mut() {
        document.insert("status".to_owned(), wire);
    }
    json!({"DefaultMessage": default, "Policy": document})
}
