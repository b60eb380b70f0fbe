//! Checks a syntax tree against an environment and prepares it for evaluation.
//!
//! Types are inferred as far as they are declared. `dyn` passes every check, so an expression that is refused here
//! would have failed on every input.

mod comprehension;
mod operator;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators as op,
};
use regex::Regex;

use crate::convert;
use crate::eval::compile_pattern;
use crate::expression::{CompileError, Environment};
use crate::library::{self, Conversion, Function, Native, Overload};
use crate::node::{Call, Element, Node};
use crate::syntax::{pointing_at_text, pointing_behind};
use crate::types::Type;
use comprehension::is_lazy;
use operator::{binary_operator, binary_type};

/// As in cel-go. Evaluation recurses as deep as the tree does.
const MAX_DEPTH: usize = 250;

type Checked = Result<(Node, Type), CompileError>;

/// Checks one expression.
pub(crate) struct Checker<'a> {
    text: &'a str,
    environment: &'a Environment,
    locals: Vec<(String, Type)>,
    globals: BTreeSet<String>,
    depth: usize,
    /// Whether literals may hold values of several types.
    allows_mixed: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(text: &'a str, environment: &'a Environment) -> Self {
        Self {
            text,
            environment,
            locals: Vec::new(),
            globals: BTreeSet::new(),
            depth: 0,
            allows_mixed: false,
        }
    }

    /// The environment's variables that were named.
    pub(crate) fn into_globals(self) -> Vec<String> {
        self.globals.into_iter().collect()
    }

    pub(crate) fn check(&mut self, tree: IdedExpr) -> Checked {
        if self.depth == MAX_DEPTH {
            return Err(self.refuse("", "max recursion depth exceeded"));
        }
        self.depth += 1;
        let result = match tree.expr {
            Expr::Literal(literal) => Ok(literal_node(&literal)),
            Expr::Ident(name) => self.ident(&name),
            Expr::Select(select) => self.select(*select.operand, &select.field, select.test),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list.elements, &list.optional_indices),
            Expr::Map(map) => self.map(map.entries.into_iter().map(|entry| entry.expr)),
            Expr::Comprehension(comprehension) => self.expanded(*comprehension),
            Expr::Struct(structure) => {
                Err(self.refuse(&structure.type_name, &undeclared(&structure.type_name)))
            }
            Expr::Unspecified => Err(self.refuse("", "unexpected expression")),
        };
        self.depth -= 1;
        result
    }

    fn refuse(&self, place: &str, message: &str) -> CompileError {
        CompileError::Invalid(pointing_at_text(self.text, place, message))
    }

    /// Points at the parenthesis behind a function's name.
    fn refuse_call(&self, name: &str, message: &str) -> CompileError {
        CompileError::Invalid(pointing_behind(self.text, name, "(", message))
    }

    fn no_overload(&self, place: &str, name: &str, signature: &str) -> CompileError {
        self.refuse(
            place,
            &format!("found no matching overload for '{name}' applied to '{signature}'"),
        )
    }

    fn ident(&mut self, name: &str) -> Checked {
        if let Some(place) = self.locals.iter().rposition(|(local, _)| local == name) {
            return Ok((Node::Local(place), self.locals[place].1.clone()));
        }
        if let Some(found) = self.global(name) {
            return Ok(found);
        }
        match convert::named_type(name) {
            Some(value) => Ok((Node::Literal(value), Type::Kind)),
            None => Err(self.refuse(name, &undeclared(name))),
        }
    }

    fn global(&mut self, name: &str) -> Option<(Node, Type)> {
        let kind = self.environment.variables.get(name)?.clone();
        self.globals.insert(name.to_owned());
        Some((Node::Global(Arc::from(name)), kind))
    }

    /// A dotted name that as a whole is a variable or a type, such as `google.protobuf.Timestamp`.
    fn qualified(&mut self, operand: &IdedExpr, field: &str) -> Option<(Node, Type)> {
        let mut parts = vec![field];
        let mut current = &operand.expr;
        loop {
            match current {
                Expr::Select(select) if !select.test => {
                    parts.push(&select.field);
                    current = &select.operand.expr;
                }
                Expr::Ident(root) => {
                    if self.locals.iter().any(|(local, _)| local == root) {
                        return None;
                    }
                    parts.push(root);
                    break;
                }
                _ => return None,
            }
        }
        parts.reverse();
        let name = parts.join(".");
        self.global(&name)
            .or_else(|| Some((Node::Literal(convert::named_type(&name)?), Type::Kind)))
    }

    fn select(&mut self, operand: IdedExpr, field: &str, is_test: bool) -> Checked {
        if !is_test && let Some(found) = self.qualified(&operand, field) {
            return Ok(found);
        }
        let (operand, kind) = self.check(operand)?;
        let found = self.field_type(&kind, field)?;
        let (operand, key) = (Box::new(operand), convert::key(field));
        Ok(if is_test {
            (
                Node::Has {
                    operand,
                    field: key,
                },
                Type::Bool,
            )
        } else {
            (
                Node::Select {
                    operand,
                    field: key,
                },
                found,
            )
        })
    }

    fn field_type(&self, kind: &Type, field: &str) -> Result<Type, CompileError> {
        let place = format!(".{field}");
        match kind {
            Type::Dyn => Ok(Type::Dyn),
            Type::Map(entry) => Ok(entry.1.clone()),
            Type::Object(fields) => fields
                .get(field)
                .cloned()
                .ok_or_else(|| self.refuse(&place, &format!("undefined field '{field}'"))),
            Type::Optional(inner) => self.field_type(inner, field).map(Type::optional),
            other => Err(self.refuse(
                &place,
                &format!("type '{other}' does not support field selection"),
            )),
        }
    }

    fn call(&mut self, mut call: CallExpr) -> Checked {
        match (
            call.func_name.as_str(),
            call.args.len(),
            call.target.is_some(),
        ) {
            (op::CONDITIONAL, 3, false) => self.conditional(call.args),
            (op::LOGICAL_AND | op::LOGICAL_OR, 2, false) => {
                let is_and = call.func_name == op::LOGICAL_AND;
                let [left, right] = two(call.args);
                let (left, right) = (self.bool_operand(left)?, self.bool_operand(right)?);
                let (left, right) = (Box::new(left), Box::new(right));
                Ok((
                    if is_and {
                        Node::And(left, right)
                    } else {
                        Node::Or(left, right)
                    },
                    Type::Bool,
                ))
            }
            (op::LOGICAL_NOT, 1, false) => {
                let (operand, kind) = self.check(call.args.remove(0))?;
                if !Type::Bool.overlaps(&kind) {
                    return Err(self.no_overload("!", op::LOGICAL_NOT, &format!("({kind})")));
                }
                Ok((Node::Not(Box::new(operand)), Type::Bool))
            }
            (op::NEGATE, 1, false) => {
                let (operand, kind) = self.check(call.args.remove(0))?;
                if !matches!(kind, Type::Dyn | Type::Int | Type::Double) {
                    return Err(self.no_overload("-", op::NEGATE, &format!("({kind})")));
                }
                Ok((Node::Negate(Box::new(operand)), kind))
            }
            (op::INDEX | op::OPT_INDEX, 2, false) => {
                self.index(call.args, call.func_name == op::OPT_INDEX)
            }
            (op::OPT_SELECT, 2, false) => self.optional_select(call.args),
            (name, 2, false) if binary_operator(name).is_some() => self.binary(call),
            (name, _, true) if is_lazy(name, call.args.len()) => self.lazy(call),
            _ => self.function(call),
        }
    }

    fn bool_operand(&mut self, operand: IdedExpr) -> Result<Node, CompileError> {
        let (node, kind) = self.check(operand)?;
        if !Type::Bool.overlaps(&kind) {
            return Err(self.refuse("", &format!("expected type 'bool' but found '{kind}'")));
        }
        Ok(node)
    }

    fn conditional(&mut self, args: Vec<IdedExpr>) -> Checked {
        let mut args = args.into_iter();
        let (Some(condition), Some(then), Some(otherwise)) =
            (args.next(), args.next(), args.next())
        else {
            return Err(self.refuse("?", "unexpected expression"));
        };
        let (condition, condition_type) = self.check(condition)?;
        let (then, then_type) = self.check(then)?;
        let (otherwise, otherwise_type) = self.check(otherwise)?;
        if !Type::Bool.overlaps(&condition_type) || !then_type.overlaps(&otherwise_type) {
            let signature = format!("({condition_type}, {then_type}, {otherwise_type})");
            return Err(self.no_overload("?", op::CONDITIONAL, &signature));
        }
        let kind = then_type.join(&otherwise_type);
        Ok((
            Node::Conditional(Box::new([condition, then, otherwise])),
            kind,
        ))
    }

    fn index(&mut self, args: Vec<IdedExpr>, is_optional: bool) -> Checked {
        let [operand, index] = two(args);
        let (operand, kind) = self.check(operand)?;
        let (index, index_type) = self.check(index)?;
        let (held, was_optional) = match &kind {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let found = match &held {
            Type::Dyn => Some(Type::Dyn),
            Type::List(element)
                if matches!(
                    index_type,
                    Type::Dyn | Type::Int | Type::Uint | Type::Double
                ) =>
            {
                Some((**element).clone())
            }
            Type::Map(entry) if entry.0.overlaps(&index_type) => Some(entry.1.clone()),
            _ => None,
        };
        let Some(found) = found else {
            let name = if is_optional {
                op::OPT_INDEX
            } else {
                op::INDEX
            };
            return Err(self.no_overload("[", name, &format!("({kind}, {index_type})")));
        };
        let (operand, index) = (Box::new(operand), Box::new(index));
        let found = if is_optional || was_optional {
            Type::optional(found)
        } else {
            found
        };
        Ok(if is_optional {
            (Node::OptionalIndex { operand, index }, found)
        } else {
            (Node::Index { operand, index }, found)
        })
    }

    fn optional_select(&mut self, args: Vec<IdedExpr>) -> Checked {
        let [operand, field] = two(args);
        let Expr::Literal(LiteralValue::String(field)) = field.expr else {
            return Err(self.refuse("?", "unsupported optional field selection"));
        };
        let (operand, kind) = self.check(operand)?;
        let found = match self.field_type(&kind, field.inner())? {
            already @ Type::Optional(_) => already,
            found => Type::optional(found),
        };
        Ok((
            Node::OptionalSelect {
                operand: Box::new(operand),
                field: convert::key(field.inner()),
            },
            found,
        ))
    }

    fn binary(&mut self, call: CallExpr) -> Checked {
        let name = call.func_name;
        let [left, right] = two(call.args);
        let (left, left_type) = self.check(left)?;
        let (right, right_type) = self.check(right)?;
        let checked = binary_operator(&name).and_then(|operator| {
            binary_type(operator, &left_type, &right_type).map(|kind| (operator, kind))
        });
        let Some((operator, kind)) = checked else {
            let symbol = if name == op::IN {
                "in"
            } else {
                name.trim_matches('_')
            };
            return Err(self.no_overload(symbol, &name, &format!("({left_type}, {right_type})")));
        };
        Ok((
            Node::Binary(operator, Box::new(left), Box::new(right)),
            kind,
        ))
    }

    fn list(&mut self, elements: Vec<IdedExpr>, optional: &[usize]) -> Checked {
        let mut items = Vec::with_capacity(elements.len());
        let mut common: Option<Type> = None;
        for (index, element) in elements.into_iter().enumerate() {
            let (node, kind) = self.check(element)?;
            let is_optional = optional.contains(&index);
            common = Some(self.common(common, self.literal_type(kind, is_optional)?)?);
            items.push(Element {
                node,
                optional: is_optional,
            });
        }
        Ok((Node::List(items), Type::list(common.unwrap_or(Type::Dyn))))
    }

    fn map(&mut self, entries: impl Iterator<Item = EntryExpr>) -> Checked {
        let mut members = Vec::new();
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else {
                return Err(self.refuse("{", "unexpected field in a map"));
            };
            let (key, key_type) = self.check(entry.key)?;
            let (node, kind) = self.check(entry.value)?;
            keys = Some(self.common(keys, key_type)?);
            values = Some(self.common(values, self.literal_type(kind, entry.optional)?)?);
            members.push((
                key,
                Element {
                    node,
                    optional: entry.optional,
                },
            ));
        }
        let kind = Type::map(keys.unwrap_or(Type::Dyn), values.unwrap_or(Type::Dyn));
        Ok((Node::Map(members), kind))
    }

    fn literal_type(&self, kind: Type, is_optional: bool) -> Result<Type, CompileError> {
        match kind {
            Type::Optional(inner) if is_optional => Ok((*inner).clone()),
            Type::Dyn => Ok(Type::Dyn),
            other if is_optional => Err(self.refuse(
                "?",
                &format!("expected type 'optional_type(dyn)' but found '{other}'"),
            )),
            other => Ok(other),
        }
    }

    /// Literals hold values of one type.
    fn common(&self, so_far: Option<Type>, next: Type) -> Result<Type, CompileError> {
        match so_far {
            None => Ok(next),
            Some(kind) if self.allows_mixed || kind.overlaps(&next) => Ok(kind.join(&next)),
            Some(kind) => {
                Err(self.refuse("", &format!("expected type '{kind}' but found '{next}'")))
            }
        }
    }

    fn function(&mut self, call: CallExpr) -> Checked {
        let (name, target) = match call.target {
            None => (call.func_name, None),
            Some(target) => match self.namespace_of(&target, &call.func_name) {
                Some(qualified) => (qualified, None),
                None => (call.func_name, Some(target)),
            },
        };
        let is_method = target.is_some();
        let bare = name.rsplit('.').next().unwrap_or(&name).to_owned();
        if !library::is_known(self.environment, &name) {
            return Err(self.refuse_call(&bare, &undeclared(&name)));
        }
        let mut arguments = Vec::new();
        let mut types = Vec::new();
        // The arguments of `format` are the one list that may be mixed.
        let was_mixed = std::mem::replace(&mut self.allows_mixed, name == "format");
        for argument in target.map(|target| *target).into_iter().chain(call.args) {
            let (node, kind) = self.check(argument)?;
            arguments.push(node);
            types.push(kind);
        }
        self.allows_mixed = was_mixed;
        let fitting: Vec<&Overload> = library::overloads(self.environment, &name, is_method)
            .filter(|o| o.accepts(&types))
            .collect();
        let Some(first) = fitting.first() else {
            let signature = signature(&types, is_method);
            let message =
                format!("found no matching overload for '{name}' applied to '{signature}'");
            return Err(self.refuse_call(&bare, &message));
        };
        let kind = fitting
            .iter()
            .skip(1)
            .fold(first.result(&types), |kind, o| kind.join(&o.result(&types)));
        let function = first.bind();
        self.check_time_literal(&function, &arguments)?;
        let pattern = self.literal_pattern(&function, &arguments)?;
        Ok((
            Node::Call(Box::new(Call {
                function,
                arguments,
                pattern,
            })),
            kind,
        ))
    }

    /// `sets` in `sets.contains(a, b)` is part of the function's name, unless it is a variable.
    fn namespace_of(&self, target: &IdedExpr, function: &str) -> Option<String> {
        let Expr::Ident(prefix) = &target.expr else {
            return None;
        };
        let is_variable = self.locals.iter().any(|(local, _)| local == prefix)
            || self.environment.variables.contains_key(prefix);
        let qualified = format!("{prefix}.{function}");
        (!is_variable && library::is_known(self.environment, &qualified)).then_some(qualified)
    }

    /// Times written in the expression must be times.
    fn check_time_literal(
        &self,
        function: &Function,
        arguments: &[Node],
    ) -> Result<(), CompileError> {
        match (function.native(), arguments) {
            (
                Some(Native::Convert(conversion @ (Conversion::Duration | Conversion::Timestamp))),
                [Node::Literal(value @ Value::String(_))],
            ) if convert::convert(conversion, value).is_err() => {
                let name = function.name;
                Err(self.refuse_call(name, &format!("invalid {name} argument")))
            }
            _ => Ok(()),
        }
    }

    /// Patterns written in the expression are compiled with it.
    fn literal_pattern(
        &self,
        function: &Function,
        arguments: &[Node],
    ) -> Result<Option<Regex>, CompileError> {
        match (function.native(), arguments.get(1)) {
            (
                Some(Native::Matches | Native::Find | Native::FindAll),
                Some(Node::Literal(Value::String(pattern))),
            ) => {
                let name = function.name;
                compile_pattern(pattern)
                    .map(Some)
                    .map_err(|_| self.refuse_call(name, &format!("invalid {name} argument")))
            }
            _ => Ok(None),
        }
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn two(args: Vec<IdedExpr>) -> [IdedExpr; 2] {
    let mut args = args.into_iter();
    [
        args.next().unwrap_or_default(),
        args.next().unwrap_or_default(),
    ]
}

fn signature(types: &[Type], is_method: bool) -> String {
    let shown: Vec<String> = types.iter().map(Type::to_string).collect();
    match shown.split_first() {
        Some((target, rest)) if is_method => format!("{target}.({})", rest.join(", ")),
        _ => format!("({})", shown.join(", ")),
    }
}

fn literal_node(literal: &LiteralValue) -> (Node, Type) {
    let (value, kind) = match literal {
        LiteralValue::Boolean(value) => (Value::Bool(*value.inner()), Type::Bool),
        LiteralValue::Bytes(value) => (Value::Bytes(Arc::new(value.inner().to_vec())), Type::Bytes),
        LiteralValue::Double(value) => (Value::Float(*value.inner()), Type::Double),
        LiteralValue::Int(value) => (Value::Int(*value.inner()), Type::Int),
        LiteralValue::Null => (Value::Null, Type::Null),
        LiteralValue::String(value) => (value.inner().into(), Type::String),
        LiteralValue::UInt(value) => (Value::UInt(*value.inner()), Type::Uint),
    };
    (Node::Literal(value), kind)
}
