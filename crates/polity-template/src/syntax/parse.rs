//! Reads tokens into trees. A template is one tree for its text and one for each definition in it.

use std::collections::{BTreeMap, HashMap};

use super::lex::{Delimiters, Kind, Lexer, Token};
use super::node::{Block, Branch, Command, Invocation, Node, Operand, Pipeline, Term};
use super::number::Number;
use super::unquote::{quote, unquote};
use crate::function::Function;

/// Parentheses and blocks inside of each other; a branch of `else if` counts as one.
const DEEPEST: usize = 300;

/// The trees by name.
pub(crate) type Trees = BTreeMap<Box<str>, Block>;

/// Which functions a template may name.
pub(crate) type Functions<'f> = &'f dyn Fn(&str) -> Option<&'static Function>;

/// Parses a template of this name. The error is a full message.
pub(crate) fn parse(
    name: &str,
    text: &str,
    delimiters: Delimiters,
    functions: Functions<'_>,
) -> Result<Trees, String> {
    let mut parser = Parser {
        name,
        lexer: Lexer::new(text, delimiters),
        functions,
        tokens: [eof(), eof(), eof()],
        n_peeked: 0,
        trees: Trees::new(),
        scope: Scope::default(),
        depth: 0,
    };
    let root = parser.root()?;
    parser.add(name, root)?;
    Ok(parser.trees)
}

/// The state that a definition does not share with the text around it.
#[derive(Default)]
struct Scope {
    variables: Variables,
    range_depth: usize,
    action_line: usize,
}

/// The variables that are visible, in the order of their declaration.
#[derive(Default)]
struct Variables {
    names: Vec<Box<str>>,
    /// How often each name is declared.
    counts: HashMap<Box<str>, usize>,
}

impl Variables {
    fn len(&self) -> usize {
        self.names.len()
    }

    fn push(&mut self, name: Box<str>) {
        *self.counts.entry(name.clone()).or_default() += 1;
        self.names.push(name);
    }

    fn truncate(&mut self, length: usize) {
        for name in self.names.drain(length..) {
            if let Some(count) = self.counts.get_mut(&name) {
                *count -= 1;
            }
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.counts.get(name).is_some_and(|count| *count > 0)
    }
}

struct Parser<'p> {
    name: &'p str,
    lexer: Lexer<'p>,
    functions: Functions<'p>,
    /// Up to three tokens that were read and put back; the first is the last one read.
    tokens: [Token; 3],
    n_peeked: usize,
    trees: Trees,
    scope: Scope,
    depth: usize,
}

type Parsed<T> = Result<T, String>;

/// The token that ends a list of nodes.
enum Ending {
    End,
    Else,
}

impl Ending {
    fn shown(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else => "{{else}}",
        }
    }
}

enum Item {
    Node(Node),
    Ending(Ending),
}

fn eof() -> Token {
    Token {
        kind: Kind::Eof,
        at: 0,
        text: "EOF".to_owned(),
        line: 1,
    }
}

impl Parser<'_> {
    fn next(&mut self) -> Token {
        if self.n_peeked > 0 {
            self.n_peeked -= 1;
        } else {
            self.tokens[0] = self.lexer.next_token();
        }
        self.tokens[self.n_peeked].clone()
    }

    fn backup(&mut self) {
        self.n_peeked += 1;
    }

    fn backup2(&mut self, first: Token) {
        self.tokens[1] = first;
        self.n_peeked = 2;
    }

    fn backup3(&mut self, first: Token, second: Token) {
        self.tokens[1] = second;
        self.tokens[2] = first;
        self.n_peeked = 3;
    }

    fn peek(&mut self) -> &Token {
        if self.n_peeked == 0 {
            self.n_peeked = 1;
            self.tokens[0] = self.lexer.next_token();
        }
        &self.tokens[self.n_peeked - 1]
    }

    fn next_word(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_word(&mut self) -> Token {
        let token = self.next_word();
        self.backup();
        token
    }

    fn fail<T>(&self, message: impl AsRef<str>) -> Parsed<T> {
        let (name, line) = (self.name, self.tokens[0].line);
        Err(format!("template: {name}:{line}: {}", message.as_ref()))
    }

    fn unexpected<T>(&self, token: &Token, context: &str) -> Parsed<T> {
        if token.kind != Kind::Error {
            return self.fail(format!("unexpected {} in {context}", token.shown()));
        }
        let started = self.scope.action_line;
        let extra = if started == 0 || started == token.line {
            String::new()
        } else if token.text.ends_with(" action") {
            format!(" started at {}:{started}", self.name)
        } else {
            format!(" in action started at {}:{started}", self.name)
        };
        self.fail(format!("{}{extra}", token.text))
    }

    fn expect(&mut self, kinds: &[Kind], context: &str) -> Parsed<Token> {
        let token = self.next_word();
        if kinds.contains(&token.kind) {
            Ok(token)
        } else {
            self.unexpected(&token, context)
        }
    }

    fn add(&mut self, name: &str, tree: Block) -> Parsed<()> {
        match self.trees.get(name) {
            Some(there) if !there.is_empty() => {
                if tree.is_empty() {
                    return Ok(());
                }
                self.fail(format!(
                    "template: multiple definition of template {}",
                    quote(name)
                ))
            }
            _ => {
                self.trees.insert(name.into(), tree);
                Ok(())
            }
        }
    }

    fn root(&mut self) -> Parsed<Block> {
        let mut block = Block::default();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let delimiter = self.next();
                if self.next_word().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.backup2(delimiter);
            }
            match self.text_or_action()? {
                Item::Node(node) => block.nodes.push(node),
                Item::Ending(ending) => return self.fail(format!("unexpected {}", ending.shown())),
            }
        }
        Ok(block)
    }

    /// Runs `parse` in a new scope.
    fn scoped<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outer = std::mem::take(&mut self.scope);
        let parsed = parse(self);
        self.scope = outer;
        parsed
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        self.scoped(|parser| {
            let token = parser.expect(&[Kind::QuotedText, Kind::RawText], CONTEXT)?;
            let name = parser.unquoted(&token)?;
            parser.expect(&[Kind::RightDelim], CONTEXT)?;
            let (body, ending) = parser.block()?;
            if !matches!(ending, Ending::End) {
                return parser.fail(format!("unexpected {} in {CONTEXT}", ending.shown()));
            }
            parser.add(&name, body)
        })
    }

    fn unquoted(&self, token: &Token) -> Parsed<String> {
        match unquote(&token.text) {
            Some(text) => Ok(text),
            None => self.fail("invalid syntax"),
        }
    }

    fn block(&mut self) -> Parsed<(Block, Ending)> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.too_deep();
        }
        let mut block = Block::default();
        while self.peek_word().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => block.nodes.push(node),
                Item::Ending(ending) => {
                    self.depth -= 1;
                    return Ok((block, ending));
                }
            }
        }
        self.fail("unexpected EOF")
    }

    fn too_deep<T>(&self) -> Parsed<T> {
        self.fail(format!(
            "template exceeded its limit of {DEEPEST} nested blocks"
        ))
    }

    fn text_or_action(&mut self) -> Parsed<Item> {
        let token = self.next_word();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into()))),
            Kind::LeftDelim => {
                self.scope.action_line = token.line;
                let item = self.action();
                if item.is_ok() {
                    self.scope.action_line = 0;
                }
                item
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.next_word();
        let node = match token.kind {
            Kind::Block => self.block_control()?,
            Kind::Break => {
                self.leave_range("{{break}}")?;
                Node::Break
            }
            Kind::Continue => {
                self.leave_range("{{continue}}")?;
                Node::Continue
            }
            Kind::Else => return self.else_control(),
            Kind::End => {
                self.expect(&[Kind::RightDelim], "end")?;
                return Ok(Item::Ending(Ending::End));
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::With => Node::With(self.control("with")?),
            Kind::Template => self.template_control()?,
            _ => {
                self.backup();
                Node::Action(self.pipeline("command", Kind::RightDelim)?)
            }
        };
        Ok(Item::Node(node))
    }

    fn leave_range(&mut self, action: &str) -> Parsed<()> {
        let token = self.next_word();
        if token.kind != Kind::RightDelim {
            return self.unexpected(&token, action);
        }
        if self.scope.range_depth == 0 {
            return self.fail(format!("{action} outside {{{{range}}}}"));
        }
        Ok(())
    }

    fn else_control(&mut self) -> Parsed<Item> {
        // `else if` leaves its `if` to the caller that parses the branch.
        if !matches!(self.peek_word().kind, Kind::If | Kind::With) {
            self.expect(&[Kind::RightDelim], "else")?;
        }
        Ok(Item::Ending(Ending::Else))
    }

    fn control(&mut self, context: &str) -> Parsed<Branch> {
        let n_variables = self.scope.variables.len();
        let pipeline = self.pipeline(context, Kind::RightDelim)?;
        let in_range = usize::from(context == "range");
        self.scope.range_depth += in_range;
        let (body, ending) = self.block()?;
        self.scope.range_depth -= in_range;
        let otherwise = match ending {
            Ending::End => None,
            Ending::Else => Some(self.otherwise(context)?),
        };
        self.scope.variables.truncate(n_variables);
        Ok(Branch {
            pipeline,
            body,
            otherwise,
        })
    }

    fn otherwise(&mut self, context: &str) -> Parsed<Block> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.too_deep();
        }
        let chained = match (context, self.peek().kind) {
            ("if", Kind::If) => {
                self.next();
                Some(Node::If(self.control("if")?))
            }
            ("with", Kind::With) => {
                self.next();
                Some(Node::With(self.control("with")?))
            }
            _ => None,
        };
        let block = if let Some(node) = chained {
            Block { nodes: vec![node] }
        } else {
            let (block, ending) = self.block()?;
            if !matches!(ending, Ending::End) {
                return self.fail(format!("expected end; found {}", ending.shown()));
            }
            block
        };
        self.depth -= 1;
        Ok(block)
    }

    fn block_control(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_word();
        let name = self.template_name(&token, CONTEXT)?;
        let pipeline = self.pipeline(CONTEXT, Kind::RightDelim)?;
        self.scoped(|parser| {
            let (body, ending) = parser.block()?;
            if !matches!(ending, Ending::End) {
                return parser.fail(format!("unexpected {} in {CONTEXT}", ending.shown()));
            }
            parser.add(&name, body)
        })?;
        Ok(Node::Template(Invocation {
            at: token.at,
            name: name.into(),
            pipeline: Some(pipeline),
        }))
    }

    fn template_control(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_word();
        let name = self.template_name(&token, CONTEXT)?;
        let mut pipeline = None;
        if self.next_word().kind != Kind::RightDelim {
            self.backup();
            pipeline = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Node::Template(Invocation {
            at: token.at,
            name: name.into(),
            pipeline,
        }))
    }

    fn template_name(&mut self, token: &Token, context: &str) -> Parsed<String> {
        match token.kind {
            Kind::QuotedText | Kind::RawText => self.unquoted(token),
            _ => self.unexpected(token, context),
        }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipeline> {
        let mut pipeline = Pipeline {
            at: self.peek_word().at,
            assigns: false,
            variables: Vec::new(),
            commands: Vec::new(),
        };
        self.declarations(&mut pipeline, context)?;
        loop {
            let token = self.next_word();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawText
                | Kind::QuotedText
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    pipeline.commands.push(command);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        self.check_pipeline(&pipeline, context)?;
        Ok(pipeline)
    }

    fn declarations(&mut self, pipeline: &mut Pipeline, context: &str) -> Parsed<()> {
        loop {
            let variable = self.peek_word();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next();
            // In `$x foo` only `foo` shows that `$x` is not a declaration, so up to three tokens are pushed back.
            let after = self.peek().clone();
            let word = self.peek_word();
            match word.kind {
                Kind::Assign | Kind::Declare => {
                    pipeline.assigns = word.kind == Kind::Assign;
                    self.next_word();
                    self.declare(pipeline, &variable);
                    return Ok(());
                }
                Kind::Char if word.text == "," => {
                    self.next_word();
                    self.declare(pipeline, &variable);
                    if context == "range" && pipeline.variables.len() < 2 {
                        let next = self.peek_word().kind;
                        if matches!(next, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                            continue;
                        }
                        return self.fail("range can only initialize variables");
                    }
                    return self.fail(format!("too many declarations in {context}"));
                }
                _ if after.kind == Kind::Space => self.backup3(variable, after),
                _ => self.backup2(variable),
            }
            return Ok(());
        }
    }

    fn declare(&mut self, pipeline: &mut Pipeline, variable: &Token) {
        let name: Box<str> = variable.text.as_str().into();
        pipeline.variables.push(name.clone());
        self.scope.variables.push(name);
    }

    fn check_pipeline(&self, pipeline: &Pipeline, context: &str) -> Parsed<()> {
        if pipeline.commands.is_empty() {
            return self.fail(format!("missing value for {context}"));
        }
        for (i, command) in pipeline.commands.iter().enumerate().skip(1) {
            let first = command.operands.first().map(|operand| &operand.term);
            if matches!(
                first,
                Some(Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text { .. })
            ) {
                return self.fail(format!(
                    "non executable command in pipeline stage {}",
                    i + 1
                ));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut command = Command {
            at: self.peek_word().at,
            operands: Vec::new(),
        };
        loop {
            self.peek_word();
            if let Some(operand) = self.operand()? {
                command.operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(&token, "operand"),
            }
            break;
        }
        if command.operands.is_empty() {
            return self.fail("empty command");
        }
        Ok(command)
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(operand) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != Kind::Field {
            return Ok(Some(operand));
        }
        let at = self.peek().at;
        let mut names: Vec<Box<str>> = Vec::new();
        while self.peek().kind == Kind::Field {
            names.push(self.next().text[1..].into());
        }
        let term = match operand.term {
            Term::Field(mut first) => {
                first.append(&mut names);
                Term::Field(first)
            }
            Term::Variable(mut first) => {
                first.append(&mut names);
                Term::Variable(first)
            }
            Term::Bool(_) | Term::Text { .. } | Term::Number(_) | Term::Nil | Term::Dot => {
                return self.fail(format!(
                    "unexpected . after term {}",
                    quote(&operand.to_string())
                ));
            }
            _ => Term::Chain(Box::new(operand), names),
        };
        Ok(Some(Operand { at, term }))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let token = self.next_word();
        let term = match token.kind {
            Kind::Identifier => match (self.functions)(&token.text) {
                Some(function) => Term::Function(token.text.into(), function),
                None => {
                    return self.fail(format!("function {} not defined", quote(&token.text)));
                }
            },
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable => {
                let known = token.text == "$" || self.scope.variables.contains(&token.text);
                if !known {
                    return self.fail(format!("undefined variable {}", quote(&token.text)));
                }
                Term::Variable(vec![token.text.into()])
            }
            Kind::Field => Term::Field(vec![token.text[1..].into()]),
            Kind::Bool => Term::Bool(token.text == "true"),
            Kind::Complex => return self.fail("complex numbers are not supported"),
            Kind::CharConstant | Kind::Number => {
                let number = if token.kind == Kind::Number {
                    Number::parse(&token.text)
                } else {
                    Number::of_char(&token.text)
                };
                match number {
                    Ok(number) => Term::Number(number),
                    Err(message) => return self.fail(message),
                }
            }
            Kind::LeftParen => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return self.too_deep();
                }
                let pipeline = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.depth -= 1;
                Term::Pipeline(Box::new(pipeline))
            }
            Kind::QuotedText | Kind::RawText => Term::Text {
                text: self.unquoted(&token)?.into(),
                quoted: token.text.into(),
            },
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        let at = match &term {
            // A parenthesized pipeline starts at its first word.
            Term::Pipeline(pipeline) => pipeline.at,
            _ => token.at,
        };
        Ok(Some(Operand { at, term }))
    }
}
