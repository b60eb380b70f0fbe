//! `x-kubernetes-validations`: the CEL rules in the schema of a custom resource.

mod compile;
mod field_path;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use polity_core::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

use crate::budget::Budget;
use crate::convert;
use crate::expression::{Bindings, EvalError, Expression};
use shape::Shape;

/// As in Kubernetes; a longer message is replaced by the static one.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The compiled rules of one schema.
#[derive(Debug)]
pub struct Rules {
    root: Option<Node>,
}

/// The rules at one node of a schema and below it.
#[derive(Debug, Default)]
struct Node {
    shape: Shape,
    /// The node's `type`, empty for int-or-string.
    type_name: String,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    /// The keys by which old and new list items find each other.
    list_keys: Vec<ListKey>,
    all_of: Vec<Node>,
}

/// One of `x-kubernetes-list-map-keys`.
#[derive(Debug)]
struct ListKey {
    name: String,
    default: Option<Value>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    message: String,
    expression: Expression,
    message_expression: Option<Expression>,
    reason: Reason,
    /// Where below the node a failure is reported.
    field_path: String,
    uses_old_self: bool,
    old_self_is_optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.properties.is_empty()
            && self.additional.is_none()
            && self.items.is_none()
            && self.all_of.is_empty()
    }
}

impl Rule {
    /// The text that identifies the rule in errors.
    fn name(&self) -> &str {
        if self.message.is_empty() {
            self.text.trim()
        } else {
            self.message.trim()
        }
    }

    fn static_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.message.trim().to_owned()
        }
    }
}

impl Rules {
    /// Compiles all rules of an `openAPIV3Schema`. Errors name their position below `path`.
    pub fn compile(schema: &Value, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let root = compile::compile(schema, path, &mut errors);
        if errors.is_empty() {
            Ok(Self { root })
        } else {
            Err(errors)
        }
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Evaluates the rules on an object that matches its schema. `old` is the object that it replaces.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut run = Run {
            errors: Vec::new(),
            budget: Budget::of(Budget::PER_OBJECT),
        };
        if let Some(root) = &self.root {
            let position = ValuePosition {
                path: FieldPath::root(),
                old,
                ratchet: old.map(|old| (new, old)),
            };
            // The only error is a spent budget, and it has been reported.
            let _ = run.node(root, new, &position);
        }
        run.errors
    }
}

/// A value with its path and its old value.
struct ValuePosition<'a> {
    path: FieldPath,
    /// The old value, if it can be correlated.
    old: Option<&'a Value>,
    /// The closest pair of new and old values around this one.
    ratchet: Option<(&'a Value, &'a Value)>,
}

impl<'a> ValuePosition<'a> {
    fn below(&self, path: FieldPath, new: &'a Value, old: Option<&'a Value>) -> Self {
        Self {
            path,
            old,
            ratchet: old.map(|old| (new, old)).or(self.ratchet),
        }
    }

    /// Whether nothing changed here, so that a newer rule must not fail.
    fn is_unchanged(&self) -> bool {
        self.ratchet.is_some_and(|(new, old)| new == old)
    }
}

struct Run {
    errors: Vec<FieldError>,
    budget: Budget,
}

/// The budget is spent: no further rule may run.
struct Stop;

impl Run {
    fn node(&mut self, node: &Node, new: &Value, position: &ValuePosition<'_>) -> Result<(), Stop> {
        if new.is_null() {
            return Ok(());
        }
        self.rules(node, new, position)?;
        for branch in &node.all_of {
            self.node(branch, new, position)?;
        }
        match new {
            Value::Array(items) => self.items(node, items, position),
            Value::Object(members) => self.members(node, members, position),
            _ => Ok(()),
        }
    }

    fn members(
        &mut self,
        node: &Node,
        members: &Map<String, Value>,
        position: &ValuePosition<'_>,
    ) -> Result<(), Stop> {
        let old = position.old.and_then(Value::as_object);
        for (name, value) in members {
            let old = old.and_then(|old| old.get(name));
            if let Some(below) = &node.additional {
                self.node(
                    below,
                    value,
                    &position.below(position.path.key(name), value, old),
                )?;
            }
            if let Some(below) = node.properties.get(name) {
                self.node(
                    below,
                    value,
                    &position.below(position.path.child(name), value, old),
                )?;
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        node: &Node,
        items: &[Value],
        position: &ValuePosition<'_>,
    ) -> Result<(), Stop> {
        let Some(below) = &node.items else {
            return Ok(());
        };
        let old = position.old.and_then(Value::as_array);
        let by_key: BTreeMap<Vec<String>, &Value> = old
            .into_iter()
            .flatten()
            .filter_map(|item| Some((list_key(item, &node.list_keys)?, item)))
            .collect();
        for (index, item) in items.iter().enumerate() {
            let old = list_key(item, &node.list_keys).and_then(|key| by_key.get(&key).copied());
            self.node(
                below,
                item,
                &position.below(position.path.index(index), item, old),
            )?;
        }
        Ok(())
    }

    fn rules(
        &mut self,
        node: &Node,
        new: &Value,
        position: &ValuePosition<'_>,
    ) -> Result<(), Stop> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let old = position.old.filter(|old| !old.is_null());
        let own = Bindings::new().value("self", node.shape.value(new));
        let old = old.map(|old| node.shape.value(old));
        let with_old = match &old {
            Some(old) => own.clone().value("oldSelf", old.clone()),
            None => own.clone(),
        };
        for rule in &node.rules {
            if rule.uses_old_self && old.is_none() && !rule.old_self_is_optional {
                continue;
            }
            if rule.old_self_is_optional {
                let bindings = own.clone().value("oldSelf", convert::optional(old.clone()));
                self.rule(node, rule, &bindings, new, position)?;
            } else {
                self.rule(node, rule, &with_old, new, position)?;
            }
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        bindings: &Bindings,
        new: &Value,
        position: &ValuePosition<'_>,
    ) -> Result<(), Stop> {
        if self.budget.is_spent() {
            return self.stop(node, position, OUT_OF_BUDGET);
        }
        let detail = match rule.expression.evaluate_bool(bindings, &mut self.budget) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let detail = self.message(rule, bindings);
                if rule.uses_old_self || !position.is_unchanged() {
                    self.errors
                        .push(failure(node, rule, new, position, &detail));
                }
                return Ok(());
            }
            Err(EvalError::BudgetSpent) if self.budget.is_spent() => {
                return self.stop(node, position, OUT_OF_BUDGET);
            }
            Err(error @ EvalError::BudgetSpent) => {
                let detail = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.name()
                );
                return self.stop(node, position, &detail);
            }
            Err(error @ (EvalError::NoSuchOverload | EvalError::WrongOutput { .. })) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                rule.name()
            ),
            Err(error) => format!("{error} evaluating rule: {}", rule.name()),
        };
        self.errors.push(FieldError::invalid(
            &position.path,
            &Value::from(node.type_name.as_str()),
            &detail,
        ));
        Ok(())
    }

    fn stop(
        &mut self,
        node: &Node,
        position: &ValuePosition<'_>,
        detail: &str,
    ) -> Result<(), Stop> {
        self.errors.push(FieldError::invalid(
            &position.path,
            &Value::from(node.type_name.as_str()),
            detail,
        ));
        Err(Stop)
    }

    /// The message of a failed rule. A message expression without a usable text is ignored.
    fn message(&mut self, rule: &Rule, bindings: &Bindings) -> String {
        let computed = rule
            .message_expression
            .as_ref()
            .and_then(|expression| expression.evaluate_string(bindings, &mut self.budget).ok())
            .map(|text| text.trim().to_owned())
            .filter(|text| {
                !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')
            });
        computed.unwrap_or_else(|| rule.static_message())
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

fn failure(
    node: &Node,
    rule: &Rule,
    new: &Value,
    position: &ValuePosition<'_>,
    detail: &str,
) -> FieldError {
    let path = if rule.field_path.is_empty() {
        position.path.clone()
    } else {
        position.path.child(&rule.field_path)
    };
    // Objects and lists are not shown.
    let shows_value = !matches!(node.type_name.as_str(), "object" | "array");
    match rule.reason {
        Reason::Forbidden => FieldError::forbidden(&path, detail),
        Reason::Required => FieldError::required(&path, detail),
        Reason::Duplicate if shows_value => FieldError::duplicate(&path, new),
        Reason::Duplicate => without_value(
            FieldErrorKind::Duplicate,
            &path,
            "Duplicate value".to_owned(),
        ),
        Reason::Invalid if shows_value => FieldError::invalid(&path, new, detail),
        Reason::Invalid => without_value(
            FieldErrorKind::Invalid,
            &path,
            format!("Invalid value: {detail}"),
        ),
    }
}

fn without_value(kind: FieldErrorKind, path: &FieldPath, message: String) -> FieldError {
    FieldError {
        kind,
        field: path.to_string(),
        message,
    }
}

/// The identity of an item of a map-like list, or `None` if it has no identity.
fn list_key(item: &Value, keys: &[ListKey]) -> Option<Vec<String>> {
    let members = item.as_object()?;
    if keys.is_empty() {
        return None;
    }
    keys.iter()
        .map(|key| {
            members
                .get(&key.name)
                .or(key.default.as_ref())
                .map(Value::to_string)
        })
        .collect()
}
