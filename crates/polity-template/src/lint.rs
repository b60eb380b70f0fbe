//! Finds errors and surprising constructs in a text with templates, without resolving them.

use std::collections::BTreeMap;

use crate::functions;
use crate::rules::Side;
use crate::syntax::lex::{Kind, Lexer, Token};

/// A finding about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// An identifier that stays the same.
    pub rule: &'static str,
    /// Starts at 1.
    pub line: usize,
    /// What the problem is and why it matters.
    pub why: String,
    /// How to fix it.
    pub mend: String,
    /// It will not work, rather than surprise.
    pub is_error: bool,
}

/// The rules and what they report.
pub const RULES: &[(&str, &str)] = &[
    (
        "mismatched-delimiters",
        "an action that begins and does not end, or ends with the delimiter of the other side",
    ),
    (
        "mismatched-quotes",
        "a quote in an action that is not closed",
    ),
    (
        "template-syntax",
        "what is no action: a wrong number, a stray character",
    ),
    (
        "unbalanced-blocks",
        "an if, with, range or define without its end, or an end without them",
    ),
    (
        "unknown-function",
        "a function that this side does not have",
    ),
    (
        "undefined-variable",
        "a variable that is used and never declared",
    ),
    (
        "unused-variable",
        "a variable that is declared and never used",
    ),
    (
        "unquoted-template",
        "a value that is a template without quotes, which YAML reads as a map",
    ),
    (
        "trailing-whitespace",
        "spaces at the end of a line, which change how YAML writes a text",
    ),
];

/// All findings in a text, by line.
pub fn lint(text: &str) -> Vec<Lint> {
    let mut linter = Linter {
        text,
        found: Vec::new(),
        hub: Scope::default(),
        managed: Scope::default(),
    };
    linter.actions();
    linter.lines();
    for scope in [
        std::mem::take(&mut linter.hub),
        std::mem::take(&mut linter.managed),
    ] {
        linter.leave(scope);
    }
    linter
        .found
        .sort_by(|a, b| (a.line, a.rule).cmp(&(b.line, b.rule)));
    linter.found
}

/// The open blocks of one side. Hub and managed templates are resolved at different times.
#[derive(Default)]
struct Scope {
    /// The keyword that began each open block, and its line.
    blocks: Vec<(String, usize)>,
    /// By name, the lines of the declarations that were not used so far.
    variables: BTreeMap<String, Vec<usize>>,
}

struct Linter<'t> {
    text: &'t str,
    found: Vec<Lint>,
    hub: Scope,
    managed: Scope,
}

/// An action: its text with its delimiters, where it begins, and its side.
struct Action<'t> {
    text: &'t str,
    line: usize,
    side: Side,
}

impl<'t> Linter<'t> {
    fn say(&mut self, rule: &'static str, line: usize, why: String, mend: &str) {
        let is_error = !matches!(rule, "unused-variable" | "trailing-whitespace");
        self.found.push(Lint {
            rule,
            line,
            why,
            mend: mend.to_owned(),
            is_error,
        });
    }

    fn actions(&mut self) {
        let (mut at, mut line, mut counted) = (0, 1, 0);
        while let Some(distance) = self.text[at..].find("{{") {
            let start = at + distance;
            line += self.text[counted..start].matches('\n').count();
            counted = start;
            let rest = &self.text[start..];
            let side = side_of(rest);
            let delimiters = side.delimiters();
            match end_of(&rest[delimiters.left.len()..], delimiters.right) {
                End::At(length) => {
                    let end = delimiters.left.len() + length + delimiters.right.len();
                    let action = Action {
                        text: &rest[..end],
                        line,
                        side,
                    };
                    at = start + end;
                    self.action(&action);
                }
                End::OtherSide(length) => {
                    let wanted = delimiters.right;
                    self.say(
                        "mismatched-delimiters",
                        line,
                        format!(
                            "the action begins with {} and does not end with {wanted}",
                            delimiters.left
                        ),
                        "use the same delimiters on both ends: {{ }} or {{hub hub}}",
                    );
                    at = start + delimiters.left.len() + length + 2;
                }
                End::OpenQuote(quote) => {
                    self.say(
                        "mismatched-quotes",
                        line,
                        format!(
                            "the {quote} in this action is not closed, so the action has no end"
                        ),
                        "close the quote, or write the text between back quotes",
                    );
                    return;
                }
                End::Nowhere => {
                    self.say(
                        "mismatched-delimiters",
                        line,
                        format!("the action has no {}", delimiters.right),
                        "close the action, or write a literal {{ as {{ `{{` }}",
                    );
                    return;
                }
            }
        }
    }

    fn action(&mut self, action: &Action<'t>) {
        let tokens = tokens(action);
        if let Some(error) = tokens.iter().find(|token| token.kind == Kind::Error) {
            let rule = if error.text.contains("unterminated") {
                "mismatched-quotes"
            } else {
                "template-syntax"
            };
            let line = action.line + error.line - 1;
            self.say(
                rule,
                line,
                error.text.clone(),
                "see https://pkg.go.dev/text/template for what an action may hold",
            );
        }
        self.block(action, &tokens);
        self.names(action, &tokens);
    }

    fn scope(&mut self, side: Side) -> &mut Scope {
        match side {
            Side::Hub => &mut self.hub,
            Side::Plain | Side::Managed => &mut self.managed,
        }
    }

    fn block(&mut self, action: &Action<'_>, tokens: &[Token]) {
        let Some(first) = tokens.iter().find(|token| token.kind != Kind::Space) else {
            return;
        };
        match first.kind {
            Kind::If | Kind::With | Kind::Range | Kind::Define | Kind::Block => {
                let (word, line) = (first.text.clone(), action.line);
                self.scope(action.side).blocks.push((word, line));
            }
            Kind::End | Kind::Else => {
                let opened = if first.kind == Kind::End {
                    self.scope(action.side).blocks.pop()
                } else {
                    self.scope(action.side).blocks.last().cloned()
                };
                if opened.is_none() {
                    let why = format!(
                        "{} without an if, with, range or define before it",
                        first.text
                    );
                    self.say(
                        "unbalanced-blocks",
                        action.line,
                        why,
                        "remove it, or add what it ends",
                    );
                }
            }
            _ => {}
        }
    }

    fn names(&mut self, action: &Action<'_>, tokens: &[Token]) {
        let words: Vec<&Token> = tokens
            .iter()
            .filter(|token| token.kind != Kind::Space)
            .collect();
        let last_declare = words.iter().rposition(|word| word.kind == Kind::Declare);
        for (i, token) in words.iter().enumerate() {
            let line = action.line + token.line - 1;
            match token.kind {
                Kind::Identifier => {
                    let known = functions::names(action.side).contains(&token.text.as_str());
                    if !known {
                        let why = format!("there is no function {} here", token.text);
                        self.say(
                            "unknown-function",
                            line,
                            why,
                            "the functions are those of text/template, sprig v3 and policies",
                        );
                    }
                }
                Kind::Variable if token.text != "$" => {
                    let next = words.get(i + 1).map(|next| (next.kind, next.text.as_str()));
                    let declares = match next {
                        Some((Kind::Declare, _)) => true,
                        Some((Kind::Char, ",")) => last_declare.is_some_and(|last| last > i),
                        _ => false,
                    };
                    self.variable(action, token, line, declares);
                }
                _ => {}
            }
        }
    }

    fn variable(&mut self, action: &Action<'_>, token: &Token, line: usize, declares: bool) {
        let variables = &mut self.scope(action.side).variables;
        if declares {
            variables.entry(token.text.clone()).or_default().push(line);
            return;
        }
        let declared = variables.get_mut(&token.text);
        if let Some(unused) = declared {
            unused.clear();
        } else {
            let why = format!("{} is used and not declared before", token.text);
            self.say(
                "undefined-variable",
                line,
                why,
                "declare it with := in the same text",
            );
        }
    }

    fn leave(&mut self, scope: Scope) {
        for (word, line) in scope.blocks {
            self.say(
                "unbalanced-blocks",
                line,
                format!("this {word} has no end"),
                "add {{ end }} where it ends",
            );
        }
        for (name, unused) in scope.variables {
            for line in unused.into_iter().filter(|_| name != "$_") {
                let why = format!("{name} is declared and not used");
                self.say(
                    "unused-variable",
                    line,
                    why,
                    "remove it, or name it $_ if only the call matters",
                );
            }
        }
    }

    /// Checks each line. Inside of a block scalar a template needs no quotes.
    fn lines(&mut self) {
        let mut block_indent: Option<usize> = None;
        for (i, line) in self.text.lines().enumerate() {
            let content = line.trim_start();
            let indent = line.len() - content.len();
            if !content.is_empty() && block_indent.is_some_and(|block| indent <= block) {
                block_indent = None;
            }
            if line.ends_with([' ', '\t']) && line.contains("{{") {
                self.say(
                    "trailing-whitespace",
                    i + 1,
                    "the line ends with white space, which becomes part of the text and changes how it is quoted".to_owned(),
                    "remove the white space",
                );
            }
            if block_indent.is_some() {
                continue;
            }
            let value = content.strip_prefix("- ").unwrap_or(content);
            let value = value
                .split_once(": ")
                .map_or(value, |(_, value)| value)
                .trim_start();
            if value.starts_with("{{") && content != value {
                self.say(
                    "unquoted-template",
                    i + 1,
                    "a value that begins with {{ is a map for YAML, not a template".to_owned(),
                    "put it in single quotes; toInt, toBool and toLiteral take them off again",
                );
            }
            if value.starts_with(['|', '>']) && value.len() <= 3 {
                block_indent = Some(indent);
            }
        }
    }
}

fn side_of(text: &str) -> Side {
    let after = text.get(5..).and_then(|rest| rest.chars().next());
    let is_hub = text.starts_with("{{hub") && after.is_none_or(|c| !c.is_alphanumeric());
    if is_hub { Side::Hub } else { Side::Managed }
}

/// Where an action ends.
enum End {
    At(usize),
    OtherSide(usize),
    OpenQuote(char),
    Nowhere,
}

fn end_of(text: &str, right: &str) -> End {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if let Some(open) = quote {
            // A quoted text ends with its line.
            if c == '\n' && open == '"' {
                return End::OpenQuote(open);
            }
            if c == open && !escaped {
                quote = None;
            }
            escaped = c == '\\' && open == '"' && !escaped;
            continue;
        }
        let rest = &text[at..];
        if rest.starts_with(right) && (right != "}}" || !text[..at].ends_with("hub")) {
            return End::At(at);
        }
        if rest.starts_with("}}") || rest.starts_with("{{") {
            return End::OtherSide(at);
        }
        if matches!(c, '"' | '`') {
            quote = Some(c);
        }
    }
    match quote {
        Some(open) => End::OpenQuote(open),
        None => End::Nowhere,
    }
}

fn tokens(action: &Action<'_>) -> Vec<Token> {
    let mut lexer = Lexer::new(action.text, action.side.delimiters());
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token();
        match token.kind {
            Kind::Eof => return tokens,
            Kind::LeftDelim | Kind::RightDelim => {}
            Kind::Error => {
                tokens.push(token);
                return tokens;
            }
            _ => tokens.push(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, usize)]) {
        let found: Vec<(&str, usize)> = lint(text)
            .iter()
            .map(|lint| (lint.rule, lint.line))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    /// Each declaration and use was compared with all declarations before it, and each action
    /// counted the lines before it.
    #[test]
    fn a_long_text_is_looked_at_once() {
        let n = 100_000;
        let declared = (0..n).map(|number| format!("{{{{ $v{number} := 1 }}}}"));
        let used = (0..n - 1)
            .rev()
            .map(|number| format!("{{{{ $v{number} }}}}"));
        let text = declared.chain(used).collect::<Vec<_>>().join("\n");
        check(&text, &[("unused-variable", n)]);
    }

    /// Delimiters, quotes, unused or invalid variables, white space, unquoted values.
    #[test]
    fn each_rule_reports_its_problem() {
        check("a: '{{ .x }}'", &[]);
        check("a: '{{hub .x hub}} {{ .y }}'", &[]);
        check("a: '{{hub .x }}'", &[("mismatched-delimiters", 1)]);
        check("a: '{{ .x hub}}'", &[("mismatched-delimiters", 1)]);
        check("\na: '{{ .x '", &[("mismatched-delimiters", 2)]);
        check("a: '{{ \"x }}'", &[("mismatched-quotes", 1)]);
        check("a: '{{ 1x }}'", &[("template-syntax", 1)]);
        check("a: '{{ if .x }}'", &[("unbalanced-blocks", 1)]);
        check("a: '{{ end }}'", &[("unbalanced-blocks", 1)]);
        check("a: '{{ if .x }}1{{ else }}2{{ end }}'", &[]);
        check("a: '{{ nope 1 }}'", &[("unknown-function", 1)]);
        check("a: '{{hub skipObject hub}}'", &[("unknown-function", 1)]);
        check("a: '{{ skipObject }}'", &[]);
        check("a: '{{ $x := 1 }}'", &[("unused-variable", 1)]);
        check("a: '{{ $x := 1 }}{{ $x }}'", &[]);
        check("a: '{{ $_ := set .d `a` 1 }}'", &[]);
        check("a: '{{ $x }}'", &[("undefined-variable", 1)]);
        check(
            "a: '{{ range $i, $e := .l }}{{ $e }}{{ end }}'",
            &[("unused-variable", 1)],
        );
        check("a: {{ .x }}", &[("unquoted-template", 1)]);
        check("- {{ .x }}", &[("unquoted-template", 1)]);
        check("a: |\n  b: {{ .x }}\nc: 1", &[]);
        check("a: |-\n  {{ .x }}  \n", &[("trailing-whitespace", 2)]);
        check("a: '{{ `{{` }}'", &[]);
        check("a: '{{ \"}}\" }}'", &[]);
        check("a: '{{/* a comment */}}'", &[]);
    }
}
