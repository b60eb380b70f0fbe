//! The webhook configurations of a cluster, compiled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use polity_cel::{Environment, Expression, Output};
use polity_core::selector::LabelSelector;
use polity_core::{FieldError, FieldPath};
use serde_json::Value;

use super::call::{Client, Clients};
use super::matching::Rule;
use super::review::ReviewVersion;

/// All webhooks of a cluster, in call order.
///
/// Immutable: a request uses the set that it started with. [`Configs::refreshed`] creates the next one and reuses
/// unchanged webhooks with their connections.
#[derive(Debug, Default)]
pub struct Configs {
    pub(super) mutating: Vec<Arc<Config>>,
    pub(super) validating: Vec<Arc<Config>>,
    clients: Clients,
}

/// One configuration object.
#[derive(Debug)]
pub(super) struct Config {
    name: String,
    /// Identifies the version of the object.
    version: (String, String),
    pub(super) webhooks: Vec<Arc<Webhook>>,
}

/// One webhook, ready to be matched and called.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent fields of the API object"
)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) rules: Vec<Rule>,
    pub(super) namespace_selector: Result<LabelSelector, String>,
    pub(super) object_selector: Result<LabelSelector, String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) matches_equivalents: bool,
    pub(super) fails_open: bool,
    /// Whether a dry run may be shown to it.
    pub(super) allows_dry_run: bool,
    pub(super) reinvoked_if_needed: bool,
    pub(super) timeout: Duration,
    /// The first review version it accepts that we know.
    pub(super) review_version: Option<ReviewVersion>,
}

/// One match condition.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    /// Compiled, or why it does not compile; stored objects were checked, so it does.
    pub(super) expression: Result<Expression, String>,
}

impl Configs {
    /// The index of these MutatingWebhookConfiguration and ValidatingWebhookConfiguration objects.
    #[must_use]
    pub fn refreshed(&self, objects: &[Value]) -> Self {
        let clients = Clients::default();
        let build = |kind: &str, known: &[Arc<Config>]| {
            let mut configs: Vec<Arc<Config>> = objects
                .iter()
                .filter(|object| object.get("kind").and_then(Value::as_str) == Some(kind))
                .map(|object| {
                    let name = text(object, "/metadata/name").to_owned();
                    let version = version(object);
                    let unchanged = known
                        .iter()
                        .find(|config| config.name == name && config.version == version);
                    match unchanged {
                        // Its clients go on living in the new table, for others to share.
                        Some(config) => {
                            config
                                .webhooks
                                .iter()
                                .for_each(|webhook| clients.keep(&webhook.client));
                            Arc::clone(config)
                        }
                        None => Arc::new(Config {
                            webhooks: webhooks(object, &self.clients, &clients),
                            name,
                            version,
                        }),
                    }
                })
                .collect();
            configs.sort_by(|a, b| a.name.cmp(&b.name));
            configs
        };
        let mutating = build("MutatingWebhookConfiguration", &self.mutating);
        let validating = build("ValidatingWebhookConfiguration", &self.validating);
        Self {
            mutating,
            validating,
            clients,
        }
    }

    /// Whether there are no webhooks.
    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

fn version(object: &Value) -> (String, String) {
    (
        text(object, "/metadata/uid").to_owned(),
        text(object, "/metadata/resourceVersion").to_owned(),
    )
}

fn webhooks(object: &Value, known: &Clients, clients: &Clients) -> Vec<Arc<Webhook>> {
    let list = object.get("webhooks").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|webhook| Arc::new(self::webhook(webhook, known, clients)))
        .collect()
}

fn webhook(json: &Value, known: &Clients, clients: &Clients) -> Webhook {
    let rules = json.get("rules").and_then(Value::as_array);
    let seconds = json
        .get("timeoutSeconds")
        .and_then(Value::as_u64)
        .unwrap_or(10);
    Webhook {
        name: text(json, "/name").to_owned(),
        client: clients.get_or_make(known, json.get("clientConfig").unwrap_or(&Value::Null)),
        rules: rules.into_iter().flatten().map(Rule::parse).collect(),
        namespace_selector: selector(json, "namespaceSelector"),
        object_selector: selector(json, "objectSelector"),
        conditions: conditions(json),
        matches_equivalents: text(json, "/matchPolicy") != "Exact",
        fails_open: text(json, "/failurePolicy") == "Ignore",
        allows_dry_run: matches!(text(json, "/sideEffects"), "None" | "NoneOnDryRun"),
        reinvoked_if_needed: text(json, "/reinvocationPolicy") == "IfNeeded",
        timeout: Duration::from_secs(seconds),
        review_version: json
            .get("admissionReviewVersions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find_map(|version| ReviewVersion::named(version.as_str()?)),
    }
}

fn text<'a>(json: &'a Value, pointer: &str) -> &'a str {
    json.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn selector(json: &Value, field: &str) -> Result<LabelSelector, String> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(LabelSelector::everything()),
        Some(selector) => LabelSelector::from_json(selector, &FieldPath::of(field))
            .map_err(|errors| polity_core::field::join(&errors)),
    }
}

fn conditions(json: &Value) -> Vec<Condition> {
    let environment = Environment::match_conditions();
    let list = json.get("matchConditions").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|condition| {
            let text = text(condition, "/expression").to_owned();
            let expression = Expression::compile(&text, &environment, Output::Bool)
                .map_err(|error| error.to_string());
            Condition { text, expression }
        })
        .collect()
}

/// The largest number of match conditions of a webhook.
const MAX_CONDITIONS: usize = 64;

/// The errors in the match conditions of a configuration object.
pub fn validate_match_conditions(object: &Value) -> Vec<FieldError> {
    let environment = Environment::match_conditions();
    let mut errors = Vec::new();
    let list = object.get("webhooks").and_then(Value::as_array);
    for (index, webhook) in list.into_iter().flatten().enumerate() {
        let path = FieldPath::of("webhooks")
            .index(index)
            .child("matchConditions");
        let conditions = webhook
            .get("matchConditions")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if conditions.len() > MAX_CONDITIONS {
            errors.push(FieldError::too_many(
                &path,
                conditions.len(),
                MAX_CONDITIONS,
            ));
        }
        let mut names = BTreeSet::new();
        // Compiling is expensive, so conditions beyond the limit are not compiled.
        for (index, condition) in conditions.iter().take(MAX_CONDITIONS).enumerate() {
            validate_condition(
                condition,
                &path.index(index),
                &environment,
                &mut names,
                &mut errors,
            );
        }
    }
    errors
}

fn validate_condition<'a>(
    condition: &'a Value,
    path: &FieldPath,
    environment: &Environment,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let (name, expression) = (text(condition, "/name"), text(condition, "/expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), ""));
    } else if let Err(error) = Expression::compile(expression, environment, Output::Bool) {
        errors.push(FieldError::invalid(
            &path.child("expression"),
            &expression.into(),
            &error.to_string(),
        ));
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
        return;
    }
    if let Err(reasons) = polity_core::name::qualified_name(name) {
        errors.extend(
            reasons
                .iter()
                .map(|why| FieldError::invalid(&path.child("name"), &name.into(), why)),
        );
    }
    if !names.insert(name) {
        errors.push(FieldError::duplicate(&path.child("name"), &name.into()));
    }
}
