//! Regular expressions. Go's and ours have the same syntax and the same promise of linear time.

use super::strings::{made, truth};
use crate::arg::{int, rc, text};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::run::Run;
use crate::value::{Elements, List, Value};
use std::rc::Rc;

const T: Type = Type::Text;
const I: Type = Type::Int;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "regexMatch",
        function(&[T, T], None, |run, v| match run.pattern(&rc(&v[0])) {
            Ok(pattern) => truth(pattern.is_match(text(&v[1]))),
            Err(Failure::Message(_)) => truth(false),
            Err(failure) => Err(failure),
        }),
    ),
    (
        "mustRegexMatch",
        function(&[T, T], None, |run, v| {
            let pattern = run.pattern(&rc(&v[0]))?;
            truth(pattern.is_match(text(&v[1])))
        }),
    ),
    (
        "regexFind",
        function(&[T, T], None, |run, v| find(run, v, panicked)),
    ),
    (
        "mustRegexFind",
        function(&[T, T], None, |run, v| find(run, v, given)),
    ),
    (
        "regexFindAll",
        function(&[T, T, I], None, |run, v| find_all(run, v, panicked)),
    ),
    (
        "mustRegexFindAll",
        function(&[T, T, I], None, |run, v| find_all(run, v, given)),
    ),
    (
        "regexReplaceAll",
        function(&[T, T, T], None, |run, v| replace(run, v, panicked, false)),
    ),
    (
        "mustRegexReplaceAll",
        function(&[T, T, T], None, |run, v| replace(run, v, given, false)),
    ),
    (
        "regexReplaceAllLiteral",
        function(&[T, T, T], None, |run, v| replace(run, v, panicked, true)),
    ),
    (
        "mustRegexReplaceAllLiteral",
        function(&[T, T, T], None, |run, v| replace(run, v, given, true)),
    ),
    (
        "regexSplit",
        function(&[T, T, I], None, |run, v| split(run, v, panicked)),
    ),
    (
        "mustRegexSplit",
        function(&[T, T, I], None, |run, v| split(run, v, given)),
    ),
    (
        "regexQuoteMeta",
        function(&[T], None, |_, v| {
            let mut out = String::new();
            for c in text(&v[0]).chars() {
                if r"\.+*?()|[]{}^$".contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
            made(out)
        }),
    ),
];

/// How an error of the pattern is reported: returned, or as a panic.
type PatternError = fn(&str, Failure) -> Failure;

fn given(_: &str, failure: Failure) -> Failure {
    failure
}

fn panicked(pattern: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Message(message) => {
            let quoted = if pattern.contains('`') {
                crate::syntax::unquote::quote(pattern)
            } else {
                format!("`{pattern}`")
            };
            Failure::Message(format!("regexp: Compile({quoted}): {message}"))
        }
        other => other,
    }
}

/// Go's messages for common errors.
pub(crate) fn error_text(pattern: &str, error: &regex::Error) -> String {
    let shown = error.to_string();
    let reason = shown.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let told = match reason {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => {
            let start = pattern.rfind('[').unwrap_or(0);
            format!("missing closing ]: `{}`", &pattern[start..])
        }
        "repetition operator missing expression" => {
            let operator = pattern
                .chars()
                .find(|c| matches!(c, '*' | '+' | '?'))
                .unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        other => format!("{other}: `{pattern}`"),
    };
    format!("error parsing regexp: {told}")
}

fn find(run: &mut Run<'_>, values: &[Value], telling: PatternError) -> Outcome {
    let pattern = run
        .pattern(&rc(&values[0]))
        .map_err(|failure| telling(text(&values[0]), failure))?;
    made(
        pattern
            .find(text(&values[1]))
            .map_or("", |found| found.as_str()),
    )
}

fn limit(value: &Value) -> usize {
    usize::try_from(int(value)).unwrap_or(usize::MAX)
}

fn find_all(run: &mut Run<'_>, values: &[Value], telling: PatternError) -> Outcome {
    let pattern = run
        .pattern(&rc(&values[0]))
        .map_err(|failure| telling(text(&values[0]), failure))?;
    let matches = matches_like_go(&pattern, text(&values[1]));
    let found: Vec<Value> = matches
        .into_iter()
        .take(limit(&values[2]))
        .map(|(start, end)| Value::text(&text(&values[1])[start..end]))
        .collect();
    let nil = found.is_empty();
    Ok(Value::List(Rc::new(List {
        elements: Elements::Texts,
        items: found,
        nil,
    })))
}

/// An empty match right behind the last one does not count in Go.
fn matches_like_go(pattern: &regex::Regex, text: &str) -> Vec<(usize, usize)> {
    let mut last_end = None;
    pattern
        .find_iter(text)
        .map(|found| (found.start(), found.end()))
        .filter(|(start, end)| {
            let counts = start != end || last_end != Some(*start);
            last_end = Some(*end);
            counts
        })
        .collect()
}

fn replace(run: &mut Run<'_>, values: &[Value], telling: PatternError, literal: bool) -> Outcome {
    let pattern = run
        .pattern(&rc(&values[0]))
        .map_err(|failure| telling(text(&values[0]), failure))?;
    let (whole, replacement) = (text(&values[1]), text(&values[2]));
    let mut out = String::new();
    let mut last = 0;
    let mut last_match = None;
    for captures in pattern.captures_iter(whole) {
        let Some(found) = captures.get(0) else {
            continue;
        };
        if found.is_empty() && last_match == Some(found.start()) {
            continue;
        }
        last_match = Some(found.end());
        out.push_str(&whole[last..found.start()]);
        if literal {
            out.push_str(replacement);
        } else {
            captures.expand(replacement, &mut out);
        }
        last = found.end();
        run.fits(out.len())?;
    }
    out.push_str(&whole[last..]);
    made(out)
}

fn split(run: &mut Run<'_>, values: &[Value], telling: PatternError) -> Outcome {
    let pattern = run
        .pattern(&rc(&values[0]))
        .map_err(|failure| telling(text(&values[0]), failure))?;
    let (whole, count) = (text(&values[1]), int(&values[2]));
    if count == 0 {
        return Ok(Value::List(Rc::new(List {
            elements: Elements::Texts,
            items: Vec::new(),
            nil: true,
        })));
    }
    if !text(&values[0]).is_empty() && whole.is_empty() {
        return Ok(Value::texts([""]));
    }
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for (match_start, match_end) in matches_like_go(&pattern, whole) {
        if count > 0 && parts.len() as i64 == count - 1 {
            break;
        }
        end = match_start;
        if match_end != 0 {
            parts.push(&whole[start..end]);
        }
        start = match_end;
    }
    if end != whole.len() {
        parts.push(&whole[start..]);
    }
    Ok(Value::texts(parts))
}
