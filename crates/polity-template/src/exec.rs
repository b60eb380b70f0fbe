//! Walks a tree and writes what it says, within limits.

use crate::builtins;
use crate::function::{Call, Failure, Function, Type};
use crate::host::LookupError;
use crate::methods;
use crate::print;
use crate::run::{Run, exceeded};
use crate::syntax::node::{Block, Branch, Command, Invocation, Node, Operand, Pipeline, Term};
use crate::syntax::number::Number;
use crate::syntax::parse::Trees;
use crate::syntax::unquote::quote;
use crate::value::{Elements, IntType, Value};

/// How deep parentheses, blocks and calls may lie in each other while running.
const DEEPEST: usize = 400;

/// A value as it was found: `boxed` when its declared type is an interface, so that errors name that,
/// and a nil in it is a nil interface rather than nothing.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    value: Value,
    boxed: bool,
}

impl Found {
    pub(crate) fn plain(value: Value) -> Self {
        Self {
            value,
            boxed: false,
        }
    }

    fn type_name(&self) -> &'static str {
        if self.boxed {
            "interface {}"
        } else {
            self.value.type_name()
        }
    }
}

/// Why a template stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The template is wrong, or what it needs is not there.
    #[error("{0}")]
    Failed(String),
    /// It exceeded a limit.
    #[error("{0}")]
    Limit(String),
    /// A lookup failed; the cause tells whether another try is worth it.
    #[error("{message}")]
    Lookup { message: String, cause: LookupError },
}

type Ran<T> = Result<T, ExecuteError>;

/// How a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// The node that is being worked on, for errors.
#[derive(Clone, Copy)]
enum At<'t> {
    Operand(&'t Operand),
    Command(&'t Command),
    Pipeline(&'t Pipeline),
    Invocation(&'t Invocation),
}

/// What is executed: all trees of a template, and where they came from.
pub(crate) struct Source<'t> {
    pub(crate) name: &'t str,
    pub(crate) text: &'t str,
    pub(crate) trees: &'t Trees,
}

/// Executes the tree of this name.
pub(crate) fn execute<'t>(source: &'t Source<'t>, run: &mut Run<'_>, data: Value) -> Ran<String> {
    let Some((name, root)) = source.trees.get_key_value(source.name) else {
        let (name, quoted) = (source.name, quote(source.name));
        return Err(ExecuteError::Failed(format!(
            "template: {name}: {quoted} is an incomplete or empty template"
        )));
    };
    let dot = Found::plain(data);
    let mut machine = Machine {
        source,
        run,
        out: String::new(),
        tree: name,
        variables: vec![("$", dot.clone())],
        base: 0,
        arguments: Vec::new(),
        at: None,
        depth: 0,
        n_calls: 0,
    };
    machine.block(&dot, root)?;
    Ok(machine.out)
}

struct Machine<'t, 'm, 'r> {
    source: &'t Source<'t>,
    run: &'m mut Run<'r>,
    out: String,
    /// The name of the tree that is being executed.
    tree: &'t str,
    /// All variables; those of the current tree begin at `base`.
    variables: Vec<(&'t str, Found)>,
    base: usize,
    /// The arguments of all calls that are being made, innermost last.
    arguments: Vec<Value>,
    at: Option<At<'t>>,
    depth: usize,
    n_calls: usize,
}

impl<'t> Machine<'t, '_, '_> {
    fn located(&self, message: &str) -> String {
        let Some(at) = self.at else {
            return format!("template: {}: {message}", self.tree);
        };
        let (offset, mut shown) = match at {
            At::Operand(node) => (node.at, node.to_string()),
            At::Command(node) => (node.at, node.to_string()),
            At::Pipeline(node) => (node.at, node.to_string()),
            At::Invocation(node) => (node.at, node.to_string()),
        };
        let before = &self.source.text[..offset];
        let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
        let column = before.rfind('\n').map_or(offset, |at| offset - at - 1);
        if self.run.hides_source {
            "…".clone_into(&mut shown);
        }
        format!(
            "template: {}:{line}:{column}: executing {} at <{shown}>: {message}",
            self.source.name,
            quote(self.tree),
        )
    }

    fn fail<T>(&self, message: impl AsRef<str>) -> Ran<T> {
        let message = self.shown(message.as_ref());
        Err(ExecuteError::Failed(self.located(message)))
    }

    /// The reason of a failure, unless it could quote secret data.
    fn shown<'m>(&self, message: &'m str) -> &'m str {
        if self.run.noticed.sensitive {
            "the reason is not shown, since the template read secret data"
        } else {
            message
        }
    }

    /// A failure of a limit, or of the engine itself.
    fn failed(&self, failure: &Failure) -> ExecuteError {
        let message = failure.message();
        let message = match failure {
            Failure::Limit(_) => self.located(&message),
            _ => self.located(self.shown(&message)),
        };
        match failure {
            Failure::Message(_) => ExecuteError::Failed(message),
            Failure::Limit(_) => ExecuteError::Limit(message),
            Failure::Lookup(cause) => ExecuteError::Lookup {
                message,
                cause: cause.clone(),
            },
        }
    }

    fn spend(&mut self, steps: u64) -> Ran<()> {
        self.run
            .spend(steps)
            .map_err(|failure| self.failed(&failure))
    }

    fn enter(&mut self) -> Ran<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let failure = exceeded(&format!("{DEEPEST} nested blocks"));
            return Err(self.failed(&failure));
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Ran<()> {
        let length = self.out.len() + text.len();
        self.run
            .fits(length)
            .map_err(|failure| self.failed(&failure))?;
        self.out.push_str(text);
        Ok(())
    }

    fn block(&mut self, dot: &Found, block: &'t Block) -> Ran<Flow> {
        self.enter()?;
        for node in &block.nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                self.depth -= 1;
                return Ok(flow);
            }
        }
        self.depth -= 1;
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Found, node: &'t Node) -> Ran<Flow> {
        self.spend(1)?;
        match node {
            Node::Text(text) => {
                self.write(text)?;
                Ok(Flow::Next)
            }
            Node::Action(pipeline) => {
                let value = self.pipeline(dot, pipeline)?;
                if pipeline.variables.is_empty() {
                    self.print(&value)?;
                }
                Ok(Flow::Next)
            }
            Node::If(branch) => self.if_or_with(dot, branch, false),
            Node::With(branch) => self.if_or_with(dot, branch, true),
            Node::Range(branch) => self.range(dot, branch),
            Node::Template(invocation) => {
                self.invoke(dot, invocation)?;
                Ok(Flow::Next)
            }
            Node::Break => Ok(Flow::Break),
            Node::Continue => Ok(Flow::Continue),
        }
    }

    fn print(&mut self, value: &Value) -> Ran<()> {
        if let Value::Text(text) = value {
            return self.write(text);
        }
        let text = print::top(value).map_err(|failure| self.failed(&failure))?;
        self.write(&text)
    }

    fn if_or_with(&mut self, dot: &Found, branch: &'t Branch, sets_dot: bool) -> Ran<Flow> {
        let mark = self.variables.len();
        let mut branch = branch;
        let flow = loop {
            let value = self.pipeline(dot, &branch.pipeline)?;
            if value.is_true() {
                let inner = if sets_dot { &Found::plain(value) } else { dot };
                break self.block(inner, &branch.body)?;
            }
            // A chain of `else if` is walked here, not by going deeper.
            match branch
                .otherwise
                .as_ref()
                .map(|block| (block, block.nodes.as_slice()))
            {
                None => break Flow::Next,
                Some((_, [Node::If(next)])) if !sets_dot => branch = next,
                Some((_, [Node::With(next)])) if sets_dot => branch = next,
                Some((block, _)) => break self.block(dot, block)?,
            }
            self.spend(1)?;
        };
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn range(&mut self, dot: &Found, branch: &'t Branch) -> Ran<Flow> {
        let outer = self.variables.len();
        let value = self.pipeline(dot, &branch.pipeline)?;
        let flow = self.turns(dot, branch, value)?;
        self.variables.truncate(outer);
        Ok(flow)
    }

    fn turns(&mut self, dot: &Found, branch: &'t Branch, value: Value) -> Ran<Flow> {
        match &value {
            Value::Int(..) if branch.pipeline.variables.len() > 1 => {
                let shown = print::top(&value).map_err(|failure| self.failed(&failure))?;
                return self.fail(format!(
                    "can't use {shown} to iterate over more than one variable"
                ));
            }
            Value::Int(end, kind) if *end > 0 => {
                for i in 0..*end {
                    let element = Found::plain(Value::Int(i, *kind));
                    if self.turn(branch, Value::Nil, element)? == Flow::Break {
                        break;
                    }
                }
                return Ok(Flow::Next);
            }
            Value::List(list) if !list.items.is_empty() => {
                let boxed = list.elements == Elements::Any;
                for (i, item) in list.items.iter().enumerate() {
                    let element = Found {
                        value: item.clone(),
                        boxed,
                    };
                    if self.turn(branch, Value::int(i as i64), element)? == Flow::Break {
                        break;
                    }
                }
                return Ok(Flow::Next);
            }
            Value::Map(map) if !map.is_empty() => {
                let boxed = !map.texts;
                for (key, value) in map.entries() {
                    let element = Found { value, boxed };
                    if self.turn(branch, Value::Text(key), element)? == Flow::Break {
                        break;
                    }
                }
                return Ok(Flow::Next);
            }
            Value::Int(..) | Value::List(_) | Value::Map(_) | Value::Nil => {}
            _ => {
                let shown = print::top(&value).map_err(|failure| self.failed(&failure))?;
                return self.fail(format!("range can't iterate over {shown}"));
            }
        }
        match &branch.otherwise {
            Some(block) => self.block(dot, block),
            None => Ok(Flow::Next),
        }
    }

    fn turn(&mut self, branch: &'t Branch, index: Value, element: Found) -> Ran<Flow> {
        self.spend(1)?;
        let pipeline = &branch.pipeline;
        let mark = self.variables.len();
        let index = Found::plain(index);
        match (pipeline.assigns, pipeline.variables.as_slice()) {
            (_, []) => {}
            (true, [only]) => self.assign(only, element.clone())?,
            (true, [first, second, ..]) => {
                self.assign(first, index)?;
                self.assign(second, element.clone())?;
            }
            // The pipeline pushed its variables: they are the last ones.
            (false, [_]) => self.variables[mark - 1].1 = element.clone(),
            (false, [_, _, ..]) => {
                self.variables[mark - 1].1 = element.clone();
                self.variables[mark - 2].1 = index;
            }
        }
        let flow = self.block(&element, &branch.body)?;
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn invoke(&mut self, dot: &Found, invocation: &'t Invocation) -> Ran<()> {
        self.at = Some(At::Invocation(invocation));
        let source = self.source;
        let Some((name, root)) = source.trees.get_key_value(&*invocation.name) else {
            return self.fail(format!("template {} not defined", quote(&invocation.name)));
        };
        if self.n_calls >= self.run.limits.calls {
            let failure = exceeded(&format!("{} nested calls", self.run.limits.calls));
            return Err(self.failed(&failure));
        }
        let value = match &invocation.pipeline {
            Some(pipeline) => self.pipeline(dot, pipeline)?,
            None => Value::Nil,
        };
        let dot = Found::plain(value);
        let outer = (self.tree, self.base);
        self.base = self.variables.len();
        self.tree = name;
        self.n_calls += 1;
        self.variables.push(("$", dot.clone()));
        self.block(&dot, root)?;
        self.n_calls -= 1;
        self.variables.truncate(self.base);
        (self.tree, self.base) = outer;
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Found) -> Ran<()> {
        let scope = &mut self.variables[self.base..];
        match scope.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn variable(&self, name: &str) -> Ran<Found> {
        let scope = &self.variables[self.base..];
        match scope.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    /// The value of a pipeline is never boxed. The variables it declares stay until the block ends.
    fn pipeline(&mut self, dot: &Found, pipeline: &'t Pipeline) -> Ran<Value> {
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
    #[expect(clippy::too_many_arguments, reason = "what a call is made of")]
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

    /// What an operand is, where nothing is known about what is wanted.
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
