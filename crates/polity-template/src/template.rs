//! A template, read once and executed as often as wanted.

use crate::exec::{self, ExecuteError, Source};
use crate::functions;
use crate::host::Host;
use crate::rules::Rules;
use crate::run::{Limits, Noticed, Run};
use crate::syntax::lex::Delimiters;
use crate::syntax::node::{Block, Node, Operand, Pipeline, Term};
use crate::syntax::parse::{self, Trees};
use crate::value::Value;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    trees: Trees,
}

/// The text is not a valid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

/// The result of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub text: String,
    pub noticed: Noticed,
}

impl Template {
    /// Reads a template with the functions and delimiters that these rules give it.
    pub fn parse(name: &str, text: &str, rules: &Rules) -> Result<Self, ParseError> {
        Self::parse_with(name, text, rules.side.delimiters(), rules)
    }

    /// As [`Template::parse`], with other delimiters.
    pub fn parse_with(
        name: &str,
        text: &str,
        delimiters: Delimiters,
        rules: &Rules,
    ) -> Result<Self, ParseError> {
        let find = |function: &str| functions::find(rules, function);
        let trees = parse::parse(name, text, delimiters, &find).map_err(ParseError)?;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            trees,
        })
    }

    /// Executes it with `data` as its dot.
    pub fn execute(
        &self,
        data: Value,
        host: &dyn Host,
        rules: &Rules,
        limits: Limits,
    ) -> Result<Execution, ExecuteError> {
        let mut run = Run::new(host, rules, limits);
        let text = self.execute_in(&mut run, data)?;
        Ok(Execution {
            text,
            noticed: run.noticed,
        })
    }

    pub(crate) fn execute_in(
        &self,
        run: &mut Run<'_>,
        data: Value,
    ) -> Result<String, ExecuteError> {
        let source = Source {
            name: &self.name,
            text: &self.text,
            trees: &self.trees,
        };
        exec::execute(&source, run, data)
    }

    /// The names of all functions that are called anywhere in it, in the order of their first use.
    pub fn functions_used(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for tree in self.trees.values() {
            in_block(tree, &mut |operand| {
                if let Term::Function(name, _) = &operand.term {
                    let name: &str = name;
                    if !found.contains(&name) {
                        found.push(name);
                    }
                }
            });
        }
        found
    }

    /// Would its result hold encrypted values?
    pub fn uses_encryption(&self) -> bool {
        self.functions_used()
            .iter()
            .any(|name| matches!(*name, "fromSecret" | "copySecretData" | "protect"))
    }
}

fn in_block<'t>(block: &'t Block, visit: &mut dyn FnMut(&'t Operand)) {
    for node in &block.nodes {
        match node {
            Node::Text(_) | Node::Break | Node::Continue => {}
            Node::Action(pipeline) => in_pipeline(pipeline, visit),
            Node::If(branch) | Node::With(branch) | Node::Range(branch) => {
                in_pipeline(&branch.pipeline, visit);
                in_block(&branch.body, visit);
                if let Some(otherwise) = &branch.otherwise {
                    in_block(otherwise, visit);
                }
            }
            Node::Template(invocation) => {
                if let Some(pipeline) = &invocation.pipeline {
                    in_pipeline(pipeline, visit);
                }
            }
        }
    }
}

fn in_pipeline<'t>(pipeline: &'t Pipeline, visit: &mut dyn FnMut(&'t Operand)) {
    for operand in pipeline
        .commands
        .iter()
        .flat_map(|command| &command.operands)
    {
        in_operand(operand, visit);
    }
}

fn in_operand<'t>(operand: &'t Operand, visit: &mut dyn FnMut(&'t Operand)) {
    visit(operand);
    match &operand.term {
        Term::Pipeline(pipeline) => in_pipeline(pipeline, visit),
        Term::Chain(inner, _) => in_operand(inner, visit),
        _ => {}
    }
}
