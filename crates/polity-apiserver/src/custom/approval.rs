//! Definitions in the groups of the Kubernetes project need its approval, or a statement that
//! they lack it.

use polity_core::field::{FieldError, FieldErrors, FieldPath};
use serde_json::{Value, json};

use crate::object::meta;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    /// A URL of the approval.
    Approved,
    /// `unapproved`, and a reason.
    Bypassed,
    Missing,
    Invalid,
}

impl Approval {
    fn of(crd: &Value) -> Self {
        let text = annotation(crd);
        if text.is_empty() {
            Self::Missing
        } else if text.starts_with("unapproved") {
            Self::Bypassed
        } else if text
            .parse::<http::Uri>()
            .is_ok_and(|uri| uri.scheme().is_some())
        {
            Self::Approved
        } else {
            Self::Invalid
        }
    }
}

fn annotation(crd: &Value) -> &str {
    let annotations = meta::of(crd).get("annotations");
    annotations
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// An update that does not change the state of the approval is allowed.
pub(super) fn validate_approval(crd: &Value, live: Option<&Value>, errors: &mut FieldErrors) {
    let group = crd.pointer("/spec/group").and_then(Value::as_str);
    if !is_protected(group.unwrap_or_default()) {
        return;
    }
    let approval = Approval::of(crd);
    if live.is_some_and(|live| Approval::of(live) == approval) {
        return;
    }
    let field = FieldPath::of("metadata")
        .child("annotations")
        .key(ANNOTATION);
    match approval {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.push(FieldError::required(
            &field,
            &format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}"),
        )),
        Approval::Invalid => errors.push(FieldError::invalid(
            &field,
            &json!(annotation(crd)),
            &format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(group: &str, approval: &str) -> Value {
        json!({
            "metadata": {"annotations": {ANNOTATION: approval}},
            "spec": {"group": group},
        })
    }

    #[test]
    fn protected_groups_need_an_approval() {
        let url = "https://github.com/kubernetes/kubernetes/pull/1";
        let cases = [
            ("example.com", "", None),
            ("notk8s.io", "", None),
            ("k8s.io", "", Some("FieldValueRequired")),
            ("kubernetes.io", "", Some("FieldValueRequired")),
            (
                "admissionregistration.k8s.io",
                "",
                Some("FieldValueRequired"),
            ),
            ("a.kubernetes.io", "", Some("FieldValueRequired")),
            ("a.k8s.io", "yes", Some("FieldValueInvalid")),
            ("a.k8s.io", "unapproved, a test", None),
            ("a.k8s.io", url, None),
        ];
        for (group, approval, expected) in cases {
            let mut errors = FieldErrors::default();
            validate_approval(&crd(group, approval), None, &mut errors);
            let reasons: Vec<_> = errors.iter().map(|error| error.kind.reason()).collect();
            assert_eq!(reasons.first().copied(), expected, "{group} {approval:?}");
        }
    }

    #[test]
    fn an_update_may_leave_an_approval_as_it_is_and_not_take_it_away() {
        let count = |live: &str, next: &str| {
            let mut errors = FieldErrors::default();
            let (live, next) = (crd("a.k8s.io", live), crd("a.k8s.io", next));
            validate_approval(&next, Some(&live), &mut errors);
            errors.len()
        };
        assert_eq!(count("", ""), 0);
        assert_eq!(count("unapproved", "unapproved, still"), 0);
        assert_eq!(count("unapproved", ""), 1);
    }
}
