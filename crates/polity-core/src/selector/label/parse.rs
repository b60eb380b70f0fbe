//! The written form of label selectors: a lexer of symbols and words, and a parser of one token
//! look-ahead.

use std::str::FromStr;

use serde_json::json;

use super::{LabelOperator, LabelRequirement, LabelSelector, LabelSelectorError};
use crate::field::{FieldError, FieldPath};
use crate::name;

/// A piece of the text. Words include `in` and `notin`, which are operators only where one may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// One of `=`, `==`, `!=`, `!`, `<`, `>`, `(`, `)`, `,`.
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn is(self, symbol: &str) -> bool {
        matches!(self, Self::Symbol(text) if text == symbol)
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        if parser.peek() == Token::End {
            return Ok(Self::everything());
        }
        loop {
            let token = parser.peek();
            if !starts_requirement(token) {
                return Err(found(token, "!, identifier, or 'end of string'"));
            }
            let requirement = parser.requirement().map_err(|error| {
                LabelSelectorError::new(format!("unable to parse requirement: {}", error.message))
            })?;
            requirements.push(requirement);
            match parser.next() {
                Token::End => return Ok(Self::of(requirements)),
                token if token.is(",") => {
                    let token = parser.peek();
                    if !starts_requirement(token) {
                        return Err(found(token, "identifier after ','"));
                    }
                }
                token => return Err(found(token, "',' or 'end of string'")),
            }
        }
    }
}

fn starts_requirement(token: Token<'_>) -> bool {
    matches!(token, Token::Word(_)) || token.is("!")
}

fn found(token: Token<'_>, expected: &str) -> LabelSelectorError {
    LabelSelectorError::new(format!("found '{}', expected: {expected}", token.text()))
}

impl<'a> Parser<'a> {
    /// Splits off the next token.
    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches(is_space);
        let (token, rest) = match text.find(|c| is_symbol(c) || is_space(c)) {
            None if text.is_empty() => (Token::End, ""),
            None => (Token::Word(text), ""),
            Some(0) => {
                let length = if text.starts_with("==") || text.starts_with("!=") {
                    2
                } else {
                    1
                };
                let (symbol, rest) = text.split_at(length);
                (Token::Symbol(symbol), rest)
            }
            Some(end) => {
                let (word, rest) = text.split_at(end);
                (Token::Word(word), rest)
            }
        };
        self.rest = rest;
        token
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn requirement(&mut self) -> Result<LabelRequirement, LabelSelectorError> {
        let mut token = self.next();
        let is_negated = token.is("!");
        if is_negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(found(token, "identifier"));
        };
        if let Err(wrong) = name::qualified_name(key) {
            let error = FieldError::invalid(&FieldPath::root(), &json!(key), &wrong.join("; "));
            return Err(LabelSelectorError::requirement(&[error]));
        }
        let none: [&str; 0] = [];
        if is_negated {
            return LabelRequirement::new(key, LabelOperator::DoesNotExist, none);
        }
        let token = self.peek();
        if token == Token::End || token.is(",") {
            return LabelRequirement::new(key, LabelOperator::Exists, none);
        }
        let operator = self.operator()?;
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.set()?,
            _ => vec![self.value()?],
        };
        LabelRequirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<LabelOperator, LabelSelectorError> {
        let token = self.next();
        Ok(match token.text() {
            "in" => LabelOperator::In,
            "notin" => LabelOperator::NotIn,
            "=" | "==" => LabelOperator::Equals,
            "!=" => LabelOperator::NotEquals,
            ">" => LabelOperator::GreaterThan,
            "<" => LabelOperator::LessThan,
            _ => return Err(found(token, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// The value of `=` and its like; nothing there is the empty value.
    fn value(&mut self) -> Result<&'a str, LabelSelectorError> {
        let token = self.peek();
        if token == Token::End || token.is(",") {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            token => Err(found(token, "identifier")),
        }
    }

    /// A list in parentheses; a gap between commas is the empty value.
    fn set(&mut self) -> Result<Vec<&'a str>, LabelSelectorError> {
        let open = self.next();
        if !open.is("(") {
            // The one message of the grammar without a comma.
            return Err(LabelSelectorError::new(format!(
                "found '{}' expected: '('",
                open.text()
            )));
        }
        let first = self.peek();
        if !(matches!(first, Token::Word(_)) || first.is(",") || first.is(")")) {
            return Err(found(first, "',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value
                }
                token if token.is(",") || token.is(")") => "",
                token => return Err(found(token, "',', or identifier")),
            };
            values.push(value);
            match self.next() {
                token if token.is(",") => {}
                token if token.is(")") => return Ok(values),
                token => return Err(found(token, "',' or ')'")),
            }
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}
