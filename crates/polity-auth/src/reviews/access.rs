//! The access reviews: whether a user may do something.

use std::collections::BTreeMap;

use polity_core::field::{FieldError, FieldErrors, FieldPath};
use polity_core::name;
use polity_core::selector::{FieldSelector, LabelSelector};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ReviewContext, object};
use crate::{Attributes, Decision, UserInfo};
use polity_kinds::status::ApiError;

const GROUP: &str = "authorization.k8s.io";

/// The user and the scope of an access review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OfSelf,
    OfSubject,
    /// Of a subject, within the namespace of the request.
    Local,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::OfSelf => "SelfSubjectAccessReview",
            Self::OfSubject => "SubjectAccessReview",
            Self::Local => "LocalSubjectAccessReview",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    user: Option<String>,
    groups: Option<Vec<String>>,
    uid: Option<String>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
    label_selector: Option<Selector>,
}

/// Errors show these as Kubernetes does: by the names of its internal type.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all(serialize = "PascalCase"))]
struct NonResourceAttributes {
    path: String,
    verb: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    raw_selector: String,
    requirements: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// Responds to an access review.
pub(super) fn review(
    kind: Kind,
    body: &Value,
    context: &ReviewContext<'_>,
) -> Result<Value, ApiError> {
    let spec: Spec = match &body["spec"] {
        Value::Null => Spec::default(),
        spec => serde_json::from_value(spec.clone()).map_err(|error| {
            ApiError::bad_request(format!("{} cannot be read: {error}", kind.name()))
        })?,
    };
    let errors = mistakes(kind, body, &spec, context.namespace);
    if !errors.is_empty() {
        // Kubernetes has lost the kind by the time it validates.
        return Err(ApiError::invalid("", GROUP, "", &errors));
    }
    let subject = match kind {
        Kind::OfSelf => context.user.clone(),
        Kind::OfSubject | Kind::Local => UserInfo {
            username: spec.user.clone().unwrap_or_default(),
            uid: spec.uid.clone().unwrap_or_default(),
            groups: spec.groups.clone().unwrap_or_default(),
            extra: spec.extra.clone().unwrap_or_default(),
        },
    };
    let decision = context.authorizer.decide(&subject, &spec.attributes());
    let mut status = json!({"allowed": decision.is_allowed()});
    let (Decision::Allow { reason } | Decision::NoOpinion { reason }) = decision;
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    let ignored = spec
        .resource_attributes
        .as_ref()
        .map(ResourceAttributes::ignored)
        .unwrap_or_default();
    if !ignored.is_empty() {
        status["evaluationError"] = json!(ignored.join("; "));
    }
    let mut answer = object(
        GROUP,
        kind.name(),
        body,
        json!({"spec": body["spec"], "status": status}),
    );
    if kind == Kind::Local {
        answer["metadata"]["namespace"] = json!(context.namespace);
    }
    Ok(answer)
}

impl Spec {
    fn attributes(&self) -> Attributes<'_> {
        match (&self.resource_attributes, &self.non_resource_attributes) {
            (Some(it), _) => Attributes::Resource {
                verb: &it.verb,
                group: &it.group,
                version: if it.version.is_empty() {
                    "*"
                } else {
                    &it.version
                },
                resource: &it.resource,
                subresource: &it.subresource,
                name: &it.name,
                namespace: &it.namespace,
            },
            (None, Some(it)) => Attributes::NonResource {
                verb: &it.verb,
                path: &it.path,
            },
            (None, None) => Attributes::NonResource { verb: "", path: "" },
        }
    }
}

impl ResourceAttributes {
    /// Invalid selectors are ignored, and the response contains a message. Roles do not use selectors at all.
    fn ignored(&self) -> Vec<String> {
        let mut ignored = Vec::new();
        let mut note = |field: &str, selector: &Selector, n_bad: usize, is_raw_bad: bool| {
            let n_good = selector.requirements.len() - n_bad;
            let how = if n_bad > 0 && n_good > 0 {
                "partially ignored"
            } else {
                "ignored"
            };
            if n_bad > 0 || is_raw_bad {
                ignored.push(format!(
                    "spec.resourceAttributes.{field} {how} due to parse error"
                ));
            }
        };
        if let Some(selector) = &self.field_selector {
            let is_good = |it: &Requirement| {
                matches!(it.operator.as_str(), "In" | "NotIn") && it.values.len() == 1
            };
            let n_bad = selector
                .requirements
                .iter()
                .filter(|it| !is_good(it))
                .count();
            note(
                "fieldSelector",
                selector,
                n_bad,
                selector.raw_selector.parse::<FieldSelector>().is_err(),
            );
        }
        if let Some(selector) = &self.label_selector {
            let n_bad = selector
                .requirements
                .iter()
                .filter(|it| !it.has_known_operator())
                .count();
            note(
                "labelSelector",
                selector,
                n_bad,
                selector.raw_selector.parse::<LabelSelector>().is_err(),
            );
        }
        ignored
    }
}

impl Requirement {
    fn has_known_operator(&self) -> bool {
        matches!(
            self.operator.as_str(),
            "In" | "NotIn" | "Exists" | "DoesNotExist"
        )
    }
}

fn mistakes(kind: Kind, body: &Value, spec: &Spec, namespace: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    let path = FieldPath::of("spec");
    if spec.resource_attributes.is_some() == spec.non_resource_attributes.is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(
            &path,
            &json!(spec.non_resource_attributes),
            detail,
        ));
    }
    let is_nobody = spec.user.as_deref().unwrap_or_default().is_empty()
        && spec.groups.as_deref().unwrap_or_default().is_empty();
    if kind != Kind::OfSelf && is_nobody {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), &json!(""), detail));
    }
    if let Some(attributes) = &spec.resource_attributes {
        let path = path.child("resourceAttributes");
        if let Some(selector) = &attributes.field_selector {
            selector_mistakes(
                selector,
                &path.child("fieldSelector"),
                field_mistakes,
                &mut errors,
            );
        }
        if let Some(selector) = &attributes.label_selector {
            selector_mistakes(
                selector,
                &path.child("labelSelector"),
                label_mistakes,
                &mut errors,
            );
        }
    }
    errors.extend(metadata_mistake(kind, &body["metadata"]));
    if kind == Kind::Local {
        errors.extend(local_mistakes(spec, namespace));
    }
    errors.into_vec()
}

fn metadata_mistake(kind: Kind, metadata: &Value) -> Option<FieldError> {
    let mut substance: Map<String, Value> = metadata.as_object().cloned().unwrap_or_default();
    substance.retain(|key, value| key != "managedFields" && !value.is_null());
    let mut detail = "must be empty";
    if kind == Kind::Local {
        substance.remove("namespace");
        detail = "must be empty except for namespace";
    }
    (!substance.is_empty())
        .then(|| FieldError::invalid(&FieldPath::of("metadata"), metadata, detail))
}

fn local_mistakes(spec: &Spec, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::of("spec");
    if let Some(attributes) = spec
        .resource_attributes
        .as_ref()
        .filter(|it| it.namespace != namespace)
    {
        let field = path.child("resourceAttributes").child("namespace");
        errors.push(FieldError::invalid(
            &field,
            &json!(attributes.namespace),
            "must match metadata.namespace",
        ));
    }
    if let Some(attributes) = &spec.non_resource_attributes {
        let field = path.child("nonResourceAttributes");
        errors.push(FieldError::invalid(
            &field,
            &json!(attributes),
            "disallowed on this kind of request",
        ));
    }
    errors
}

fn selector_mistakes(
    selector: &Selector,
    path: &FieldPath,
    of_requirement: fn(&Requirement, &FieldPath, &mut FieldErrors),
    errors: &mut FieldErrors,
) {
    let requirements = path.child("requirements");
    match (
        selector.raw_selector.is_empty(),
        selector.requirements.is_empty(),
    ) {
        (false, false) => errors.push(FieldError::invalid(
            &path.child("rawSelector"),
            &json!(selector.raw_selector),
            "may not specified at the same time as requirements",
        )),
        (true, true) => errors.push(FieldError::required(
            &requirements,
            &format!("when {path} is specified, requirements or rawSelector is required"),
        )),
        _ => {}
    }
    for (index, requirement) in selector.requirements.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        of_requirement(requirement, &requirements.index(index), errors);
    }
}

fn field_mistakes(requirement: &Requirement, path: &FieldPath, errors: &mut FieldErrors) {
    if requirement.key.is_empty() {
        errors.push(FieldError::required(
            &path.child("key"),
            "must be specified",
        ));
    }
    values_mistake(requirement, path, errors);
}

fn label_mistakes(requirement: &Requirement, path: &FieldPath, errors: &mut FieldErrors) {
    values_mistake(requirement, path, errors);
    for wrong in name::qualified_name(&requirement.key)
        .err()
        .unwrap_or_default()
    {
        errors.push(FieldError::invalid(
            &path.child("key"),
            &json!(requirement.key),
            &wrong,
        ));
    }
    for (index, value) in requirement.values.iter().enumerate() {
        for wrong in name::label_value(value).err().unwrap_or_default() {
            errors.add(|| {
                FieldError::invalid(&path.child("values").index(index), &json!(value), &wrong)
            });
        }
    }
}

/// Operators we do not know pass: a newer client may, and ignoring them only widens the question.
fn values_mistake(requirement: &Requirement, path: &FieldPath, errors: &mut FieldErrors) {
    let values = path.child("values");
    match (requirement.operator.as_str(), requirement.values.is_empty()) {
        ("In" | "NotIn", true) => errors.push(FieldError::required(
            &values,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        ("Exists" | "DoesNotExist", false) => errors.push(FieldError::forbidden(
            &values,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => {}
    }
}
