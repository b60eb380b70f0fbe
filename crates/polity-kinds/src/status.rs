//! Failures as clients see them: the Kubernetes `Status` object with its code, reason and causes.

use std::fmt::Write;

use http::StatusCode;
use polity_core::field::{self, FieldError};
use polity_core::findings::MAX_FINDINGS;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One cause in `details.causes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// `details` of a Status. Empty members are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, except for `Invalid`, where it is the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The resource that an error names: `deployments.apps`, or `configmaps` in the core group.
#[derive(Debug, Clone, Copy)]
pub struct ResourceName<'a> {
    pub group: &'a str,
    pub plural: &'a str,
}

impl std::fmt::Display for ResourceName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(self.plural)
        } else {
            write!(f, "{}.{}", self.plural, self.group)
        }
    }
}

/// A failed request, with the content of its response.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: StatusCode,
    /// Empty for the few responses without a reason.
    pub reason: String,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// A fresh continue token, for an expired one.
    pub continue_token: Option<String>,
}

impl ApiError {
    pub fn new(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn about(self, resource: ResourceName<'_>, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.plural.to_owned(),
            ..Details::default()
        })
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// `{res} "{name}" is forbidden: {why}`
    pub fn forbidden(resource: ResourceName<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// `{res} "{name}" not found`
    pub fn not_found(resource: ResourceName<'_>, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{resource} \"{name}\" not found"),
        )
        .about(resource, name)
    }

    /// `{res} "{name}" already exists`
    pub fn already_exists(resource: ResourceName<'_>, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// `Operation cannot be fulfilled on {res} "{name}": {why}`
    pub fn conflict(resource: ResourceName<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    pub fn method_not_allowed(resource: ResourceName<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).about(resource, "")
    }

    /// A path below a known group that leads to no resource.
    pub fn no_such_resource() -> Self {
        Self::bare(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// A built-in resource does not support the method.
    pub fn no_such_method() -> Self {
        Self::bare(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// A JSON patch that does not fit its object.
    pub fn rejected() -> Self {
        Self::bare(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    }

    /// An error without information about the resource: its `details` are present and empty.
    pub fn bare(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self::new(code, reason, message).with_details(Details::default())
    }

    /// The response to an error that a real server did not expect: 500 without a reason.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// `{Kind}[.{group}] "{name}" is invalid: {errors}`
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let shown = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let n_more = errors.len().saturating_sub(MAX_FINDINGS);
        let errors = &errors[..errors.len() - n_more];
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.kind.reason().to_owned(),
                message: error.message.clone(),
                field: if error.field.is_empty() {
                    "<nil>".into()
                } else {
                    error.field.clone()
                },
            })
            .collect();
        let mut message = format!("{shown} \"{name}\" is invalid: {}", field::join(errors));
        if n_more > 0 {
            let _ = write!(message, ", and {n_more} more errors");
        }
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// `Internal error occurred: {why}`
    pub fn internal(why: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause {
            message: why.to_string(),
            ..Cause::default()
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message).with_details(
            Details {
                causes: vec![cause],
                ..Details::default()
            },
        )
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        )
    }

    /// The response of an overloaded server: the client should retry after a second.
    pub fn too_many_requests() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "Too many requests, please try again later.",
        )
        .with_details(Details {
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// `Timeout: {why}`
    pub fn timeout(why: &str) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: {why}"),
        )
        .with_details(Details {
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// The Status object.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = json!(details);
        }
        status
    }
}
