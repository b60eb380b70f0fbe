//! Executes a tree and writes its output, within limits.

mod evaluate;

use crate::function::Failure;
use crate::host::LookupError;
use crate::print;
use crate::run::{Run, exceeded};
use crate::syntax::node::{Block, Branch, Command, Invocation, Node, Operand, Pipeline};
use crate::syntax::parse::Trees;
use crate::syntax::unquote::quote;
use crate::value::{Elements, Value};

/// How deep parentheses, blocks and calls may lie in each other while running.
const DEEPEST: usize = 400;

/// A value with its declared type: `boxed` means an interface, so that errors name it, and a nil in it is a nil
/// interface rather than no value.
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
    /// The template is invalid, or an object that it needs does not exist.
    #[error("{0}")]
    Failed(String),
    /// It exceeded a limit.
    #[error("{0}")]
    Limit(String),
    /// A lookup failed. The cause shows whether a retry may succeed.
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

/// The input of an execution: all trees of a template, and their origin.
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
}
