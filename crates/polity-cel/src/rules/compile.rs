//! Finds and compiles the rules of a schema.

use polity_core::field::MAX_ERRORS;
use polity_core::{FieldError, FieldErrorKind, FieldPath};
use serde_json::Value;

use super::field_path;
use super::shape::{Shape, is_embedded};
use super::{ListKey, Node, Reason, Rule};
use crate::expression::{CompileError, Environment, Expression, Output};
use crate::types::Type;

const REASONS: [(&str, Reason); 4] = [
    ("FieldValueDuplicate", Reason::Duplicate),
    ("FieldValueForbidden", Reason::Forbidden),
    ("FieldValueInvalid", Reason::Invalid),
    ("FieldValueRequired", Reason::Required),
];

/// Compiles the rules of a schema; nothing where it has none.
pub(super) fn compile(
    schema: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Node> {
    let position = SchemaPosition {
        path: path.clone(),
        is_resource_root: true,
        uncorrelatable: None,
    };
    node(schema, schema, &position, errors)
}

/// The node of the schema whose rules are being compiled.
#[derive(Clone)]
struct SchemaPosition {
    path: FieldPath,
    is_resource_root: bool,
    /// The closest enclosing list whose old and new items cannot be correlated.
    uncorrelatable: Option<FieldPath>,
}

impl SchemaPosition {
    fn below(&self, path: FieldPath, schema: &Value) -> Self {
        Self {
            path,
            is_resource_root: is_embedded(schema),
            uncorrelatable: self.uncorrelatable.clone(),
        }
    }
}

/// Compiles the rules in `rules_schema` for values that `schema` describes. They differ inside `allOf`, which may
/// contain rules but no types.
fn node(
    rules_schema: &Value,
    schema: &Value,
    position: &SchemaPosition,
    errors: &mut Vec<FieldError>,
) -> Option<Node> {
    if errors.len() >= MAX_ERRORS {
        return None;
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut found = Node {
        type_name: text("type").to_owned(),
        ..Node::default()
    };

    if let (Some(inner), Some(values)) = (
        object(rules_schema, "additionalProperties"),
        object(schema, "additionalProperties"),
    ) {
        let position = position.below(position.path.child("additionalProperties"), values);
        found.additional = node(inner, values, &position, errors).map(Box::new);
    }
    for (name, inner) in rules_schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(property) = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
        {
            let position = position.below(position.path.child("properties").key(name), property);
            if let Some(below) = node(inner, property, &position, errors) {
                found.properties.insert(name.clone(), below);
            }
        }
    }
    if let (Some(inner), Some(items)) = (object(rules_schema, "items"), object(schema, "items")) {
        let mut below = position.below(position.path.child("items"), items);
        if text("x-kubernetes-list-type") == "map" {
            found.list_keys = list_keys(schema, items);
        } else {
            below.uncorrelatable = Some(position.path.clone());
        }
        found.items = node(inner, items, &below, errors).map(Box::new);
    }
    for (index, branch) in rules_schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let position = SchemaPosition {
            path: position.path.child("allOf").index(index),
            ..position.clone()
        };
        found.all_of.extend(node(branch, schema, &position, errors));
    }
    own_rules(&mut found, rules_schema, schema, position, errors);
    (!found.is_empty()).then_some(found)
}

fn object<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|inner| inner.is_object())
}

fn list_keys(schema: &Value, items: &Value) -> Vec<ListKey> {
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    keys.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| ListKey {
            name: name.to_owned(),
            default: items
                .get("properties")
                .and_then(|all| all.get(name)?.get("default"))
                .cloned(),
        })
        .collect()
}

fn own_rules(
    found: &mut Node,
    rules_schema: &Value,
    schema: &Value,
    position: &SchemaPosition,
    errors: &mut Vec<FieldError>,
) {
    let Some(rules) = rules_schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
    else {
        return;
    };
    if rules.is_empty() {
        return;
    }
    let base = position.path.child("x-kubernetes-validations");
    let n_before = errors.len();
    for (index, rule) in rules.iter().enumerate() {
        check_fields(rule, schema, &base.index(index), errors);
    }
    if errors.len() > n_before {
        return;
    }
    let Some(shape) = Shape::of(schema, position.is_resource_root) else {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                      unable to convert structural schema to CEL declarations";
        errors.push(FieldError::internal(&base, detail));
        return;
    };
    let kind = shape.kind();
    for (index, rule) in rules.iter().enumerate() {
        found.rules.extend(one_rule(
            rule,
            schema,
            &kind,
            &base.index(index),
            position,
            errors,
        ));
    }
    found.shape = shape;
}

/// The parts of a rule that are not CEL.
fn check_fields(rule: &Value, schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (text("rule").trim(), text("message"));
    if source.is_empty() {
        errors.push(FieldError::required(
            &path.child("rule"),
            "rule is not specified",
        ));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            &path.child("message"),
            &message.into(),
            "must be non-empty if specified",
        ));
    } else if breaks(message.trim()) {
        errors.push(FieldError::invalid(
            &path.child("message"),
            &message.into(),
            "must not contain line breaks",
        ));
    } else if breaks(source) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&path.child("message"), detail));
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            &path.child("messageExpression"),
            detail,
        ));
    }
    let reason = text("reason");
    if rule.get("reason").is_some_and(|reason| !reason.is_null())
        && !REASONS.iter().any(|(name, _)| *name == reason)
    {
        let supported: Vec<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        errors.push(FieldError::not_supported(
            &path.child("reason"),
            &reason.into(),
            &supported,
        ));
    }
    let field_path = text("fieldPath");
    let mut refuse = |detail| {
        errors.push(FieldError::invalid(
            &path.child("fieldPath"),
            &field_path.into(),
            detail,
        ));
    };
    if !field_path.is_empty() {
        if field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if breaks(field_path) {
            refuse("must not contain line breaks");
        }
        if field_path::normalize(field_path, schema).is_none() {
            refuse("must be a valid path");
        }
    }
}

fn one_rule(
    rule: &Value,
    schema: &Value,
    kind: &Type,
    path: &FieldPath,
    position: &SchemaPosition,
    errors: &mut Vec<FieldError>,
) -> Option<Rule> {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let optional_old_self = rule.get("optionalOldSelf").and_then(Value::as_bool);
    let old_self_is_optional = optional_old_self == Some(true);
    let mut environment = Environment::new();
    environment.declare("self", kind.clone());
    environment.declare(
        "oldSelf",
        if old_self_is_optional {
            Type::optional(kind.clone())
        } else {
            kind.clone()
        },
    );

    let expression = match Expression::compile(text("rule"), &environment, Output::Bool) {
        Ok(expression) => expression,
        Err(error) => {
            let detail = match &error {
                CompileError::Invalid(_) => error.to_string(),
                CompileError::WrongOutput { .. } => {
                    "cel expression must evaluate to a bool".to_owned()
                }
            };
            errors.push(invalid_rule(&path.child("rule"), rule, &detail));
            return None;
        }
    };
    let message_expression = match text("messageExpression") {
        "" => None,
        source => match Expression::compile(source, &environment, Output::String) {
            Ok(expression) => Some(expression),
            Err(error) => {
                let detail = match &error {
                    CompileError::Invalid(_) => format!("messageExpression {error}"),
                    CompileError::WrongOutput { .. } => {
                        "messageExpression must evaluate to a string".to_owned()
                    }
                };
                errors.push(invalid_rule(
                    &path.child("messageExpression"),
                    rule,
                    &detail,
                ));
                None
            }
        },
    };
    let uses_old_self = expression.uses("oldSelf");
    if uses_old_self {
        if let Some(list) = &position.uncorrelatable {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
            );
            errors.push(FieldError::invalid(
                &path.child("rule"),
                &text("rule").into(),
                &detail,
            ));
        }
    } else if let Some(value) = optional_old_self {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(
            &path.child("optionalOldSelf"),
            &value.into(),
            detail,
        ));
    }
    let reason = REASONS.iter().find(|(name, _)| *name == text("reason"));
    Some(Rule {
        text: text("rule").to_owned(),
        message: text("message").to_owned(),
        expression,
        message_expression,
        reason: reason.map_or(Reason::Invalid, |(_, reason)| *reason),
        field_path: field_path::normalize(text("fieldPath"), schema).unwrap_or_default(),
        uses_old_self,
        old_self_is_optional,
    })
}

/// An error that shows the whole rule, as the server's internal type prints it.
fn invalid_rule(path: &FieldPath, rule: &Value, detail: &str) -> FieldError {
    let text = |name: &str| Value::from(rule.get(name).and_then(Value::as_str).unwrap_or_default());
    let other = |name: &str| rule.get(name).cloned().unwrap_or(Value::Null);
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        other("reason"),
        text("fieldPath"),
        other("optionalOldSelf"),
    );
    // Go's JSON is safe to put into HTML.
    let shown = shown
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: path.to_string(),
        message: format!("Invalid value: {shown}: {detail}"),
    }
}
