//! The review kinds about users and permissions: they are evaluated on POST and never stored.

mod access;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::rbac::{Rule, unresolved};
use super::token::{Objects, TokenError};
use super::{Authenticator, Authorizer, UserInfo, rfc3339};
use polity_kinds::status::{ApiError, ResourceName};

/// The inputs of a review.
#[derive(Clone, Copy)]
pub struct ReviewContext<'a> {
    /// The user who sends the review.
    pub user: &'a UserInfo,
    /// The namespace of the URL; empty at the cluster scope.
    pub namespace: &'a str,
    pub authorizer: Authorizer<'a>,
    pub authenticator: &'a Authenticator,
    pub objects: &'a dyn Objects,
    pub now: Timestamp,
}

/// Evaluates the review posted to `resource`, such as `selfsubjectaccessreviews`. Returns the body with its status.
pub fn answer(
    resource: &str,
    body: &Value,
    context: &ReviewContext<'_>,
) -> Result<Value, ApiError> {
    match resource {
        "selfsubjectaccessreviews" => access::review(access::Kind::OfSelf, body, context),
        "subjectaccessreviews" => access::review(access::Kind::OfSubject, body, context),
        "localsubjectaccessreviews" => access::review(access::Kind::Local, body, context),
        "selfsubjectrulesreviews" => rules(body, context),
        "selfsubjectreviews" => Ok(who_am_i(context)),
        "tokenreviews" => token(body, context),
        _ => Err(ApiError::not_found(
            ResourceName {
                group: "",
                plural: resource,
            },
            "",
        )),
    }
}

/// A review object of this kind around a spec and a status.
fn object(group: &str, kind: &str, body: &Value, parts: Value) -> Value {
    let metadata = body["metadata"].as_object().cloned().unwrap_or_default();
    let mut object =
        json!({"kind": kind, "apiVersion": format!("{group}/v1"), "metadata": metadata});
    if let (Some(object), Value::Object(parts)) = (object.as_object_mut(), parts) {
        object.extend(parts);
    }
    object
}

fn rules(body: &Value, context: &ReviewContext<'_>) -> Result<Value, ApiError> {
    let namespace = body["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, errors) = context.authorizer.rules_for(context.user, namespace);
    let on_resources: Vec<_> = rules
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| Rule {
            non_resource_urls: Vec::new(),
            ..rule.clone()
        })
        .collect();
    let on_urls: Vec<_> = rules
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
        .collect();
    let mut status =
        json!({"resourceRules": on_resources, "nonResourceRules": on_urls, "incomplete": false});
    if !errors.is_empty() {
        status["evaluationError"] = json!(unresolved(errors));
    }
    // The only review whose response does not contain its spec.
    let empty = json!({"metadata": {}});
    let parts = json!({"spec": {}, "status": status});
    Ok(object(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        &empty,
        parts,
    ))
}

fn who_am_i(context: &ReviewContext<'_>) -> Value {
    let body = json!({"metadata": {"creationTimestamp": rfc3339(context.now)}});
    let parts = json!({"status": {"userInfo": context.user}});
    object("authentication.k8s.io", "SelfSubjectReview", &body, parts)
}

fn token(body: &Value, context: &ReviewContext<'_>) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut audiences: Vec<String> = match &spec["audiences"] {
        Value::Null => Vec::new(),
        list => serde_json::from_value(list.clone())
            .map_err(|_| ApiError::bad_request("spec.audiences must be a list of strings"))?,
    };
    if audiences.is_empty() {
        audiences = context.authenticator.issuer().audiences().to_vec();
    }
    let result =
        context
            .authenticator
            .authenticate_token(token, &audiences, context.objects, context.now);
    let status = match result {
        Ok(found) => {
            json!({"authenticated": true, "user": found.user, "audiences": found.audiences})
        }
        Err(error) => json!({"user": Map::new(), "error": refused(&error)}),
    };
    Ok(object(
        "authentication.k8s.io",
        "TokenReview",
        body,
        json!({"spec": spec, "status": status}),
    ))
}

/// A token is first checked as a static one, then as a service account token. Both errors are reported.
fn refused(error: &TokenError) -> String {
    match error {
        TokenError::Unrecognized => error.to_string(),
        error => format!("[{}, {error}]", TokenError::Unrecognized),
    }
}

#[cfg(test)]
mod tests;
