//! Splits a template into tokens: text outside of actions, words inside of them.
//!
//! Trim markers and comments are handled here, so the parser never sees them.

use super::unquote::{quote, quote_char};

/// The delimiters of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiters {
    pub left: &'static str,
    pub right: &'static str,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    /// A printable character that is none of the others, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawText,
    RightDelim,
    RightParen,
    Space,
    QuotedText,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A token: its text, and where it starts.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: usize,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    /// The text of the token in errors.
    pub(crate) fn shown(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.text.clone(),
            kind if kind.is_keyword() => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                format!("{}...", quote(&start))
            }
            _ => quote(&self.text),
        }
    }
}

impl Kind {
    fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Break
                | Self::Continue
                | Self::Dot
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Nil
                | Self::Range
                | Self::Template
                | Self::With
        )
    }

    fn of_word(word: &str) -> Self {
        match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "nil" => Self::Nil,
            "template" => Self::Template,
            "with" => Self::With,
            "true" | "false" => Self::Bool,
            _ => Self::Identifier,
        }
    }
}

/// The result of a step: a token, or an error message.
type Found = Result<Kind, String>;

/// Reads tokens one after the other.
pub(crate) struct Lexer<'t> {
    input: &'t str,
    delimiters: Delimiters,
    at: usize,
    start: usize,
    line: usize,
    start_line: usize,
    inside_action: bool,
    paren_depth: usize,
    /// The right delimiter that is being read trims the following text.
    trims: bool,
    failed: bool,
}

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];
/// A trim marker is a minus and the space that separates it from the action.
const TRIM_LEN: usize = 2;

impl<'t> Lexer<'t> {
    pub(crate) fn new(input: &'t str, delimiters: Delimiters) -> Self {
        Self {
            input,
            delimiters,
            at: 0,
            start: 0,
            line: 1,
            start_line: 1,
            inside_action: false,
            paren_depth: 0,
            trims: false,
            failed: false,
        }
    }

    pub(crate) fn next_token(&mut self) -> Token {
        if self.failed {
            return self.token(Kind::Eof, "EOF");
        }
        let found = if self.inside_action {
            self.inside()
        } else {
            self.outside()
        };
        match found {
            Ok(kind) => {
                let text = &self.input[self.start..self.at];
                let token = self.token(kind, text);
                self.take();
                // Skip the rest of a delimiter that is not part of its token.
                match kind {
                    Kind::LeftDelim => self.after_left_delimiter(),
                    Kind::RightDelim => self.after_right_delimiter(),
                    Kind::Text => self.skip_trimmed(),
                    _ => {}
                }
                token
            }
            Err(message) => {
                self.failed = true;
                self.token(Kind::Error, &message)
            }
        }
    }

    fn token(&self, kind: Kind, text: &str) -> Token {
        Token {
            kind,
            at: self.start,
            text: text.to_owned(),
            line: self.start_line,
        }
    }

    fn rest(&self) -> &'t str {
        &self.input[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let fits = self.peek().is_some_and(|c| valid.contains(c));
        if fits {
            self.bump();
        }
        fits
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    /// Counts the lines of the token and starts the next one after it.
    fn take(&mut self) {
        let read = &self.input[self.start..self.at];
        self.line += read.bytes().filter(|b| *b == b'\n').count();
        self.start = self.at;
        self.start_line = self.line;
    }

    fn outside(&mut self) -> Found {
        loop {
            let Some(distance) = self.rest().find(self.delimiters.left) else {
                self.at = self.input.len();
                return Ok(if self.at > self.start {
                    Kind::Text
                } else {
                    Kind::Eof
                });
            };
            let delimiter = self.at + distance;
            let behind = &self.input[delimiter + self.delimiters.left.len()..];
            let text = &self.input[self.start..delimiter];
            let kept = if has_left_trim(behind) {
                text.trim_end_matches(SPACES)
            } else {
                text
            };
            if !kept.is_empty() {
                self.at = self.start + kept.len();
                return Ok(Kind::Text);
            }
            self.at = delimiter;
            self.take();
            let trim = if has_left_trim(behind) { TRIM_LEN } else { 0 };
            if behind
                .get(trim..)
                .is_some_and(|rest| rest.starts_with("/*"))
            {
                self.comment(trim)?;
                continue;
            }
            self.at += self.delimiters.left.len();
            return Ok(Kind::LeftDelim);
        }
    }

    /// After a text: the spaces before a left delimiter with a trim marker are skipped.
    fn skip_trimmed(&mut self) {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches(SPACES);
        if let Some(behind) = trimmed.strip_prefix(self.delimiters.left)
            && has_left_trim(behind)
        {
            self.at += rest.len() - trimmed.len();
            self.take();
        }
    }

    fn after_left_delimiter(&mut self) {
        self.inside_action = true;
        self.paren_depth = 0;
        if has_left_trim(self.rest()) {
            self.at += TRIM_LEN;
            self.take();
        }
    }

    fn comment(&mut self, trim: usize) -> Result<(), String> {
        self.at += self.delimiters.left.len() + trim;
        self.take();
        self.at += "/*".len();
        let Some(length) = self.rest().find("*/") else {
            return Err("unclosed comment".to_owned());
        };
        self.at += length + "*/".len();
        let Some(trims) = self.at_right_delimiter() else {
            return Err("comment ends before closing delimiter".to_owned());
        };
        if trims {
            self.at += TRIM_LEN;
        }
        self.at += self.delimiters.right.len();
        if trims {
            self.skip_spaces();
        }
        self.take();
        Ok(())
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(SPACES).len();
    }

    /// Is a right delimiter next, and does it trim?
    fn at_right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim(rest) && rest[TRIM_LEN..].starts_with(self.delimiters.right) {
            return Some(true);
        }
        rest.starts_with(self.delimiters.right).then_some(false)
    }

    /// The right delimiter itself; with a trim marker, the marker is skipped first.
    fn right_delimiter(&mut self, trims: bool) -> Kind {
        self.trims = trims;
        if trims {
            self.at += TRIM_LEN;
            self.take();
        }
        self.at += self.delimiters.right.len();
        Kind::RightDelim
    }

    fn after_right_delimiter(&mut self) {
        self.inside_action = false;
        if self.trims {
            self.skip_spaces();
            self.take();
        }
    }

    fn inside(&mut self) -> Found {
        if let Some(trims) = self.at_right_delimiter() {
            if self.paren_depth == 0 {
                return Ok(self.right_delimiter(trims));
            }
            return Err("unclosed left paren".to_owned());
        }
        let Some(c) = self.peek() else {
            return Err("unclosed action".to_owned());
        };
        if SPACES.contains(&c) {
            return Ok(self.space());
        }
        if matches!(c, '+' | '-' | '0'..='9') {
            return self.number();
        }
        self.bump();
        match c {
            '=' => Ok(Kind::Assign),
            ':' if self.bump() == Some('=') => Ok(Kind::Declare),
            ':' => Err("expected :=".to_owned()),
            '|' => Ok(Kind::Pipe),
            '"' => self.quoted('"', Kind::QuotedText, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw(),
            '$' => self.field_or_variable(Kind::Variable),
            '.' => match self.peek() {
                Some('0'..='9') | None => {
                    self.at -= 1;
                    self.number()
                }
                Some(_) => self.field_or_variable(Kind::Field),
            },
            '(' => {
                self.paren_depth += 1;
                Ok(Kind::LeftParen)
            }
            ')' if self.paren_depth == 0 => Err("unexpected right paren".to_owned()),
            ')' => {
                self.paren_depth -= 1;
                Ok(Kind::RightParen)
            }
            c if is_alphanumeric(c) => self.word(),
            ' '..='~' => Ok(Kind::Char),
            c => Err(format!(
                "unrecognized character in action: {}",
                code_point(Some(c))
            )),
        }
    }

    /// A run of spaces; the last one is left when it belongs to a trim marker.
    fn space(&mut self) -> Kind {
        self.skip_spaces();
        let last = &self.input[self.at - 1..];
        if has_right_trim(last) && last[TRIM_LEN..].starts_with(self.delimiters.right) {
            self.at -= 1;
            if self.at == self.start {
                return self.right_delimiter(true);
            }
        }
        Kind::Space
    }

    fn word(&mut self) -> Found {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return Err(format!("bad character {}", code_point(self.peek())));
        }
        Ok(Kind::of_word(&self.input[self.start..self.at]))
    }

    fn field_or_variable(&mut self, kind: Kind) -> Found {
        if self.at_terminator() {
            return Ok(if kind == Kind::Variable {
                kind
            } else {
                Kind::Dot
            });
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return Err(format!("bad character {}", code_point(self.peek())));
        }
        Ok(kind)
    }

    /// Whether a word may end here. `.X.Y` is two tokens, `$x+2` is an error.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(self.delimiters.right),
        }
    }

    fn quoted(&mut self, end: char, kind: Kind, unterminated: &str) -> Found {
        loop {
            match self.bump() {
                Some('\\') if !matches!(self.peek(), None | Some('\n')) => {
                    self.bump();
                }
                None | Some('\\' | '\n') => return Err(unterminated.to_owned()),
                Some(c) if c == end => return Ok(kind),
                Some(_) => {}
            }
        }
    }

    fn raw(&mut self) -> Found {
        let Some(length) = self.rest().find('`') else {
            return Err("unterminated raw quoted string".to_owned());
        };
        self.at += length + 1;
        Ok(Kind::RawText)
    }

    fn number(&mut self) -> Found {
        let complex = self.scan_number() && {
            if !matches!(self.peek(), Some('+' | '-')) {
                return Ok(Kind::Number);
            }
            self.scan_number() && self.input[..self.at].ends_with('i')
        };
        if complex {
            return Ok(Kind::Complex);
        }
        let text = &self.input[self.start..self.at];
        Err(format!("bad number syntax: {}", quote(text)))
    }

    /// Scans characters that look like a number. The parser decides whether it is one.
    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = match digits.len() {
            11 => "eE",
            23 => "pP",
            _ => "",
        };
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}

fn has_left_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [b'-', b' ' | b'\t' | b'\r' | b'\n', ..])
}

fn has_right_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [b' ' | b'\t' | b'\r' | b'\n', b'-', ..])
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_numeric()
}

/// `U+0026 '&'`: a character in the format of errors. The end of the input is not a character.
fn code_point(c: Option<char>) -> String {
    match c {
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
        Some(c) => format!("U+{:04X} {}", u32::from(c), quote_char(c)),
    }
}
