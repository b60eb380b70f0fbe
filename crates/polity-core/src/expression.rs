//! The expression of a policy group: which combinations of members let a request pass.
//!
//! Members are called, `signed() || (reviewed() && !latest())`; there are `&&`, `||`, `!`, `==`, `!=`,
//! parentheses, `true` and `false`, and nothing else. `!` binds strongest, then `==` and `!=`, then `&&`,
//! then `||`; evaluation goes from left to right and stops where the outcome is clear.
//!
//! ```
//! use polity_core::GroupExpression;
//!
//! let expression: GroupExpression = "signed() || (reviewed() && !latest())".parse()?;
//! let pass = expression.evaluate(&mut |member: &str| Ok::<_, ()>(member == "reviewed"));
//! assert_eq!(pass, Ok(true));
//! # Ok::<(), polity_core::ExpressionError>(())
//! ```

use std::{collections::BTreeSet, fmt, str::FromStr};

/// Deeper nesting than anyone writes; it bounds the recursion of parsing and evaluation.
const MAX_DEPTH: usize = 64;

/// A parsed group expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupExpression {
    root: Node,
    members: BTreeSet<String>,
}

/// Why an expression cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at character {at}")]
pub struct ExpressionError {
    /// Where, counted in characters from 1.
    pub at: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Something else was expected here; the text says what was found.
    Expected {
        /// What could have stood here.
        wanted: &'static str,
        /// What stands here.
        found: String,
    },
    /// Parentheses or negations nested too deeply.
    TooDeep,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { wanted, found } => write!(f, "expected {wanted}, found {found}"),
            Self::TooDeep => write!(f, "nested more than {MAX_DEPTH} levels deep"),
        }
    }
}

/// Chains are lists, not trees, so that depth comes from parentheses alone.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Constant(bool),
    Member(String),
    Not(Box<Node>),
    /// The first operand, then `==` (true) or `!=` with the next, from left to right.
    Compare(Box<Node>, Vec<(bool, Node)>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl GroupExpression {
    /// The members it calls.
    pub fn members(&self) -> &BTreeSet<String> {
        &self.members
    }

    /// What the expression comes to, with `run` telling what a member says. A member that is called
    /// twice is asked twice, unless the outcome is clear before.
    pub fn evaluate<E>(&self, run: &mut dyn FnMut(&str) -> Result<bool, E>) -> Result<bool, E> {
        self.root.evaluate(run)
    }
}

impl Node {
    fn evaluate<E>(&self, run: &mut dyn FnMut(&str) -> Result<bool, E>) -> Result<bool, E> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Member(name) => run(name),
            Self::Not(node) => Ok(!node.evaluate(run)?),
            Self::Compare(first, rest) => {
                let mut value = first.evaluate(run)?;
                for (equal, node) in rest {
                    value = (value == node.evaluate(run)?) == *equal;
                }
                Ok(value)
            }
            Self::All(nodes) => {
                for node in nodes {
                    if !node.evaluate(run)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(nodes) => {
                for node in nodes {
                    if node.evaluate(run)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

impl FromStr for GroupExpression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
            members: BTreeSet::new(),
        };
        let root = parser.any()?;
        match parser.peek() {
            None => Ok(Self {
                root,
                members: parser.members,
            }),
            Some(_) => Err(parser.expected("an operator or the end")),
        }
    }
}

/// Recursive descent, a method for each level of precedence.
struct Parser<'a> {
    text: &'a str,
    /// In bytes, always on a character boundary.
    at: usize,
    depth: usize,
    members: BTreeSet<String>,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Node, ExpressionError> {
        let mut nodes = vec![self.all()?];
        while self.take("||") {
            nodes.push(self.all()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn all(&mut self) -> Result<Node, ExpressionError> {
        let mut nodes = vec![self.compare()?];
        while self.take("&&") {
            nodes.push(self.compare()?);
        }
        Ok(one_or(nodes, Node::All))
    }

    fn compare(&mut self) -> Result<Node, ExpressionError> {
        let first = self.not()?;
        let mut rest = Vec::new();
        loop {
            if self.take("==") {
                rest.push((true, self.not()?));
            } else if self.take("!=") {
                rest.push((false, self.not()?));
            } else if rest.is_empty() {
                return Ok(first);
            } else {
                return Ok(Node::Compare(Box::new(first), rest));
            }
        }
    }

    fn not(&mut self) -> Result<Node, ExpressionError> {
        if self.take("!") {
            return self.deeper(|parser| Ok(Node::Not(Box::new(parser.not()?))));
        }
        if self.take("(") {
            let node = self.deeper(Self::any)?;
            return if self.take(")") {
                Ok(node)
            } else {
                Err(self.expected("an operator or `)`"))
            };
        }
        self.word()
    }

    fn word(&mut self) -> Result<Node, ExpressionError> {
        let name = self
            .name()
            .ok_or_else(|| self.expected("a member, `!` or `(`"))?;
        match name {
            "true" => return Ok(Node::Constant(true)),
            "false" => return Ok(Node::Constant(false)),
            _ => {}
        }
        if !self.take("(") {
            return Err(self.expected("`()` after the member's name"));
        }
        if !self.take(")") {
            return Err(self.expected("`)`: members take no arguments"));
        }
        self.members.insert(name.to_owned());
        Ok(Node::Member(name.to_owned()))
    }

    fn deeper(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Node, ExpressionError>,
    ) -> Result<Node, ExpressionError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(Problem::TooDeep));
        }
        self.depth += 1;
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        // `!` is no negation where it begins `!=`.
        let found = rest.starts_with(token) && !(token == "!" && rest.starts_with("!="));
        if found {
            self.at += token.len();
        }
        found
    }

    fn name(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let len = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        let name = &rest[..len];
        if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return None;
        }
        self.at += len;
        Some(name)
    }

    fn expected(&mut self, wanted: &'static str) -> ExpressionError {
        let found = match self.peek() {
            Some(letter) => format!("`{letter}`"),
            None => "the end".to_owned(),
        };
        self.error(Problem::Expected { wanted, found })
    }

    fn error(&self, problem: Problem) -> ExpressionError {
        ExpressionError {
            at: self.text[..self.at].chars().count() + 1,
            problem,
        }
    }
}

fn one_or(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            many(nodes)
        }
        None => many(nodes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Evaluates with the members whose names are in `yes` saying yes; returns who was asked, too.
    fn run(text: &str, yes: &str) -> (bool, String) {
        let expression: GroupExpression = text.parse().expect(text);
        let mut asked = Vec::new();
        let outcome = expression.evaluate(&mut |member: &str| {
            asked.push(member.to_owned());
            Ok::<_, ()>(yes.split(' ').any(|name| name == member))
        });
        (outcome.unwrap(), asked.join(" "))
    }

    #[test]
    fn precedence_and_short_circuit() {
        for (text, yes, outcome, asked) in [
            ("a()", "a", true, "a"),
            ("a() || b()", "a", true, "a"),
            ("a() && b()", "b", false, "a"),
            ("a() || b() && c()", "b c", true, "a b c"),
            ("(a() || b()) && c()", "a", false, "a c"),
            ("!a() == b()", "b", true, "a b"),
            ("!(a() == b())", "b", true, "a b"),
            ("a() == b() && c()", "c", true, "a b c"),
            ("a() != b() == false", "", true, "a b"),
            ("a() != b()", "a", true, "a b"),
            ("true || a()", "", true, ""),
            ("false && a()", "", false, ""),
            ("!!a()", "a", true, "a"),
            ("a() || a()", "", false, "a a"),
            (" a ( ) \n&&\tb()", "a b", true, "a b"),
            ("a()&&!b()!=c()", "a c", false, "a b c"),
            ("true_() && falsey()", "true_ falsey", true, "true_ falsey"),
        ] {
            assert_eq!(run(text, yes), (outcome, asked.to_owned()), "{text}");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, message) in [
            (
                "",
                "expected a member, `!` or `(`, found the end at character 1",
            ),
            (
                "a",
                "expected `()` after the member's name, found the end at character 2",
            ),
            (
                "a(1)",
                "expected `)`: members take no arguments, found `1` at character 3",
            ),
            (
                "a() b()",
                "expected an operator or the end, found `b` at character 5",
            ),
            (
                "(a()",
                "expected an operator or `)`, found the end at character 5",
            ),
            (
                "a() & b()",
                "expected an operator or the end, found `&` at character 5",
            ),
            (
                "a() && ",
                "expected a member, `!` or `(`, found the end at character 8",
            ),
            (
                "é()",
                "expected a member, `!` or `(`, found `é` at character 1",
            ),
            (
                "!= a()",
                "expected a member, `!` or `(`, found `!` at character 1",
            ),
            (
                "1a()",
                "expected a member, `!` or `(`, found `1` at character 1",
            ),
        ] {
            let error = text.parse::<GroupExpression>().unwrap_err();
            assert_eq!(error.to_string(), message, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_and_length_is_not() {
        let deep = "(".repeat(100_000);
        assert!(
            deep.parse::<GroupExpression>()
                .unwrap_err()
                .to_string()
                .contains("nested")
        );
        let nots = "!".repeat(100_000);
        assert!(nots.parse::<GroupExpression>().is_err());
        let long = vec!["a()"; 100_000].join(" && ");
        assert!(run(&long, "a").0);
    }

    #[test]
    fn members_are_listed_once() {
        let expression: GroupExpression = "b() && (a() || !b())".parse().unwrap();
        assert_eq!(Vec::from_iter(expression.members()), ["a", "b"]);
    }

    #[test]
    fn a_failing_member_ends_it() {
        let expression: GroupExpression = "a() || b()".parse().unwrap();
        assert_eq!(
            expression.evaluate(&mut |member: &str| Err(member.to_owned())),
            Err("a".to_owned())
        );
    }

    proptest! {
        #[test]
        fn any_text_parses_or_says_why(text in "[ab()!&|= \\n1é]{0,40}") {
            if let Err(error) = text.parse::<GroupExpression>() {
                prop_assert!(error.at <= text.chars().count() + 1);
            }
        }
    }
}
