//! Evaluates checked expressions.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;
use regex::{Regex, RegexBuilder};

use crate::authorizer;
use crate::budget::Budget;
use crate::convert::{self, TypeName};
use crate::expression::{Bindings, EvalError};
use crate::library::Native;
use crate::node::{Call, Comprehension, ComprehensionKind, Element, Node};
use crate::operators;

type Outcome = Result<Value, EvalError>;

/// Compiled patterns stay below this, so that one hostile pattern costs milliseconds at most.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The cost of compiling a pattern that is only known at run time.
const PATTERN_COST: u64 = 1_000;

/// One run of one expression.
pub(crate) struct Evaluation<'a> {
    bindings: &'a Bindings,
    budget: &'a mut Budget,
    locals: Vec<Value>,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(bindings: &'a Bindings, budget: &'a mut Budget) -> Self {
        Self {
            bindings,
            budget,
            locals: Vec::new(),
        }
    }

    /// The value of a node. Recursion is as deep as the node, which the checker bounds.
    pub(crate) fn run(&mut self, node: &Node) -> Outcome {
        self.budget.spend(1)?;
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Local(place) => self
                .locals
                .get(*place)
                .cloned()
                .ok_or(EvalError::NoSuchOverload),
            Node::Global(name) => self.global(name),
            Node::Select { operand, field } => {
                let operand = self.run(operand)?;
                select(&operand, field)
            }
            Node::Has { operand, field } => {
                let operand = self.run(operand)?;
                has(&operand, field).map(Value::Bool)
            }
            Node::OptionalSelect { operand, field } => {
                let operand = self.run(operand)?;
                operators::optional_index(&operand, &Value::from(field))
            }
            Node::Index { operand, index } => {
                let (operand, index) = (self.run(operand)?, self.run(index)?);
                operators::index(&operand, &index)
            }
            Node::OptionalIndex { operand, index } => {
                let (operand, index) = (self.run(operand)?, self.run(index)?);
                operators::optional_index(&operand, &index)
            }
            Node::Not(operand) => self.run_bool(operand).map(|value| Value::Bool(!value)),
            Node::Negate(operand) => self
                .run(operand)
                .and_then(|value| operators::negate(&value)),
            Node::And(left, right) => self.shortcut(left, right, false),
            Node::Or(left, right) => self.shortcut(left, right, true),
            Node::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                if self.run_bool(condition)? {
                    self.run(then)
                } else {
                    self.run(otherwise)
                }
            }
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.run(left)?, self.run(right)?);
                operators::binary(*operator, left, right, self.budget)
            }
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap {
                operand,
                body,
                flat,
            } => self.optional_map(operand, body, *flat),
            Node::SortBy { list, key } => self.sort_by(list, key),
            Node::Call(call) => self.call(call),
        }
    }

    fn run_bool(&mut self, node: &Node) -> Result<bool, EvalError> {
        match self.run(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn run_with(&mut self, local: Value, node: &Node) -> Outcome {
        self.locals.push(local);
        let result = self.run(node);
        self.locals.pop();
        result
    }

    fn global(&self, name: &str) -> Outcome {
        self.bindings
            .get(name)
            .cloned()
            .ok_or_else(|| EvalError::NotBound(name.to_owned()))
    }

    /// `&&` and `||`: a side that decides makes an error of the other side irrelevant.
    fn shortcut(&mut self, left: &Node, right: &Node, deciding: bool) -> Outcome {
        let first = self.run_bool(left);
        match first {
            Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
            Err(EvalError::BudgetSpent) => return Err(EvalError::BudgetSpent),
            _ => {}
        }
        let second = self.run_bool(right)?;
        if second == deciding {
            return Ok(Value::Bool(deciding));
        }
        first.map(Value::Bool)
    }

    fn list(&mut self, elements: &[Element]) -> Outcome {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.run(&element.node)?;
            items.extend(given(value, element.optional)?);
        }
        Ok(Value::List(Arc::new(items)))
    }

    fn map(&mut self, entries: &[(Node, Element)]) -> Outcome {
        let mut members = HashMap::with_capacity(entries.len());
        for (key, element) in entries {
            let key = as_key(self.run(key)?)?;
            let value = self.run(&element.node)?;
            if let Some(value) = given(value, element.optional)?
                && members.insert(key, value).is_some()
            {
                return Err(EvalError::Failed("Failed with repeated key".into()));
            }
        }
        Ok(convert::map(members))
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Outcome {
        let range = self.run(&comprehension.range)?;
        let rounds = self.rounds(&range, comprehension.two_variables)?;
        let depth = self.locals.len();
        let result = self.rounds_of(comprehension, rounds);
        self.locals.truncate(depth);
        result
    }

    /// The values of the loop's variables, round by round; maps go in the order of their keys.
    fn rounds(
        &mut self,
        range: &Value,
        two_variables: bool,
    ) -> Result<Vec<(Value, Option<Value>)>, EvalError> {
        match range {
            Value::List(items) => {
                self.budget.spend(items.len() as u64)?;
                Ok(items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        if two_variables {
                            (Value::Int(index as i64), Some(item.clone()))
                        } else {
                            (item.clone(), None)
                        }
                    })
                    .collect())
            }
            Value::Map(entries) => {
                self.budget.spend(entries.map.len() as u64 * 2)?;
                let mut sorted: Vec<(&Key, &Value)> = entries.map.iter().collect();
                sorted.sort_by_key(|(key, _)| *key);
                Ok(sorted
                    .into_iter()
                    .map(|(key, value)| (Value::from(key), two_variables.then(|| value.clone())))
                    .collect())
            }
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn rounds_of(&mut self, loops: &Comprehension, rounds: Vec<(Value, Option<Value>)>) -> Outcome {
        let mut items = Vec::new();
        let mut members = HashMap::new();
        let mut n_true = 0;
        // An error of one round is forgotten when another round decides.
        let mut pending = None;
        for (first, second) in rounds {
            let depth = self.locals.len();
            let key = (loops.kind == ComprehensionKind::Map).then(|| first.clone());
            self.locals.push(first);
            self.locals.extend(second);
            let wanted = match &loops.filter {
                None => true,
                Some(filter) => self.run_bool(filter)?,
            };
            if wanted {
                match loops.kind {
                    ComprehensionKind::All | ComprehensionKind::Exists => {
                        let deciding = loops.kind == ComprehensionKind::Exists;
                        match self.run_bool(&loops.body) {
                            Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
                            Ok(_) => {}
                            Err(EvalError::BudgetSpent) => return Err(EvalError::BudgetSpent),
                            Err(error) => pending = pending.or(Some(error)),
                        }
                    }
                    ComprehensionKind::ExistsOne => {
                        n_true += u64::from(self.run_bool(&loops.body)?);
                    }
                    ComprehensionKind::List => items.push(self.run(&loops.body)?),
                    ComprehensionKind::Map => {
                        let value = self.run(&loops.body)?;
                        members.insert(as_key(key.unwrap_or(Value::Null))?, value);
                    }
                    ComprehensionKind::Entries => match self.run(&loops.body)? {
                        Value::Map(entries) => {
                            for (key, value) in entries.map.iter() {
                                self.budget.spend(1)?;
                                if members.insert(key.clone(), value.clone()).is_some() {
                                    return Err(EvalError::Failed(
                                        "insert failed: key already exists".into(),
                                    ));
                                }
                            }
                        }
                        _ => return Err(EvalError::NoSuchOverload),
                    },
                }
            }
            self.locals.truncate(depth);
        }
        if let Some(error) = pending {
            return Err(error);
        }
        Ok(match loops.kind {
            ComprehensionKind::All => Value::Bool(true),
            ComprehensionKind::Exists => Value::Bool(false),
            ComprehensionKind::ExistsOne => Value::Bool(n_true == 1),
            ComprehensionKind::List => Value::List(Arc::new(items)),
            ComprehensionKind::Map | ComprehensionKind::Entries => convert::map(members),
        })
    }

    fn optional_map(&mut self, operand: &Node, body: &Node, flat: bool) -> Outcome {
        let operand = self.run(operand)?;
        match convert::held(&operand).ok_or(EvalError::NoSuchOverload)? {
            None => Ok(convert::optional(None)),
            Some(value) => {
                let result = self.run_with(value.clone(), body)?;
                Ok(if flat {
                    result
                } else {
                    convert::optional(Some(result))
                })
            }
        }
    }

    fn sort_by(&mut self, list: &Node, key: &Node) -> Outcome {
        let Value::List(items) = self.run(list)? else {
            return Err(EvalError::NoSuchOverload);
        };
        self.budget.spend(items.len() as u64 * 16)?;
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.iter() {
            keyed.push((self.run_with(item.clone(), key)?, item.clone()));
        }
        let mut failure = None;
        keyed.sort_by(
            |(a, _), (b, _)| match operators::compare(a, b, self.budget) {
                Ok(order) => order.unwrap_or(Ordering::Equal),
                Err(error) => {
                    failure.get_or_insert(error);
                    Ordering::Equal
                }
            },
        );
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::List(Arc::new(
                keyed.into_iter().map(|(_, item)| item).collect(),
            ))),
        }
    }

    fn call(&mut self, call: &Call) -> Outcome {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.run(argument)?);
        }
        match call.function.native() {
            None => call.function.run_library(&arguments, self.budget),
            Some(native) => self.native(native, call, &arguments),
        }
    }

    fn native(&mut self, native: Native, call: &Call, arguments: &[Value]) -> Outcome {
        match (native, arguments) {
            (Native::Size, [value]) => size(value, self.budget),
            (
                Native::Contains | Native::StartsWith | Native::EndsWith,
                [Value::String(text), Value::String(part)],
            ) => {
                self.budget.spend_bytes(text.len() + part.len())?;
                Ok(Value::Bool(match native {
                    Native::Contains => text.contains(part.as_str()),
                    Native::StartsWith => text.starts_with(part.as_str()),
                    _ => text.ends_with(part.as_str()),
                }))
            }
            (
                Native::Matches | Native::Find | Native::FindAll,
                [Value::String(text), Value::String(pattern), rest @ ..],
            ) => self.pattern(native, call.pattern.as_ref(), text, pattern, rest),
            (Native::Convert(conversion), [value]) => {
                operators::spend_deep(value, self.budget)?;
                convert::convert(conversion, value)
            }
            (Native::TypeOf, [value]) => Ok(Value::Opaque(Arc::new(TypeName(
                convert::type_name(value).to_owned(),
            )))),
            (Native::Dyn, [value]) => Ok(value.clone()),
            (Native::OptionalOf, [value]) => Ok(convert::optional(Some(value.clone()))),
            (Native::OptionalNone, []) => Ok(convert::optional(None)),
            (Native::OptionalOfNonZero, [value]) => {
                Ok(convert::optional((!value.is_zero()).then(|| value.clone())))
            }
            (Native::HasValue, [value]) => held(value).map(|held| Value::Bool(held.is_some())),
            (Native::OptionalValue, [value]) => held(value)?
                .cloned()
                .ok_or_else(|| EvalError::Failed("optional.none() dereference".into())),
            (Native::Or, [value, other]) => Ok(if held(value)?.is_some() {
                value.clone()
            } else {
                other.clone()
            }),
            (Native::OrValue, [value, other]) => Ok(held(value)?.unwrap_or(other).clone()),
            (Native::Authorizer, _) => {
                self.budget.spend(AUTHORIZER_COST)?;
                authorizer::call(call.function.name, arguments)
            }
            (Native::ParseJson, [Value::String(text)]) => {
                self.budget.spend(text.len() as u64 + 1)?;
                let parsed = serde_json::from_str(text);
                parsed
                    .map(|json| convert::from_json(&json))
                    .map_err(|error| EvalError::Failed(format!("failed to parse JSON: {error}")))
            }
            (Native::Scores, [cluster @ Value::Map(_), Value::String(resource)]) => {
                Ok(convert::scores(cluster, resource))
            }
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn pattern(
        &mut self,
        native: Native,
        compiled: Option<&Regex>,
        text: &str,
        pattern: &str,
        rest: &[Value],
    ) -> Outcome {
        self.budget
            .spend((text.len() as u64 / 10 + 1) * (pattern.len() as u64 / 4 + 1))?;
        let fresh;
        let regex = if let Some(regex) = compiled {
            regex
        } else {
            self.budget
                .spend(PATTERN_COST + pattern.len() as u64 * 10)?;
            fresh = compile_pattern(pattern).map_err(EvalError::Failed)?;
            &fresh
        };
        Ok(match (native, rest) {
            (Native::Matches, []) => Value::Bool(regex.is_match(text)),
            (Native::Find, []) => regex.find(text).map_or("", |found| found.as_str()).into(),
            (Native::FindAll, [] | [Value::Int(_)]) => {
                let limit = match rest {
                    [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let found: Vec<Value> = regex
                    .find_iter(text)
                    .take(limit)
                    .map(|found| found.as_str().into())
                    .collect();
                Value::List(Arc::new(found))
            }
            _ => return Err(EvalError::NoSuchOverload),
        })
    }
}

/// As in Kubernetes: a check costs far more than a step.
const AUTHORIZER_COST: u64 = 1_000;

/// Compiles a pattern, and refuses patterns that would become too large.
pub(crate) fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("error parsing regexp: {pattern:?} is too large")
            }
            _ => format!("error parsing regexp: {pattern:?}"),
        })
}

fn held(value: &Value) -> Result<Option<&Value>, EvalError> {
    convert::held(value).ok_or(EvalError::NoSuchOverload)
}

fn select(operand: &Value, field: &Key) -> Outcome {
    match operand {
        Value::Map(entries) => entries
            .get(field)
            .cloned()
            .ok_or_else(|| EvalError::NoSuchKey(field_name(field).to_owned())),
        // A selection from an optional is optional again.
        other => match convert::held(other) {
            Some(inner) => {
                let found = match inner {
                    Some(Value::Map(entries)) => entries.get(field).cloned(),
                    _ => None,
                };
                Ok(convert::optional(found))
            }
            None => Err(EvalError::NoSuchKey(field_name(field).to_owned())),
        },
    }
}

fn has(operand: &Value, field: &Key) -> Result<bool, EvalError> {
    match operand {
        Value::Map(entries) => Ok(entries.get(field).is_some()),
        other => match convert::held(other) {
            Some(Some(Value::Map(entries))) => Ok(entries.get(field).is_some()),
            Some(_) => Ok(false),
            None => Err(EvalError::NoSuchKey(field_name(field).to_owned())),
        },
    }
}

fn field_name(field: &Key) -> &str {
    match field {
        Key::String(name) => name,
        _ => "",
    }
}

fn size(value: &Value, budget: &mut Budget) -> Outcome {
    Ok(Value::Int(match value {
        Value::String(text) => {
            budget.spend_bytes(text.len())?;
            text.chars().count() as i64
        }
        Value::Bytes(bytes) => bytes.len() as i64,
        Value::List(items) => items.len() as i64,
        Value::Map(entries) => entries.map.len() as i64,
        _ => return Err(EvalError::NoSuchOverload),
    }))
}

/// An element of a literal, unless it is an optional without value.
fn given(value: Value, optional: bool) -> Result<Option<Value>, EvalError> {
    if optional {
        held(&value).map(Option::<&Value>::cloned)
    } else {
        Ok(Some(value))
    }
}

fn as_key(value: Value) -> Result<Key, EvalError> {
    match value {
        Value::Int(value) => Ok(Key::Int(value)),
        Value::UInt(value) => Ok(Key::Uint(value)),
        Value::Bool(value) => Ok(Key::Bool(value)),
        Value::String(value) => Ok(Key::String(value)),
        _ => Err(EvalError::Failed("unsupported key type".into())),
    }
}
