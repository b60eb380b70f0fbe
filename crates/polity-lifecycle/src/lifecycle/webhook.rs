//! The webhook configuration of a policy: what it should be for a revision, and what it says when it is read.
//!
//! Validating and mutating configurations have the same shape as far as we go, so both are this one value; the shell
//! knows which resource to write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use polity_api::policies::names;
use polity_api::policies::v1::{Enforcement, FailurePolicy, MatchPolicy, PolicyRevision};
use polity_core::policy::{dotted_name, unique_name};
use serde_json::{Value, json};

use super::observed::{Revision as _, Settings};
use super::policy::{Content, Policy};
use crate::names::{policy_server, validate_path, webhook_name};

/// The label every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Which of the two resources a configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookKind {
    /// A ValidatingWebhookConfiguration.
    Validating,
    /// A MutatingWebhookConfiguration.
    Mutating,
}

impl WebhookKind {
    /// The kind as objects spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }
}

/// A webhook configuration, read or to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Which of the two resources it is.
    pub kind: WebhookKind,
    /// Its name.
    pub name: String,
    /// Its UID, once stored.
    pub uid: Option<String>,
    /// The version that was read.
    pub resource_version: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The webhooks in it; ours has exactly one.
    pub hooks: Vec<Value>,
}

/// Whose a webhook configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This policy's, by its UID.
    This,
    /// This policy's, by name only: an older installation made it.
    Inherited,
    /// Somebody else's. It is never touched.
    Other,
}

impl Webhook {
    /// What the configuration should be for this revision. `before` is what is there now; the time of the switch is kept
    /// as long as the generation is.
    pub fn desired(
        policy: &Policy,
        revision: &PolicyRevision,
        settings: &Settings,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        let content = revision.content()?;
        let id = revision.id().unwrap_or_default();
        let kind = Self::kind_of(&content);
        let before = before.filter(|before| before.kind == kind && before.name == id);
        let switched_at = before
            .filter(|before| before.generation() == Some(revision.generation()))
            .and_then(Self::switched_at)
            .unwrap_or(now);
        let mut labels = before
            .map(|before| before.labels.clone())
            .unwrap_or_default();
        labels.insert(names::PART_OF.into(), names::PART_OF_VALUE.into());
        let mut annotations = before
            .map(|before| before.annotations.clone())
            .unwrap_or_default();
        annotations.extend(
            [
                (names::WEBHOOK_POLICY_NAME, policy.name.clone()),
                (
                    names::WEBHOOK_POLICY_NAMESPACE,
                    policy.namespace().unwrap_or_default().to_owned(),
                ),
                (names::POLICY_UID, policy.uid.clone()),
                (names::WEBHOOK_SWITCHED_AT, switched_at.to_string()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        Ok(Self {
            kind,
            name: id.to_owned(),
            uid: before.and_then(|before| before.uid.clone()),
            resource_version: before.and_then(|before| before.resource_version.clone()),
            labels,
            annotations,
            hooks: vec![hook(policy, &content, id, revision.generation(), settings)],
        })
    }

    /// The resource that a policy with this content needs.
    pub fn kind_of(content: &Content) -> WebhookKind {
        if content.mutating {
            WebhookKind::Mutating
        } else {
            WebhookKind::Validating
        }
    }

    /// The generation it points at, if its path ends in one.
    pub fn generation(&self) -> Option<i64> {
        let client = self.hooks.first()?.get("clientConfig")?;
        let path = match client.get("url").and_then(Value::as_str) {
            Some(url) => url.split_once("://")?.1.split_once('/')?.1,
            None => client.get("service")?.get("path")?.as_str()?,
        };
        let mut segments = path.trim_start_matches('/').split('/');
        match (
            segments.next(),
            segments.next(),
            segments.next(),
            segments.next(),
        ) {
            (Some("validate"), Some(_), Some(generation), None) => generation.parse().ok(),
            _ => None,
        }
    }

    /// When it was last moved to another generation.
    pub fn switched_at(&self) -> Option<Timestamp> {
        self.annotations
            .get(names::WEBHOOK_SWITCHED_AT)?
            .parse()
            .ok()
    }

    /// Whose it is, seen from a policy.
    pub fn owner(&self, policy: &Policy) -> Owner {
        let annotation = |key| self.annotations.get(key).map(String::as_str);
        match annotation(names::POLICY_UID) {
            Some(uid) if uid == policy.uid => return Owner::This,
            Some(_) => return Owner::Other,
            None => {}
        }
        let ids =
            [unique_name, dotted_name].map(|id| id(policy.kind, policy.namespace(), &policy.name));
        let is_inherited = self.labels.get(names::PART_OF).map(String::as_str)
            == Some(names::PART_OF_VALUE)
            && annotation(names::WEBHOOK_POLICY_NAME) == Some(&policy.name)
            && annotation(names::WEBHOOK_POLICY_NAMESPACE).unwrap_or_default()
                == policy.namespace().unwrap_or_default()
            && ids.contains(&self.name);
        if is_inherited {
            Owner::Inherited
        } else {
            Owner::Other
        }
    }

    /// Whether it is as it should be, whatever others have added to its metadata.
    pub fn is_as(&self, desired: &Self) -> bool {
        let has = |mine: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
            wanted
                .iter()
                .all(|(key, value)| mine.get(key) == Some(value))
        };
        self.kind == desired.kind
            && self.name == desired.name
            && has(&self.labels, &desired.labels)
            && has(&self.annotations, &desired.annotations)
            && normal(&json!(self.hooks)) == normal(&json!(desired.hooks))
    }
}

/// The one webhook of a policy, with every default spelled out: what the API server would fill in must not look like
/// somebody's edit.
fn hook(
    policy: &Policy,
    content: &Content,
    id: &str,
    generation: i64,
    settings: &Settings,
) -> Value {
    let Enforcement {
        policy_server: server,
        rules,
        failure_policy,
        match_policy,
        match_conditions,
        object_selector,
        side_effects,
        timeout_seconds,
        mode: _,
        background_audit: _,
    } = &content.enforcement;
    let scope = policy.kind.is_namespaced().then_some("Namespaced");
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| {
            let mut rule = rule.clone();
            let given = rule.scope.take();
            rule.scope = scope.map(str::to_owned).or(given).or(Some("*".into()));
            rule
        })
        .collect();
    let mut hook = json!({
        "name": webhook_name(id),
        "clientConfig": {
            "caBundle": ByteString(settings.ca_bundle.clone().into_bytes()),
            "service": {
                "namespace": settings.namespace,
                "name": policy_server(server),
                "port": 443,
                "path": validate_path(id, generation),
            },
        },
        "admissionReviewVersions": ["v1"],
        "rules": rules,
        "failurePolicy": failure_policy.unwrap_or(FailurePolicy::Fail),
        "matchPolicy": match_policy.unwrap_or(MatchPolicy::Equivalent),
        "namespaceSelector": namespace_selector(policy, content, settings),
        "objectSelector": object_selector.clone().unwrap_or_default(),
        "sideEffects": side_effects.as_deref().unwrap_or("None"),
        "timeoutSeconds": timeout_seconds,
    });
    if let Some(conditions) = match_conditions.as_ref().filter(|all| !all.is_empty()) {
        hook["matchConditions"] = json!(conditions);
    }
    if content.mutating {
        hook["reinvocationPolicy"] = json!("Never");
    }
    hook
}

/// The namespaces whose objects a policy is called for.
fn namespace_selector(policy: &Policy, content: &Content, settings: &Settings) -> LabelSelector {
    if let Some(namespace) = policy.namespace() {
        return LabelSelector {
            match_labels: Some([(NAMESPACE_NAME.to_owned(), namespace.to_owned())].into()),
            match_expressions: None,
        };
    }
    let cluster = content.cluster.clone().unwrap_or_default();
    let is_everywhere = cluster.allows_inside_own_namespace();
    let mut selector = cluster.namespace_selector.unwrap_or_default();
    if !is_everywhere {
        let not_ours = LabelSelectorRequirement {
            key: NAMESPACE_NAME.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![settings.namespace.clone()]),
        };
        selector
            .match_expressions
            .get_or_insert_default()
            .push(not_ours);
    }
    selector
}

/// A value without what the API server leaves out: nulls, empty lists, empty objects.
pub(crate) fn normal(value: &Value) -> Value {
    let is_something = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .filter(|(_, value)| is_something(value))
            .collect(),
        Value::Array(items) => items.iter().map(normal).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
