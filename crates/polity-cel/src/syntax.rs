//! From text to a syntax tree, and errors that point into the text.

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;

use crate::expression::CompileError;

/// As in cel-go; more is never written by hand.
const MAX_CODE_POINTS: usize = 100_000;

/// How deep brackets and conditionals may nest. The parser's own limit is one more, and reaching
/// that one upsets it.
const MAX_NESTING: usize = 95;

/// The parser recurses once per operator of a chain such as `1+1+1…`, so its depth is bounded only
/// by the length of the text. Memory for a stack is reserved, not used.
const STACK_BYTES: usize = 512 << 20;

/// Parses `text` and hands the tree to `work`, on a stack that is deep enough for any tree.
pub(crate) fn with_tree<T: Send>(
    text: &str,
    work: impl FnOnce(IdedExpr) -> Result<T, CompileError> + Send,
) -> Result<T, CompileError> {
    let n_code_points = text.chars().count();
    if n_code_points > MAX_CODE_POINTS {
        let message = format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {n_code_points}, limit {MAX_CODE_POINTS}"
        );
        return Err(CompileError::Invalid(message));
    }
    if nesting(text) > MAX_NESTING {
        return Err(CompileError::Invalid(
            "ERROR: <input>:-1:0: max recursion depth exceeded".into(),
        ));
    }
    let compile = || {
        let parser = Parser::new().enable_optional_syntax(true);
        let tree = parser.parse(text).map_err(|errors| {
            let texts: Vec<_> = errors
                .errors
                .iter()
                .map(|error| {
                    pointing_at(
                        text,
                        error.pos.0.max(0) as usize,
                        error.pos.1.max(0) as usize,
                        &error.msg,
                    )
                })
                .collect();
            CompileError::Invalid(texts.join("\n"))
        })?;
        work(tree)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("cel-compile".into())
            .stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, compile) {
            // A panic of the foreign parser is one bad expression, not the end of the process.
            Ok(running) => running.join().unwrap_or_else(|_| {
                Err(CompileError::Invalid(
                    "ERROR: <input>:-1:0: the parser gave up".into(),
                ))
            }),
            Err(error) => Err(CompileError::Invalid(format!(
                "ERROR: <input>:-1:0: no thread to compile on: {error}"
            ))),
        }
    })
}

/// How deep the brackets of a text nest, with every conditional counted as one level more.
/// Brackets in string literals count too, which only makes the estimate larger.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut n_conditionals) = (0_usize, 0, 0);
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            // `a.?b`, `a[?b]`, `[?a, ?b]` and `{?a: b}` are optional syntax.
            '?' if !matches!(before, '.' | '[' | '{' | ',') => n_conditionals += 1,
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    deepest + n_conditionals
}

/// `ERROR: <input>:1:3: message` with the line and a caret below; line and column count from 1.
pub(crate) fn pointing_at(text: &str, line: usize, column: usize, message: &str) -> String {
    let place = line
        .checked_sub(1)
        .and_then(|index| text.lines().nth(index));
    match place {
        None => format!("ERROR: <input>:{line}:{column}: {message}"),
        Some(source) => {
            let dots = ".".repeat(column.saturating_sub(1));
            format!("ERROR: <input>:{line}:{column}: {message}\n | {source}\n | {dots}^")
        }
    }
}

/// Like [`pointing_at`] for the first occurrence of `needle`, because the parser does not report the position.
pub(crate) fn pointing_at_text(text: &str, needle: &str, message: &str) -> String {
    pointing_at_offset(text, find_word(text, needle).unwrap_or(0), message)
}

/// Like [`pointing_at`] the place behind `name` where `next` follows it.
pub(crate) fn pointing_behind(text: &str, name: &str, next: &str, message: &str) -> String {
    let offset = find_word(text, &format!("{name}{next}")).map_or(0, |offset| offset + name.len());
    pointing_at_offset(text, offset, message)
}

fn pointing_at_offset(text: &str, offset: usize, message: &str) -> String {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    pointing_at(text, line, column, message)
}

/// The first occurrence of `needle` that is not part of a longer name.
fn find_word(text: &str, needle: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(needle)
        .map(|(offset, _)| offset)
        .find(|&offset| {
            let joins_left = needle.starts_with(is_word) && text[..offset].ends_with(is_word);
            let joins_right =
                needle.ends_with(is_word) && text[offset + needle.len()..].starts_with(is_word);
            !joins_left && !joins_right
        })
}
