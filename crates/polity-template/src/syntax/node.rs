//! The tree of a parsed template. Every node has its position, and prints in the format of errors.

use std::fmt;

use super::number::Number;
use super::unquote::quote;
use crate::function::Function;

/// Nodes one after the other.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) nodes: Vec<Node>,
}

/// Text, or an action.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(Invocation),
    Break,
    Continue,
}

/// `if`, `with` and `range`: a pipeline, and the blocks with and without a value.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipeline: Pipeline,
    pub(crate) body: Block,
    pub(crate) otherwise: Option<Block>,
}

/// `{{template "name" pipeline}}`.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) at: usize,
    pub(crate) name: Box<str>,
    pub(crate) pipeline: Option<Pipeline>,
}

/// Commands whose value is the last argument of the next, and the variables that get the last value.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: usize,
    pub(crate) assigns: bool,
    pub(crate) variables: Vec<Box<str>>,
    pub(crate) commands: Vec<Command>,
}

/// A function or value with its arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) at: usize,
    /// At least one: the parser refuses an empty command.
    pub(crate) operands: Vec<Operand>,
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) at: usize,
    pub(crate) term: Term,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text {
        quoted: Box<str>,
        text: Box<str>,
    },
    Field(Vec<Box<str>>),
    /// The name and the fields that follow it.
    Variable(Vec<Box<str>>),
    Function(Box<str>, &'static Function),
    Pipeline(Box<Pipeline>),
    Chain(Box<Operand>, Vec<Box<str>>),
}

impl Block {
    /// Nothing but space: such a definition may be replaced by another.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Dot => f.write_str("."),
            Term::Nil => f.write_str("nil"),
            Term::Bool(truth) => write!(f, "{truth}"),
            Term::Number(number) => f.write_str(&number.text),
            Term::Text { quoted, .. } => f.write_str(quoted),
            Term::Field(names) => names.iter().try_for_each(|name| write!(f, ".{name}")),
            Term::Variable(names) => f.write_str(&names.join(".")),
            Term::Function(name, _) => f.write_str(name),
            Term::Pipeline(pipeline) => write!(f, "{pipeline}"),
            Term::Chain(inner, names) => {
                write_parenthesized(f, inner)?;
                names.iter().try_for_each(|name| write!(f, ".{name}"))
            }
        }
    }
}

fn write_parenthesized(f: &mut fmt::Formatter<'_>, operand: &Operand) -> fmt::Result {
    match operand.term {
        Term::Pipeline(_) => write!(f, "({operand})"),
        _ => write!(f, "{operand}"),
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, operand) in self.operands.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            write_parenthesized(f, operand)?;
        }
        Ok(())
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (i, command) in self.commands.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", quote(&self.name))?;
        if let Some(pipeline) = &self.pipeline {
            write!(f, " {pipeline}")?;
        }
        f.write_str("}}")
    }
}
