//! Policies and groups: rules, match conditions, time limits, members, and what an update may not change.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use polity_api::policies::names;
use polity_api::policies::v1::{
    AdmissionPolicyGroupSpec, AdmissionPolicySpec, ClusterAdmissionPolicyGroupSpec,
    ClusterAdmissionPolicySpec, Enforcement, Mode,
};
use polity_cel::{Environment, Expression, Output};
use polity_core::name::qualified_name;
use polity_core::policy::{dotted_name, unique_name};
use polity_core::{FieldError, FieldPath, GroupExpression};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::lifecycle::PolicyKind;
use crate::names::{UniqueNames, webhook_name};

/// The most match conditions a webhook can have.
const MATCH_CONDITIONS_MAX: usize = 64;
/// The longest time a module may compute.
const EVAL_SECONDS_MAX: i32 = 30;
/// The longest name of a webhook.
const WEBHOOK_NAME_MAX: usize = 253;
/// The kinds of reports that a namespaced policy may not stand in the way of.
const REPORTS: [(&str, &str); 2] = [
    ("wgpolicyk8s.io", "policyreports"),
    ("openreports.io", "reports"),
];

/// A policy with its finalizer: without one it could go while it is still called.
#[must_use]
pub fn defaulted(mut object: Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    if metadata
        .get("deletionTimestamp")
        .is_some_and(|when| !when.is_null())
    {
        return object;
    }
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    finalizers.retain(|one| one != names::OLD_FINALIZER);
    if !finalizers.iter().any(|one| one == names::FINALIZER) {
        finalizers.push(json!(names::FINALIZER));
    }
    metadata.insert("finalizers".to_owned(), json!(finalizers));
    object
}

/// What is wrong with a policy that is to be stored in place of `old`.
pub fn policy(
    kind: PolicyKind,
    new: &Value,
    old: Option<&Value>,
    form: UniqueNames,
) -> Vec<FieldError> {
    let spec = FieldPath::of("spec");
    let subject = match Subject::read(kind, new) {
        Ok(subject) => subject,
        Err(error) => return vec![FieldError::internal(&spec, &error.to_string())],
    };
    let mut wrong = name(kind, new, form);
    wrong.extend(rules(
        kind,
        &subject.enforcement.rules,
        &spec.child("rules"),
    ));
    wrong.extend(match_conditions(
        subject
            .enforcement
            .match_conditions
            .as_deref()
            .unwrap_or_default(),
        &spec.child("matchConditions"),
    ));
    wrong.extend(subject.time_limits(&spec));
    if let Some(group) = &subject.group {
        wrong.extend(group.check(&spec));
    }
    let before = old.and_then(|old| Subject::read(kind, old).ok());
    if let Some(before) = before {
        wrong.extend(update(&before.enforcement, &subject.enforcement, &spec));
    }
    wrong
}

/// What the checks look at, for every kind.
struct Subject {
    enforcement: Enforcement,
    /// The time limit of each module, by member.
    limits: Vec<(Option<String>, Option<i32>)>,
    group: Option<Group>,
}

struct Group {
    expression: String,
    message: String,
    members: Vec<String>,
}

impl Subject {
    fn read(kind: PolicyKind, object: &Value) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            PolicyKind::AdmissionPolicy => Self::of_policy(decode(object)?),
            PolicyKind::ClusterAdmissionPolicy => {
                Self::of_policy(decode::<ClusterAdmissionPolicySpec>(object)?.policy)
            }
            PolicyKind::AdmissionPolicyGroup => {
                let spec: AdmissionPolicyGroupSpec = decode(object)?;
                let members = spec.policies.into_iter();
                let limits =
                    members.map(|(name, member)| (Some(name), member.timeout_eval_seconds));
                Self::of_group(
                    spec.enforcement,
                    spec.expression,
                    spec.message,
                    limits.collect(),
                )
            }
            PolicyKind::ClusterAdmissionPolicyGroup => {
                let spec: ClusterAdmissionPolicyGroupSpec = decode(object)?;
                let members = spec.policies.into_iter();
                let limits =
                    members.map(|(name, member)| (Some(name), member.module.timeout_eval_seconds));
                Self::of_group(
                    spec.enforcement,
                    spec.expression,
                    spec.message,
                    limits.collect(),
                )
            }
        })
    }

    fn of_policy(spec: AdmissionPolicySpec) -> Self {
        Self {
            enforcement: spec.enforcement,
            limits: vec![(None, spec.module.timeout_eval_seconds)],
            group: None,
        }
    }

    fn of_group(
        enforcement: Enforcement,
        expression: String,
        message: String,
        limits: Vec<(Option<String>, Option<i32>)>,
    ) -> Self {
        let members = limits.iter().filter_map(|(name, _)| name.clone()).collect();
        Self {
            enforcement,
            limits,
            group: Some(Group {
                expression,
                message,
                members,
            }),
        }
    }

    /// Each module, and all of them together, must be done before the API server gives up.
    fn time_limits(&self, spec: &FieldPath) -> Vec<FieldError> {
        let most = self.enforcement.timeout_seconds;
        let mut wrong = Vec::new();
        for (member, seconds) in &self.limits {
            let Some(seconds) = *seconds else { continue };
            let module = match member {
                Some(member) => spec.child("policies").key(member),
                None => spec.clone(),
            };
            let field = module.child("timeoutEvalSeconds");
            if member.is_some() && seconds > EVAL_SECONDS_MAX {
                let detail = format!("must be at most {EVAL_SECONDS_MAX}");
                wrong.push(FieldError::invalid(&field, &json!(seconds), &detail));
            }
            if seconds > most {
                let detail = format!("must not be more than timeoutSeconds ({most})");
                wrong.push(FieldError::invalid(&field, &json!(seconds), &detail));
            }
        }
        let limits = self.limits.iter().filter_map(|(_, seconds)| *seconds);
        let sum: i64 = limits.map(i64::from).sum();
        if self.group.is_some() && sum > i64::from(most) {
            let detail = format!(
                "timeoutEvalSeconds of all members together must not be more than timeoutSeconds ({most})"
            );
            wrong.push(FieldError::invalid(
                &spec.child("policies"),
                &json!(sum),
                &detail,
            ));
        }
        wrong
    }
}

impl Group {
    fn check(&self, spec: &FieldPath) -> Vec<FieldError> {
        let mut wrong = Vec::new();
        if self.message.is_empty() {
            wrong.push(FieldError::required(
                &spec.child("message"),
                "must not be empty",
            ));
        }
        let policies = spec.child("policies");
        if self.members.is_empty() {
            wrong.push(FieldError::required(
                &policies,
                "must have at least one member",
            ));
        }
        for member in &self.members {
            let field = policies.key(member);
            let detail = if polity_cel::is_reserved(member) {
                "is a reserved word of CEL"
            } else if is_identifier(member) {
                continue;
            } else {
                "must be made of letters, digits and underscores and not start with a digit"
            };
            wrong.push(FieldError::invalid(&field, &json!(member), detail));
        }
        let field = spec.child("expression");
        match self.expression.parse::<GroupExpression>() {
            Ok(expression) => {
                let unknown = expression
                    .members()
                    .iter()
                    .filter(|name| !self.members.contains(name));
                wrong.extend(unknown.map(|name| {
                    let detail = format!("there is no member {name:?}");
                    FieldError::invalid(&field, &json!(self.expression), &detail)
                }));
            }
            Err(error) => {
                wrong.push(FieldError::invalid(
                    &field,
                    &json!(self.expression),
                    &error.to_string(),
                ));
            }
        }
        wrong
    }
}

fn is_identifier(text: &str) -> bool {
    let is_start = |c: char| c == '_' || c.is_ascii_alphabetic();
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// The name is part of the webhook's name, which has an end.
fn name(kind: PolicyKind, object: &Value, form: UniqueNames) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let namespace = metadata["namespace"]
        .as_str()
        .filter(|_| kind.is_namespaced());
    let id = match form {
        UniqueNames::Classic => unique_name(kind, namespace, name),
        UniqueNames::Dotted => dotted_name(kind, namespace, name),
    };
    let webhook = webhook_name(&id);
    if webhook.len() <= WEBHOOK_NAME_MAX {
        return Vec::new();
    }
    let detail = format!(
        "the name of its webhook, {webhook:?}, would be longer than {WEBHOOK_NAME_MAX} characters"
    );
    vec![FieldError::invalid(
        &FieldPath::of("metadata").child("name"),
        &json!(name),
        &detail,
    )]
}

fn rules(kind: PolicyKind, rules: &[RuleWithOperations], field: &FieldPath) -> Vec<FieldError> {
    if rules.is_empty() {
        return vec![FieldError::required(field, "must have at least one rule")];
    }
    let rules = rules.iter().enumerate();
    rules
        .flat_map(|(at, rule)| {
            let field = field.index(at);
            let mut wrong = lists(rule, &field);
            if kind.is_namespaced() {
                wrong.extend(too_wide(rule, &field));
            }
            wrong
        })
        .collect()
}

fn lists(rule: &RuleWithOperations, field: &FieldPath) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for (name, list) in [
        ("operations", &rule.operations),
        ("apiVersions", &rule.api_versions),
        ("resources", &rule.resources),
    ] {
        let field = field.child(name);
        let list = list.as_deref().unwrap_or_default();
        if list.is_empty() {
            wrong.push(FieldError::required(&field, "must have at least one entry"));
        }
        for at in list
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.is_empty())
            .map(|(at, _)| at)
        {
            wrong.push(FieldError::required(&field.index(at), "must not be empty"));
        }
    }
    wrong
}

/// What a policy of one namespace may not be asked about: everything, and the reports about policies.
fn too_wide(rule: &RuleWithOperations, field: &FieldPath) -> Vec<FieldError> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let resources = rule.resources.as_deref().unwrap_or_default();
    let is_any = |list: &[String]| list.iter().any(|one| matches!(one.as_str(), "*" | "*/*"));
    if is_any(groups) && is_any(resources) {
        let detail = "a namespaced policy cannot match every resource of every group";
        return vec![FieldError::forbidden(field, detail)];
    }
    let reports = REPORTS.iter().filter(|(group, plural)| {
        let is_group = |one: &String| one == group;
        let is_resource = |one: &String| one.split('/').next() == Some(*plural);
        (is_any(groups) || groups.iter().any(is_group))
            && (is_any(resources) || resources.iter().any(is_resource))
    });
    reports
        .map(|(group, plural)| {
            let detail = format!("a namespaced policy cannot match {plural}.{group}");
            FieldError::forbidden(field, &detail)
        })
        .collect()
}

fn match_conditions(conditions: &[MatchCondition], field: &FieldPath) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    if conditions.len() > MATCH_CONDITIONS_MAX {
        wrong.push(FieldError::too_many(
            field,
            conditions.len(),
            MATCH_CONDITIONS_MAX,
        ));
        return wrong;
    }
    let environment = Environment::match_conditions();
    let mut seen = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let field = field.index(at);
        let name = field.child("name");
        if condition.name.is_empty() {
            wrong.push(FieldError::required(&name, ""));
        } else if let Err(complaints) = qualified_name(&condition.name) {
            let all = complaints.iter();
            wrong.extend(all.map(|one| FieldError::invalid(&name, &json!(condition.name), one)));
        }
        if !seen.insert(condition.name.as_str()) {
            wrong.push(FieldError::duplicate(&name, &json!(condition.name)));
        }
        let expression = field.child("expression");
        if condition.expression.trim().is_empty() {
            wrong.push(FieldError::required(&expression, ""));
        } else if let Err(error) =
            Expression::compile(&condition.expression, &environment, Output::Bool)
        {
            wrong.push(FieldError::invalid(
                &expression,
                &json!(condition.expression),
                &error.to_string(),
            ));
        }
    }
    wrong
}

fn update(old: &Enforcement, new: &Enforcement, spec: &FieldPath) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    if old.policy_server != new.policy_server {
        let detail = "the policy server cannot be changed: delete the policy and create it again";
        wrong.push(FieldError::forbidden(&spec.child("policyServer"), detail));
    }
    if (old.mode, new.mode) == (Mode::Protect, Mode::Monitor) {
        let detail = "a policy cannot go from protect to monitor: delete it and create it again";
        wrong.push(FieldError::forbidden(&spec.child("mode"), detail));
    }
    wrong
}

fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(object.get("spec").cloned().unwrap_or_default())
}
