//! Evaluates pipelines: commands, operands, fields, and calls with their arguments.

use super::{At, ExecuteError, Found, Machine, Ran};
use crate::builtins;
use crate::function::{Call, Failure, Function, Type};
use crate::methods;
use crate::syntax::node::{Command, Operand, Pipeline, Term};
use crate::syntax::number::Number;
use crate::value::{IntType, Value};

/// A search among this many variables costs a step.
const VARIABLES_PER_STEP: u64 = 16;

impl<'t> Machine<'t, '_, '_> {
    pub(super) fn assign(&mut self, name: &str, value: Found) -> Ran<()> {
        let place = self.place(name)?;
        self.variables[place].1 = value;
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Ran<Found> {
        let place = self.place(name)?;
        Ok(self.variables[place].1.clone())
    }

    /// Where the innermost variable of a name is. The search is paid for: a template may declare
    /// any number of variables.
    fn place(&mut self, name: &str) -> Ran<usize> {
        let scope = &self.variables[self.base..];
        let found = scope.iter().rposition(|(known, _)| *known == name);
        let n_compared = scope.len() - found.unwrap_or_default();
        self.spend(n_compared as u64 / VARIABLES_PER_STEP)?;
        match found {
            Some(place) => Ok(self.base + place),
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    /// The value of a pipeline is never boxed. The variables it declares stay until the block ends.
    pub(super) fn pipeline(&mut self, dot: &Found, pipeline: &'t Pipeline) -> Ran<Value> {
        self.enter()?;
        self.at = Some(At::Pipeline(pipeline));
        let mut value: Option<Found> = None;
        for command in &pipeline.commands {
            let found = self.command(dot, command, value)?;
            value = Some(Found::plain(found.value));
        }
        let value = value.map_or(Value::Nil, |found| found.value);
        for name in &pipeline.variables {
            let found = Found::plain(value.clone());
            if pipeline.assigns {
                self.assign(name, found)?;
            } else {
                self.variables.push((name, found));
            }
        }
        self.depth -= 1;
        Ok(value)
    }

    fn command(&mut self, dot: &Found, command: &'t Command, last: Option<Found>) -> Ran<Found> {
        self.spend(1)?;
        let Some((first, arguments)) = command.operands.split_first() else {
            return self.fail("empty command");
        };
        match &first.term {
            Term::Field(names) => {
                self.at = Some(At::Operand(first));
                return self.fields(dot, dot.clone(), first, names, arguments, last);
            }
            Term::Chain(inner, names) => {
                let receiver = self.chain_start(dot, first, inner)?;
                return self.fields(dot, receiver, first, names, arguments, last);
            }
            Term::Function(name, function) => {
                self.at = Some(At::Operand(first));
                let value = self.call(
                    dot,
                    At::Command(command),
                    name,
                    function,
                    None,
                    arguments,
                    last,
                )?;
                return Ok(Found::plain(value));
            }
            Term::Pipeline(pipeline) => {
                self.takes_nothing(first, arguments, last.as_ref())?;
                return Ok(Found::plain(self.pipeline(dot, pipeline)?));
            }
            Term::Variable(names) => {
                return self.variable_fields(dot, first, names, arguments, last);
            }
            _ => {}
        }
        self.at = Some(At::Operand(first));
        self.takes_nothing(first, arguments, last.as_ref())?;
        match &first.term {
            Term::Bool(truth) => Ok(Found::plain(Value::Bool(*truth))),
            Term::Dot => Ok(dot.clone()),
            Term::Number(number) => Ok(Found::plain(self.constant(number)?)),
            Term::Text { text, .. } => Ok(Found::plain(Value::text(text))),
            _ => self.fail("nil is not a command"),
        }
    }

    fn takes_nothing(
        &self,
        first: &Operand,
        arguments: &[Operand],
        last: Option<&Found>,
    ) -> Ran<()> {
        if arguments.is_empty() && last.is_none() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {first}"))
    }

    fn constant(&self, number: &Number) -> Ran<Value> {
        match (number.looks_like_float(), number.float, number.int) {
            (true, Some(float), _) => Ok(Value::Float(float)),
            (_, _, Some(int)) => Ok(Value::int(int)),
            _ => self.fail(format!("{} overflows int", number.text)),
        }
    }

    fn chain_start(&mut self, dot: &Found, chain: &'t Operand, inner: &'t Operand) -> Ran<Found> {
        self.at = Some(At::Operand(chain));
        if matches!(inner.term, Term::Nil) {
            return self.fail(format!("indirection through explicit nil in {chain}"));
        }
        self.at = Some(At::Operand(inner));
        self.operand(dot, inner)
    }

    fn variable_fields(
        &mut self,
        dot: &Found,
        node: &'t Operand,
        names: &'t [Box<str>],
        arguments: &'t [Operand],
        last: Option<Found>,
    ) -> Ran<Found> {
        self.at = Some(At::Operand(node));
        let Some((name, fields)) = names.split_first() else {
            return self.fail("a variable without a name");
        };
        let value = self.variable(name)?;
        if fields.is_empty() {
            self.takes_nothing(node, arguments, last.as_ref())?;
            return Ok(value);
        }
        self.fields(dot, value, node, fields, arguments, last)
    }

    /// `.X.Y.Z`, possibly with arguments for the last one.
    fn fields(
        &mut self,
        dot: &Found,
        receiver: Found,
        node: &'t Operand,
        names: &'t [Box<str>],
        arguments: &'t [Operand],
        last: Option<Found>,
    ) -> Ran<Found> {
        let Some((final_name, names)) = names.split_last() else {
            return Ok(receiver);
        };
        let mut receiver = receiver;
        for name in names {
            receiver = self.field(dot, receiver, node, name, &[], None)?;
        }
        self.field(dot, receiver, node, final_name, arguments, last)
    }

    fn field(
        &mut self,
        dot: &Found,
        receiver: Found,
        node: &'t Operand,
        name: &'t str,
        arguments: &'t [Operand],
        last: Option<Found>,
    ) -> Ran<Found> {
        if let Value::Nil = receiver.value {
            if receiver.boxed {
                return self.fail(format!("nil pointer evaluating interface {{}}.{name}"));
            }
            return Ok(receiver);
        }
        if let Some(method) = methods::find(&receiver.value, name) {
            let receiver = Some(receiver.value);
            let at = At::Operand(node);
            let value = self.call(dot, at, name, method, receiver, arguments, last)?;
            return Ok(Found::plain(value));
        }
        let has_arguments = !arguments.is_empty() || last.is_some();
        match &receiver.value {
            Value::Struct(fields) => {
                if let Some(value) = fields.field(name) {
                    if has_arguments {
                        return self.fail(format!(
                            "{name} has arguments but cannot be invoked as function"
                        ));
                    }
                    return Ok(Found::plain(value.clone()));
                }
            }
            Value::Map(map) => {
                if has_arguments {
                    return self.fail(format!("{name} is not a method but has arguments"));
                }
                return Ok(match map.get(name) {
                    Some(value) => Found {
                        value,
                        boxed: !map.texts,
                    },
                    None => Found::plain(Value::Nil),
                });
            }
            _ => {}
        }
        let type_name = receiver.type_name();
        self.fail(format!("can't evaluate field {name} in type {type_name}"))
    }

    /// Calls a function, or a method of `receiver`, with evaluated arguments.
    #[expect(clippy::too_many_arguments, reason = "the parts of a call")]
    fn call(
        &mut self,
        dot: &Found,
        at: At<'t>,
        name: &str,
        function: &'static Function,
        receiver: Option<Value>,
        operands: &'t [Operand],
        last: Option<Found>,
    ) -> Ran<Value> {
        let n_given = operands.len() + usize::from(last.is_some());
        let n_fixed = function.parameters.len();
        if function.rest.is_some() {
            if n_given < n_fixed {
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {n_fixed} got {}",
                    operands.len()
                ));
            }
        } else if n_given != n_fixed && !matches!(function.call, Call::Refused(_)) {
            return self.fail(format!(
                "wrong number of args for {name}: want {n_fixed} got {n_given}"
            ));
        }
        if let Call::ShortCircuit { stops_at } = function.call {
            return self.short_circuit(dot, operands, last, stops_at);
        }
        let base = self.arguments.len();
        self.arguments.extend(receiver);
        let type_of = |i: usize| {
            let fixed = function.parameters.get(i).copied();
            fixed.or(function.rest).unwrap_or(Type::Any)
        };
        for (i, operand) in operands.iter().enumerate() {
            let value = self.argument(dot, type_of(i), operand)?;
            self.arguments.push(value);
        }
        if let Some(last) = last {
            let value = self.checked(last, type_of(operands.len()))?;
            self.arguments.push(value);
        }
        let arguments = &self.arguments[base..];
        let outcome = self
            .run
            .spend_on_arguments(arguments)
            .and_then(|()| match function.call {
                Call::Plain(call) => call(self.run, arguments),
                Call::Refused(reason) => Err(Failure::Message(reason(name))),
                Call::OfValue => {
                    let shown = operands.first().map(Operand::to_string);
                    Err(builtins::call_of(arguments, shown))
                }
                Call::ShortCircuit { .. } => Ok(Value::Nil),
            })
            .and_then(|value| self.run.spend_on_result(&value).map(|()| value));
        self.arguments.truncate(base);
        outcome.map_err(|failure| {
            self.at = Some(at);
            self.failed_call(name, failure)
        })
    }

    fn failed_call(&self, name: &str, failure: Failure) -> ExecuteError {
        match failure {
            Failure::Limit(_) => self.failed(&failure),
            failure => {
                let message = failure.message();
                let text = format!("error calling {name}: {}", self.shown(&message));
                match failure {
                    Failure::Lookup(cause) => ExecuteError::Lookup {
                        message: self.located(&text),
                        cause,
                    },
                    _ => ExecuteError::Failed(self.located(&text)),
                }
            }
        }
    }

    fn short_circuit(
        &mut self,
        dot: &Found,
        operands: &'t [Operand],
        last: Option<Found>,
        stops_at: bool,
    ) -> Ran<Value> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.argument(dot, Type::Value, operand)?;
            if value.is_true() == stops_at {
                return Ok(value);
            }
        }
        Ok(last.map_or(value, |last| last.value))
    }

    /// The value of an operand if no type is expected.
    fn operand(&mut self, dot: &Found, operand: &'t Operand) -> Ran<Found> {
        match &operand.term {
            Term::Dot => Ok(dot.clone()),
            Term::Field(names) => {
                self.at = Some(At::Operand(operand));
                self.fields(dot, dot.clone(), operand, names, &[], None)
            }
            Term::Variable(names) => self.variable_fields(dot, operand, names, &[], None),
            Term::Pipeline(pipeline) => Ok(Found::plain(self.pipeline(dot, pipeline)?)),
            Term::Function(name, function) => {
                self.at = Some(At::Operand(operand));
                let at = At::Operand(operand);
                let value = self.call(dot, at, name, function, None, &[], None)?;
                Ok(Found::plain(value))
            }
            Term::Chain(inner, names) => {
                let receiver = self.chain_start(dot, operand, inner)?;
                self.fields(dot, receiver, operand, names, &[], None)
            }
            Term::Nil => Ok(Found::plain(Value::Nil)),
            Term::Bool(truth) => Ok(Found::plain(Value::Bool(*truth))),
            Term::Number(number) => Ok(Found::plain(self.constant(number)?)),
            Term::Text { text, .. } => Ok(Found::plain(Value::text(text))),
        }
    }

    /// An operand as an argument of this type.
    fn argument(&mut self, dot: &Found, wanted: Type, operand: &'t Operand) -> Ran<Value> {
        self.spend(1)?;
        self.at = Some(At::Operand(operand));
        match &operand.term {
            Term::Nil if wanted.can_be_nil() => return Ok(Value::Nil),
            Term::Nil => return self.fail(format!("cannot assign nil to {}", wanted.name())),
            Term::Bool(_) | Term::Number(_) | Term::Text { .. } => {}
            _ => {
                let found = self.operand(dot, operand)?;
                return self.checked(found, wanted);
            }
        }
        let expected = match (wanted, &operand.term) {
            (Type::Bool, Term::Bool(truth)) => return Ok(Value::Bool(*truth)),
            (Type::Text, Term::Text { text, .. }) => return Ok(Value::text(text)),
            (Type::Int | Type::Duration, Term::Number(Number { int: Some(int), .. })) => {
                return Ok(if wanted == Type::Int {
                    Value::int(*int)
                } else {
                    Value::Duration(*int)
                });
            }
            (
                Type::Uint32,
                Term::Number(Number {
                    uint: Some(uint), ..
                }),
            ) => {
                return Ok(Value::Int(i64::from(*uint as u32), IntType::Uint32));
            }
            (
                Type::Float,
                Term::Number(Number {
                    float: Some(float), ..
                }),
            ) => {
                return Ok(Value::Float(*float));
            }
            (Type::Any | Type::Value, _) => return Ok(self.operand(dot, operand)?.value),
            (Type::Bool, _) => "bool",
            (Type::Text, _) => "string",
            (Type::Int | Type::Duration, _) => "integer",
            (Type::Uint32, _) => "unsigned integer",
            (Type::Float, _) => "float",
            _ => {
                return self.fail(format!(
                    "can't handle {operand} for arg of type {}",
                    wanted.name()
                ));
            }
        };
        self.fail(format!("expected {expected}; found {operand}"))
    }

    /// A found value as an argument of this type.
    fn checked(&self, found: Found, wanted: Type) -> Ran<Value> {
        if wanted.takes(&found.value) {
            return Ok(found.value);
        }
        if matches!(found.value, Value::Nil) && !found.boxed {
            if wanted.can_be_nil() {
                return Ok(Value::Nil);
            }
            return self.fail(format!("invalid value; expected {}", wanted.name()));
        }
        let got = if matches!(found.value, Value::Nil) {
            "interface {}"
        } else {
            found.value.type_name()
        };
        self.fail(format!(
            "wrong type for value; expected {}; got {got}",
            wanted.name()
        ))
    }
}
