//! Webhook configurations and admission policies.

use std::collections::HashSet;

use polity_core::FieldPath;
use polity_core::name;
use serde_json::{Value, json};
use url::Url;

use super::{Errors, Object, at, field, list, rules, text};

/// Versions of AdmissionReview this server can send.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const MAX_MATCH_CONDITIONS: usize = 64;

pub(super) fn webhook(hook: &Object, path: &FieldPath, errors: &mut Errors) {
    full_name(hook, path, errors);
    let timeout = field(hook, "timeoutSeconds");
    if timeout
        .as_i64()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        let path = path.child("timeoutSeconds");
        errors.invalid(
            &path,
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    client_config(
        field(hook, "clientConfig"),
        &path.child("clientConfig"),
        errors,
    );
    review_versions(hook, &path.child("admissionReviewVersions"), errors);
    match_conditions(hook, path, errors);
}

/// A webhook's name is a domain of three segments or more.
fn full_name(hook: &Object, path: &FieldPath, errors: &mut Errors) {
    let (name, path) = (text(hook, "name"), path.child("name"));
    if name.is_empty() {
        errors.required(&path, "");
    } else if let Err(complaints) = name::dns_subdomain(name) {
        errors.invalid(&path, &json!(name), &complaints.join(","));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.invalid(&path, &json!(name), detail);
    }
}

fn client_config(config: &Value, path: &FieldPath, errors: &mut Errors) {
    match (
        config.get("url").and_then(Value::as_str),
        config.get("service"),
    ) {
        (Some(_), Some(_)) | (None, None) => {
            errors.required(path, "exactly one of url or service is required");
        }
        (Some(url), None) => check_url(url, &path.child("url"), errors),
        // A service reference is checked by its type, wherever it occurs.
        (None, Some(_)) => {}
    }
}

fn check_url(text: &str, path: &FieldPath, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::EmptyHost) => {
            errors.invalid(path, &json!(""), &format!("host must be specified{FORM}"));
            return;
        }
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            errors.invalid(
                path,
                &json!(""),
                &format!("'https' is the only allowed URL scheme{FORM}"),
            );
            errors.invalid(path, &json!(""), &format!("host must be specified{FORM}"));
            return;
        }
        Err(error) => {
            errors.required(path, &format!("url must be a valid URL: {error}{FORM}"));
            return;
        }
    };
    if url.scheme() != "https" {
        errors.invalid(
            path,
            &json!(url.scheme()),
            &format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if url.host_str().is_none_or(str::is_empty) {
        errors.invalid(path, &json!(""), &format!("host must be specified{FORM}"));
    }
    let user = match url.password() {
        Some(password) => format!("{}:{password}", url.username()),
        None => url.username().to_owned(),
    };
    if !user.is_empty() {
        errors.invalid(
            path,
            &json!(user),
            "user information is not permitted in the URL",
        );
    }
    if let Some(fragment) = url.fragment().filter(|fragment| !fragment.is_empty()) {
        errors.invalid(
            path,
            &json!(fragment),
            "fragments are not permitted in the URL",
        );
    }
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        errors.invalid(
            path,
            &json!(query),
            "query parameters are not permitted in the URL",
        );
    }
}

/// The port and path of a service; its names are required by the table.
pub(super) fn service(service: &Object, path: &FieldPath, errors: &mut Errors) {
    let port = field(service, "port");
    if port
        .as_i64()
        .is_some_and(|port| !(1..=65535).contains(&port))
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("port"), port, detail);
    }
    let (given, path) = (text(service, "path"), path.child("path"));
    if given.is_empty() || given == "/" {
        return;
    }
    if !given.starts_with('/') {
        errors.invalid(&path, &json!(given), "must start with a '/'");
    }
    // Like the real server, treat the first character as the slash, whatever it is.
    let relative: String = given.chars().skip(1).collect();
    for (index, segment) in relative
        .strip_suffix('/')
        .unwrap_or(&relative)
        .split('/')
        .enumerate()
    {
        if segment.is_empty() {
            errors.invalid(
                &path,
                &json!(given),
                &format!("segment[{index}] may not be empty"),
            );
            continue;
        }
        for complaint in name::dns_subdomain(segment).err().into_iter().flatten() {
            errors.invalid(
                &path,
                &json!(given),
                &format!("segment[{index}]: {complaint}"),
            );
        }
    }
}

fn review_versions(hook: &Object, path: &FieldPath, errors: &mut Errors) {
    let versions = list(hook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.required(path, &format!("must specify one of {known}"));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if seen.insert(text) {
            errors.named(&path.index(index), version, name::dns_1035_label(text));
        } else {
            errors.invalid(&path.index(index), version, "duplicate version");
        }
    }
    if !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        let given = field(hook, "admissionReviewVersions");
        errors.invalid(
            path,
            given,
            &format!("must include at least one of {known}"),
        );
    }
}

/// Names of conditions differ, and there are not too many; the expressions are compiled elsewhere.
fn match_conditions(object: &Object, path: &FieldPath, errors: &mut Errors) {
    let conditions = list(object, "matchConditions");
    let path = path.child("matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errors.0.push(polity_core::FieldError::too_many(
            &path,
            conditions.len(),
            MAX_MATCH_CONDITIONS,
        ));
    }
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let name = at(condition, "name");
        if let Some(text) = name.as_str().filter(|text| !text.is_empty())
            && !seen.insert(text)
        {
            errors.duplicate(&path.index(index).child("name"), name);
        }
    }
}

pub(super) fn operations(rule: &Object, path: &FieldPath, errors: &mut Errors) {
    let supported = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = list(rule, "operations");
    let path = path.child("operations");
    if operations.len() > 1 && operations.contains(&json!("*")) {
        let detail = "if '*' is present, must not specify other operations";
        errors.invalid(&path, field(rule, "operations"), detail);
    }
    for (index, operation) in operations.iter().enumerate() {
        if !supported.contains(&operation.as_str().unwrap_or_default()) {
            errors.not_supported(&path.index(index), operation, &supported);
        }
    }
}

pub(super) fn rule(rule: &Object, path: &FieldPath, errors: &mut Errors) {
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if list(rule, name).len() > 1 && list(rule, name).contains(&json!("*")) {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.invalid(&path.child(name), field(rule, name), &detail);
        }
    }
    for (index, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.required(&path.child("apiVersions").index(index), "");
        }
    }
    resources(rule, &path.child("resources"), errors);
}

/// A wildcard must not be combined with entries that it already covers.
fn resources(rule: &Object, path: &FieldPath, errors: &mut Errors) {
    let resources: Vec<&str> = list(rule, "resources")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let (mut all_of, mut on_all) = (HashSet::new(), HashSet::new());
    for (index, entry) in resources.iter().enumerate() {
        if entry.is_empty() {
            errors.required(&path.index(index), "");
            continue;
        }
        let Some((resource, sub)) = entry.split_once('/') else {
            continue;
        };
        if all_of.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {entry}");
            errors.invalid(&path.index(index), &json!(entry), &detail);
        }
        if on_all.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {entry}");
            errors.invalid(&path.index(index), &json!(entry), &detail);
        }
        if sub == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            on_all.insert(sub);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        errors.invalid(
            path,
            field(rule, "resources"),
            "if '*/*' is present, must not specify other resources",
        );
    }
    // Only the last resource without a subresource counts; so it is on a real server.
    let last_plain = resources
        .iter()
        .rev()
        .find(|entry| !entry.is_empty() && !entry.contains('/'));
    if resources.contains(&"*") && last_plain.is_some_and(|entry| *entry != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, field(rule, "resources"), detail);
    }
}

pub(super) fn param_ref(params: &Object, path: &FieldPath, errors: &mut Errors) {
    match (text(params, "name"), params.get("selector")) {
        ("", None) => errors.required(path, "one of name or selector must be specified"),
        ("", Some(selector)) => rules::selector(selector, &path.child("selector"), errors),
        (name, None) => errors.named(&path.child("name"), &json!(name), name::path_segment(name)),
        (_, Some(_)) => {
            for field in ["name", "selector"] {
                errors.forbidden(
                    &path.child(field),
                    "name and selector are mutually exclusive",
                );
            }
        }
    }
}

pub(super) fn actions(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let actions = list(spec, "validationActions");
    let path = path.child("validationActions");
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let supported = ["Audit", "Deny", "Warn"];
        if !supported.contains(&action.as_str().unwrap_or_default()) {
            errors.not_supported(&path.index(index), action, &supported);
        }
        if !seen.insert(action.to_string()) {
            errors.duplicate(&path.index(index), action);
        }
    }
    if actions.contains(&json!("Deny")) && actions.contains(&json!("Warn")) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure \
                      information in the API response and headers serves no purpose)";
        errors.invalid(&path, field(spec, "validationActions"), detail);
    }
}

pub(super) fn policy_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    resource_rules(spec, path, errors);
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.required(&path.child(field), detail);
        }
    }
}

/// A policy must name the resources that it matches.
pub(super) fn resource_rules(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    match_conditions(spec, path, errors);
    let constraints = field(spec, "matchConstraints");
    if constraints.is_object() && rules::is_absent(at(constraints, "resourceRules")) {
        errors.required(&path.child("matchConstraints").child("resourceRules"), "");
    }
}
