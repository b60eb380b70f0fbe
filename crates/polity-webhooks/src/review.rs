//! The AdmissionReview: the request to a webhook and its response.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use polity_cel::Bindings;
use polity_core::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::matching::Invocation;
use super::{Attributes, Notes};
use polity_auth::UserInfo;
use polity_kinds::status::{ApiError, Details};

/// The supported versions of AdmissionReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The objects of a request in one version, made ready once for all webhooks that want it.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) invocation: Invocation<'a>,
    pub(super) object: Option<Arc<Value>>,
    pub(super) old_object: Option<Cow<'a, Value>>,
    raw: OnceLock<RawObjects>,
    /// The variables of match conditions.
    pub(super) bindings: OnceLock<Bindings>,
}

#[derive(Debug, Default)]
struct RawObjects {
    object: Option<Box<RawValue>>,
    old_object: Option<Box<RawValue>>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        invocation: Invocation<'a>,
        object: Option<&Arc<Value>>,
        old_object: Option<&'a Value>,
    ) -> Self {
        let api_version = invocation.kind.api_version();
        let fits =
            |object: &Value| object.get("apiVersion").and_then(Value::as_str) == Some(&api_version);
        let object = object.map(|object| {
            if fits(object) {
                Arc::clone(object)
            } else {
                Arc::new(in_version(object, &api_version))
            }
        });
        let old_object = old_object.map(|object| {
            if fits(object) {
                Cow::Borrowed(object)
            } else {
                Cow::Owned(in_version(object, &api_version))
            }
        });
        Self {
            invocation,
            object,
            old_object,
            raw: OnceLock::new(),
            bindings: OnceLock::new(),
        }
    }

    fn raw(&self) -> &RawObjects {
        self.raw.get_or_init(|| RawObjects {
            object: self
                .object
                .as_deref()
                .and_then(|object| to_raw_value(object).ok()),
            old_object: self
                .old_object
                .as_deref()
                .and_then(|object| to_raw_value(object).ok()),
        })
    }

    /// The body of a review.
    pub(super) fn body(
        &self,
        version: ReviewVersion,
        uid: &str,
        attributes: &Attributes<'_>,
    ) -> Vec<u8> {
        let raw = self.raw();
        let review = Review {
            kind: "AdmissionReview",
            api_version: version.api_version(),
            request: Request {
                objects: Some(Objects {
                    object: raw.object.as_deref(),
                    old_object: raw.old_object.as_deref(),
                }),
                ..self.request(uid, attributes)
            },
        };
        // Texts, numbers and JSON that was JSON before: there is nothing to fail.
        serde_json::to_vec(&review).unwrap_or_default()
    }

    /// The variable `request` of match conditions.
    pub(super) fn request_for_conditions(&self, attributes: &Attributes<'_>) -> Value {
        serde_json::to_value(self.request("", attributes)).unwrap_or_default()
    }

    fn request<'b>(&'b self, uid: &'b str, attributes: &'b Attributes<'_>) -> Request<'b> {
        Request {
            uid,
            kind: Kind::of(&self.invocation.kind),
            resource: Resource::of(&self.invocation.resource),
            sub_resource: attributes.subresource,
            request_kind: Kind::of(attributes.kind),
            request_resource: Resource::of(attributes.resource),
            request_sub_resource: attributes.subresource,
            name: attributes.name,
            namespace: attributes.namespace,
            operation: attributes.operation.as_str(),
            user_info: attributes.user,
            objects: None,
            dry_run: attributes.dry_run,
            options: attributes.options,
        }
    }
}

/// The object in another version, which differs by its `apiVersion` only.
pub(super) fn in_version(object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), api_version.into());
    }
    object
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'a str,
    api_version: &'a str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Request<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    kind: Kind<'a>,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'a str,
    user_info: &'a UserInfo,
    #[serde(flatten)]
    objects: Option<Objects<'a>>,
    dry_run: bool,
    options: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Objects<'a> {
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Kind<'a> {
    fn of(kind: &'a GroupVersionKind) -> Self {
        Self {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
        }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Resource<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

impl<'a> Resource<'a> {
    fn of(resource: &'a GroupVersionResource) -> Self {
        Self {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.resource,
        }
    }
}

/// The decision of a webhook.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    pub(super) status: Option<ResponseStatus>,
    pub(super) patch: Option<Patch>,
    pub(super) notes: Notes,
}

/// The patch of a mutating webhook, not decoded yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: String,
}

/// The `status` of a response.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ResponseStatus {
    code: Option<i64>,
    message: Option<String>,
    reason: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseReview {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    response: Option<WebhookResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct WebhookResponse {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<ResponseStatus>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// Reads the response of a webhook, or returns why it is invalid.
pub(super) fn read_answer(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
    webhook: &str,
) -> Result<Verdict, String> {
    let called = |why: String| format!("failed to call webhook: {why}");
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let header: Value = serde_json::from_slice(body).map_err(|error| {
        called(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    if !header.is_object() {
        return Err(called(
            "couldn't get version/kind; json parse error: the answer is not a JSON object".into(),
        ));
    }
    let header = without_nulls(header);
    check_kind(&header, version).map_err(called)?;
    let review =
        ResponseReview::deserialize(&header).map_err(|error| called(format!("json: {error}")))?;
    let answer = review
        .response
        .ok_or_else(|| invalid("webhook response was absent"))?;
    let patch = match &answer.patch {
        None => Vec::new(),
        Some(text) => BASE64_STANDARD
            .decode(text)
            .map_err(|error| called(illegal_base64(&error)))?,
    };
    if version == ReviewVersion::V1 {
        let answered = answer.uid.as_deref().unwrap_or_default();
        if answered != uid {
            return Err(invalid(&format!(
                "expected response.uid={uid:?}, got {answered:?}"
            )));
        }
        if review.kind.is_none() && review.api_version.is_none() {
            let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
            return Err(invalid(&format!(
                "expected webhook response of {expected}, got /, Kind="
            )));
        }
        check_patch(&patch, answer.patch_type.as_deref(), is_mutating)
            .map_err(|why| invalid(&why))?;
    }
    let patch = (is_mutating && !patch.is_empty()).then(|| Patch {
        bytes: patch,
        // The type is not checked in v1beta1.
        kind: match version {
            ReviewVersion::V1 => answer.patch_type.unwrap_or_default(),
            ReviewVersion::V1beta1 => "JSONPatch".to_owned(),
        },
    });
    let annotations = answer.audit_annotations.unwrap_or_default();
    Ok(Verdict {
        allowed: answer.allowed.unwrap_or_default(),
        status: answer.status,
        patch,
        notes: Notes {
            warnings: answer.warnings.unwrap_or_default(),
            audit_annotations: annotations
                .into_iter()
                .map(|(key, value)| (format!("{webhook}/{key}"), value))
                .collect(),
        },
    })
}

/// As Go decodes it: a null member is a missing one.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let there = members.into_iter().filter(|(_, member)| !member.is_null());
            let there = there.map(|(name, member)| (name, without_nulls(member)));
            Value::Object(there.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A missing kind is treated as the expected one.
fn check_kind(header: &Value, version: ReviewVersion) -> Result<(), String> {
    let text = |name: &str| header.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() && kind.is_empty() {
        return Ok(());
    }
    let known = [ReviewVersion::V1, ReviewVersion::V1beta1]
        .into_iter()
        .find(|known| known.api_version() == api_version);
    match known {
        Some(answered) if kind == "AdmissionReview" && answered == version => Ok(()),
        Some(_) if kind == "AdmissionReview" => {
            let short = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
            let (from, to) = (short(api_version), short(version.api_version()));
            Err(format!(
                "converting ({from}.AdmissionReview) to ({to}.AdmissionReview): unknown conversion"
            ))
        }
        _ => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

fn check_patch(patch: &[u8], kind: Option<&str>, is_mutating: bool) -> Result<(), String> {
    match (is_mutating, patch.is_empty(), kind) {
        (true, false, None) => {
            Err("webhook returned response.patch but not response.patchType".into())
        }
        (true, true, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".into())
        }
        (true, _, Some("")) => Err("webhook returned invalid response.patchType of \"\"".into()),
        (false, false, _) => Err("validating webhook may not return response.patch".into()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".into()),
        _ => Ok(()),
    }
}

fn illegal_base64(error: &base64::DecodeError) -> String {
    let position = match error {
        base64::DecodeError::InvalidByte(position, _)
        | base64::DecodeError::InvalidLastSymbol(position, _) => *position,
        base64::DecodeError::InvalidLength(length) => *length,
        base64::DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {position}")
}

/// The response to a request that a webhook refused.
pub(super) fn refusal(webhook: &str, status: Option<ResponseStatus>) -> ApiError {
    let status = status.unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let reason = status.reason.unwrap_or_default();
    let message = match status.message {
        Some(message) if !message.is_empty() => format!("{denied}: {message}"),
        _ if !reason.is_empty() => format!("{denied}: {reason}"),
        _ => format!("{denied} without explanation"),
    };
    let code = u16::try_from(status.code.unwrap_or_default())
        .ok()
        .filter(|code| *code >= 400);
    let code = code
        .and_then(|code| http::StatusCode::from_u16(code).ok())
        .unwrap_or(http::StatusCode::BAD_REQUEST);
    let mut error = ApiError::new(code, &reason, message);
    error.details = status.details.map(Box::new);
    error
}
