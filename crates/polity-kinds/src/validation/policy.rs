//! RBAC, budgets, autoscalers and priorities.

use polity_core::name;
use polity_core::{FieldErrorKind, FieldPath, GroupVersionKind};
use serde_json::{Value, json};

use super::{Errors, Object, at, field, list, rules, text, workloads};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Higher priorities belong to the system.
const MAX_PRIORITY: i64 = 1_000_000_000;

pub(super) fn role(gvk: &GroupVersionKind, role: &Value, errors: &mut Errors) {
    let path = FieldPath::of("rules");
    for (index, rule) in at(role, "rules")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some(rule) = rule.as_object() else {
            continue;
        };
        policy_rule(rule, gvk.kind == "Role", &path.index(index), errors);
    }
    let selectors = at(role, "aggregationRule.clusterRoleSelectors")
        .as_array()
        .into_iter()
        .flatten();
    let path = FieldPath::of("aggregationRule").child("clusterRoleSelectors");
    for (index, selector) in selectors.enumerate() {
        rules::selector(selector, &path.index(index), errors);
    }
}

/// A rule is about resources or about other URLs, never both.
fn policy_rule(rule: &Object, namespaced: bool, path: &FieldPath, errors: &mut Errors) {
    if list(rule, "nonResourceURLs").is_empty() {
        if list(rule, "apiGroups").is_empty() {
            errors.required(
                &path.child("apiGroups"),
                "resource rules must supply at least one api group",
            );
        }
        if list(rule, "resources").is_empty() {
            errors.required(
                &path.child("resources"),
                "resource rules must supply at least one resource",
            );
        }
        return;
    }
    let (urls, path) = (
        field(rule, "nonResourceURLs"),
        path.child("nonResourceURLs"),
    );
    if namespaced {
        errors.invalid(
            &path,
            urls,
            "namespaced rules cannot apply to non-resource URLs",
        );
    }
    if ["apiGroups", "resources", "resourceNames"]
        .iter()
        .any(|list_name| !list(rule, list_name).is_empty())
    {
        errors.invalid(
            &path,
            urls,
            "rules cannot apply to both regular resources and non-resource URLs",
        );
    }
}

pub(super) fn role_binding(gvk: &GroupVersionKind, binding: &Value, errors: &mut Errors) {
    let namespaced = gvk.kind == "RoleBinding";
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = at(binding, "roleRef.kind");
    if !kinds.contains(&kind.as_str().unwrap_or_default()) {
        errors.not_supported(
            &FieldPath::of("roleRef").child("kind"),
            &json!(kind.as_str().unwrap_or_default()),
            kinds,
        );
    }
    for (index, subject) in at(binding, "subjects")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let is_account = at(subject, "kind") == "ServiceAccount";
        if is_account && !namespaced && rules::is_absent(at(subject, "namespace")) {
            errors.required(
                &FieldPath::of("subjects").index(index).child("namespace"),
                "",
            );
        }
    }
}

pub(super) fn subject(subject: &Object, path: &FieldPath, errors: &mut Errors) {
    let (group, name) = (text(subject, "apiGroup"), text(subject, "name"));
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.named(&path.child("name"), &json!(name), name::dns_subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), &json!(group), &[""]);
            }
        }
        "User" | "Group" if group != RBAC => {
            errors.not_supported(&path.child("apiGroup"), &json!(group), &[RBAC]);
        }
        "" => errors.not_supported(
            &path.child("kind"),
            &json!(""),
            &["ServiceAccount", "User", "Group"],
        ),
        _ => {}
    }
}

pub(super) fn budget_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    if spec.contains_key("minAvailable") && spec.contains_key("maxUnavailable") {
        // A real server shows the Go fields.
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            field(spec, "minAvailable"),
            field(spec, "selector"),
            field(spec, "maxUnavailable"),
            field(spec, "unhealthyPodEvictionPolicy"),
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.shown(FieldErrorKind::Invalid, path, &shown, detail);
    }
    for bound in ["minAvailable", "maxUnavailable"] {
        workloads::at_most_all(field(spec, bound), &path.child(bound), errors);
    }
}

pub(super) fn autoscaler_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let (least, most) = (field(spec, "minReplicas"), field(spec, "maxReplicas"));
    if least.as_i64().is_some_and(|replicas| replicas < 0) {
        errors.invalid(
            &path.child("minReplicas"),
            least,
            "must be greater than or equal to 0",
        );
    }
    let scales_from_zero = |metric: &Value| {
        ["Object", "External"]
            .iter()
            .any(|ty| at(metric, "type") == *ty)
    };
    if least.as_i64() == Some(0) && !list(spec, "metrics").iter().any(scales_from_zero) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&path.child("metrics"), detail);
    }
    let target = field(spec, "scaleTargetRef");
    if rules::is_absent(at(target, "apiVersion")) {
        let path = path.child("scaleTargetRef").child("apiVersion");
        errors.invalid(&path, &json!(""), "apiVersion must specify API group");
    }
    let most_number = most.as_i64().unwrap_or_default();
    let path = path.child("maxReplicas");
    if most_number < 0 {
        errors.invalid(&path, most, "must be greater than or equal to 1");
    }
    if least.as_i64().is_some_and(|least| most_number < least) {
        errors.invalid(
            &path,
            most,
            "must be greater than or equal to `minReplicas`",
        );
    }
}

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = FieldPath::of("value");
    if let Some(old) = old {
        if at(new, "value") != at(old, "value") {
            errors.forbidden(&path, "may not be changed in an update.");
        }
        return;
    }
    let name = at(new, "metadata.name").as_str().unwrap_or_default();
    let value = at(new, "value").as_i64().unwrap_or_default();
    let known = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    if name.starts_with("system-") {
        if !known.contains(&(name, value)) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {name} is not a known system priority class"
            );
            errors.forbidden(&FieldPath::of("metadata").child("name"), &detail);
        }
    } else if value > MAX_PRIORITY {
        errors.forbidden(
            &path,
            &format!("maximum allowed value of a user defined priority is {MAX_PRIORITY}"),
        );
    }
}
