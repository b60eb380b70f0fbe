//! Which webhooks a request is shown to.

use std::borrow::Cow;

use polity_cel::{AccessTarget, Bindings, Budget};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use super::configurations::Webhook;
use super::review::Subject;
use super::{Attributes, Host, Operation, Served};
use polity_kinds::status::{ApiError, ResourceName};

/// A rule of a webhook.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; a subresource is empty for the resource itself.
    resources: Vec<(String, String)>,
    scope: RuleScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleScope {
    All,
    Cluster,
    Namespaced,
}

impl Rule {
    pub(super) fn parse(json: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = json.get(name).and_then(Value::as_array);
            list.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let resources = texts("resources")
            .into_iter()
            .map(|text| match text.split_once('/') {
                Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
                None => (text, String::new()),
            })
            .collect();
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources,
            scope: match json.get("scope").and_then(Value::as_str) {
                Some("Cluster") => RuleScope::Cluster,
                Some("Namespaced") => RuleScope::Namespaced,
                _ => RuleScope::All,
            },
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, resource: &GroupVersionResource) -> bool {
        let is_in =
            |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let is_cluster_scoped = attributes.is_namespace() || attributes.namespace.is_empty();
        let in_scope = match self.scope {
            RuleScope::All => true,
            RuleScope::Cluster => is_cluster_scoped,
            RuleScope::Namespaced => !is_cluster_scoped,
        };
        in_scope
            && is_in(&self.operations, attributes.operation.as_str())
            && is_in(&self.groups, &resource.group)
            && is_in(&self.versions, &resource.version)
            && self.resources.iter().any(|(name, subresource)| {
                (name == "*" || *name == resource.resource)
                    && (subresource == "*" || *subresource == attributes.subresource)
            })
    }
}

/// The version in which a webhook wants to see the request, if its rules match at all.
fn matched_version<'a>(
    webhook: &Webhook,
    host: &dyn Host,
    attributes: &Attributes<'a>,
) -> Option<(Cow<'a, GroupVersionResource>, Cow<'a, GroupVersionKind>)> {
    if webhook
        .rules
        .iter()
        .any(|rule| rule.matches(attributes, attributes.resource))
    {
        return Some((
            Cow::Borrowed(attributes.resource),
            Cow::Borrowed(attributes.kind),
        ));
    }
    if !webhook.matches_equivalents {
        return None;
    }
    let equivalents: Vec<Served> = host
        .equivalents(attributes.resource, attributes.subresource)
        .into_iter()
        .filter(|served| served.resource != *attributes.resource)
        .collect();
    // An earlier rule takes precedence over a later one, regardless of the version.
    let found = webhook.rules.iter().find_map(|rule| {
        equivalents
            .iter()
            .find(|served| rule.matches(attributes, &served.resource))
    })?;
    Some((
        Cow::Owned(found.resource.clone()),
        Cow::Owned(found.kind.clone()),
    ))
}

/// Whether and how a webhook is to be called.
pub(super) fn matched<'a>(
    webhook: &Webhook,
    host: &dyn Host,
    attributes: &Attributes<'a>,
    object: Option<&Value>,
) -> Result<Option<Invocation<'a>>, ApiError> {
    // A webhook that does not apply anyway must not fail the request, so errors wait.
    let in_namespace = matches_namespace(webhook, host, attributes, object);
    if matches!(in_namespace, Ok(false)) {
        return Ok(None);
    }
    let by_labels = matches_labels(webhook, attributes, object);
    if matches!(by_labels, Ok(false)) {
        return Ok(None);
    }
    let Some((resource, kind)) = matched_version(webhook, host, attributes) else {
        return Ok(None);
    };
    in_namespace?;
    by_labels?;
    Ok(Some(Invocation { resource, kind }))
}

/// The resource and kind a webhook is shown, which may be another version of the request's.
#[derive(Debug, Clone)]
pub(super) struct Invocation<'a> {
    pub(super) resource: Cow<'a, GroupVersionResource>,
    pub(super) kind: Cow<'a, GroupVersionKind>,
}

fn usable(selector: &Result<LabelSelector, String>) -> Result<&LabelSelector, ApiError> {
    selector.as_ref().map_err(ApiError::internal)
}

fn matches_namespace(
    webhook: &Webhook,
    host: &dyn Host,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<bool, ApiError> {
    if attributes.namespace.is_empty() && !attributes.is_namespace() {
        return Ok(true);
    }
    let selector = usable(&webhook.namespace_selector)?;
    if selector.is_everything() {
        return Ok(true);
    }
    let labels_of = |object: &Value| object.pointer("/metadata/labels").cloned();
    // The stored Namespace does not have the labels this request gives it.
    let is_own_write = attributes.is_namespace()
        && attributes.subresource.is_empty()
        && matches!(attributes.operation, Operation::Create | Operation::Update);
    let labels = if is_own_write {
        object.and_then(labels_of)
    } else {
        let namespace = host.namespace(attributes.namespace).ok_or_else(|| {
            ApiError::not_found(
                ResourceName {
                    group: "",
                    plural: "namespaces",
                },
                attributes.namespace,
            )
        })?;
        labels_of(&namespace)
    };
    Ok(selector.matches(&labels))
}

fn matches_labels(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<bool, ApiError> {
    let selector = usable(&webhook.object_selector)?;
    if selector.is_everything() {
        return Ok(true);
    }
    let either = [object, attributes.old_object];
    Ok(either
        .into_iter()
        .flatten()
        .any(|object| selector.matches(&object.pointer("/metadata/labels"))))
}

/// Whether the match conditions select the call. A false condition skips it. Otherwise the failure policy decides
/// about errors.
pub(super) fn conditions_hold(
    webhook: &Webhook,
    host: &dyn Host,
    attributes: &Attributes<'_>,
    subject: &Subject<'_>,
) -> Result<bool, ApiError> {
    if webhook.conditions.is_empty() {
        return Ok(true);
    }
    let bindings = subject
        .bindings
        .get_or_init(|| bindings(host, attributes, subject));
    let mut budget = Budget::of(Budget::PER_MATCH);
    let mut errors = Vec::new();
    for condition in &webhook.conditions {
        let result = match &condition.expression {
            Ok(expression) => expression
                .evaluate_bool(bindings, &mut budget)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        match result {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => errors.push(format!(
                "expression '{}' resulted in error: {error}",
                condition.text
            )),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        _ if webhook.fails_open => Ok(false),
        [one] => Err(forbidden(attributes, one)),
        several => Err(forbidden(attributes, &format!("[{}]", several.join(", ")))),
    }
}

fn forbidden(attributes: &Attributes<'_>, why: &str) -> ApiError {
    let resource = ResourceName {
        group: &attributes.resource.group,
        plural: &attributes.resource.resource,
    };
    ApiError::forbidden(resource, attributes.name, why)
}

fn bindings(host: &dyn Host, attributes: &Attributes<'_>, subject: &Subject<'_>) -> Bindings {
    let null = Value::Null;
    let target = AccessTarget::Resource {
        group: attributes.resource.group.clone(),
        resource: attributes.resource.resource.clone(),
        subresource: attributes.subresource.to_owned(),
        namespace: if attributes.is_namespace() {
            String::new()
        } else {
            attributes.namespace.to_owned()
        },
        name: attributes.name.to_owned(),
        field_selector: String::new(),
        label_selector: String::new(),
    };
    Bindings::new()
        .json("object", subject.object.as_deref().unwrap_or(&null))
        .json("oldObject", subject.old_object.as_deref().unwrap_or(&null))
        .json("request", &subject.request_for_conditions(attributes))
        .authorizer(&host.authorizer(attributes.user), target)
}
