//! Texts: cutting, padding, joining, replacing.

use std::rc::Rc;

use crate::arg::{int, text};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::print::{plain, strval};
use crate::printf::sprintf;
use crate::run::Run;
use crate::syntax::unquote::quote;
use crate::value::{Elements, Map, Value};

const T: Type = Type::Text;
const I: Type = Type::Int;
const A: Type = Type::Any;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "hello",
        function(&[], None, |_, _| Ok(Value::text("Hello!"))),
    ),
    (
        "trim",
        function(&[T], None, |_, v| made(text(&v[0]).trim_matches(is_space))),
    ),
    (
        "upper",
        function(&[T], None, |_, v| {
            made(text(&v[0]).chars().map(upper).collect::<String>())
        }),
    ),
    (
        "lower",
        function(&[T], None, |_, v| {
            made(text(&v[0]).chars().map(lower).collect::<String>())
        }),
    ),
    (
        "repeat",
        function(&[I, T], None, |run, v| repeat(run, text(&v[1]), int(&v[0]))),
    ),
    ("trimall", function(&[T, T], None, trim_all)),
    ("trimAll", function(&[T, T], None, trim_all)),
    (
        "trimSuffix",
        function(&[T, T], None, |_, v| {
            let whole = text(&v[1]);
            made(whole.strip_suffix(text(&v[0])).unwrap_or(whole))
        }),
    ),
    (
        "trimPrefix",
        function(&[T, T], None, |_, v| {
            let whole = text(&v[1]);
            made(whole.strip_prefix(text(&v[0])).unwrap_or(whole))
        }),
    ),
    (
        "contains",
        function(&[T, T], None, |_, v| {
            truth(text(&v[1]).contains(text(&v[0])))
        }),
    ),
    (
        "hasPrefix",
        function(&[T, T], None, |_, v| {
            truth(text(&v[1]).starts_with(text(&v[0])))
        }),
    ),
    (
        "hasSuffix",
        function(&[T, T], None, |_, v| {
            truth(text(&v[1]).ends_with(text(&v[0])))
        }),
    ),
    (
        "quote",
        function(&[], Some(A), |_, v| {
            joined(v, |value| Ok(quote(&strval(value)?)))
        }),
    ),
    (
        "squote",
        function(&[], Some(A), |_, v| {
            joined(v, |value| Ok(format!("'{}'", plain(value)?)))
        }),
    ),
    ("cat", function(&[], Some(A), cat)),
    (
        "nindent",
        function(&[I, T], None, |run, v| {
            let padded = padded(run, text(&v[1]), int(&v[0]))?;
            made(format!("\n{padded}"))
        }),
    ),
    (
        "indent",
        function(&[I, T], None, |run, v| {
            made(padded(run, text(&v[1]), int(&v[0]))?)
        }),
    ),
    (
        "replace",
        function(&[T, T, T], None, |run, v| {
            replace(run, text(&v[2]), text(&v[0]), text(&v[1]))
        }),
    ),
    (
        "plural",
        function(&[T, T, I], None, |_, v| {
            made(if int(&v[2]) == 1 {
                text(&v[0])
            } else {
                text(&v[1])
            })
        }),
    ),
    (
        "toString",
        function(&[A], None, |_, v| Ok(Value::Text(strval(&v[0])?))),
    ),
    (
        "toStrings",
        function(&[A], None, |_, v| Ok(Value::texts(texts_of(&v[0])?))),
    ),
    (
        "join",
        function(&[T, A], None, |run, v| {
            let texts = texts_of(&v[1])?;
            let separators = text(&v[0]).len() * texts.len().saturating_sub(1);
            run.fits(separators + texts.iter().map(|text| text.len()).sum::<usize>())?;
            made(texts.join(text(&v[0])))
        }),
    ),
    (
        "split",
        function(&[T, T], None, |_, v| {
            Ok(numbered(&split(text(&v[1]), text(&v[0]), -1)))
        }),
    ),
    (
        "splitn",
        function(&[T, I, T], None, |_, v| {
            Ok(numbered(&split(text(&v[2]), text(&v[0]), int(&v[1]))))
        }),
    ),
    (
        "splitList",
        function(&[T, T], None, |_, v| {
            Ok(Value::texts(split(text(&v[1]), text(&v[0]), -1)))
        }),
    ),
    (
        "trunc",
        function(&[I, T], None, |_, v| truncate(text(&v[1]), int(&v[0]))),
    ),
    (
        "substr",
        function(&[I, I, T], None, |_, v| {
            substring(text(&v[2]), int(&v[0]), int(&v[1]))
        }),
    ),
    (
        "sortAlpha",
        function(&[A], None, |_, v| match &v[0] {
            Value::List(_) => {
                let mut texts = texts_of(&v[0])?;
                texts.sort();
                Ok(Value::texts(texts))
            }
            other => Ok(Value::texts([strval(other)?])),
        }),
    ),
    (
        "seq",
        function(&[], Some(I), |run, v| {
            let numbers: Vec<i64> = v.iter().map(int).collect();
            let numbers = super::numbers::sequence(run, &numbers)?;
            let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
            made(texts.join(" "))
        }),
    ),
    ("fail", function(&[T], None, |_, v| Err(text(&v[0]).into()))),
];

pub(super) fn made(text: impl AsRef<str>) -> Outcome {
    Ok(Value::text(text))
}

pub(super) fn truth(truth: bool) -> Outcome {
    Ok(Value::Bool(truth))
}

/// Go's idea of a space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() && c != '\u{1c}' && c != '\u{1d}' && c != '\u{1e}' && c != '\u{1f}'
}

/// One character for one: Go does not write `SS` for a sharp s.
pub(super) fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

pub(super) fn lower(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(only), None) => only,
        _ if c == '\u{130}' => 'i',
        _ => c,
    }
}

fn repeat(run: &Run<'_>, text: &str, count: i64) -> Outcome {
    let Ok(count) = usize::try_from(count) else {
        return Err("strings: negative Repeat count".into());
    };
    run.fits(text.len().saturating_mul(count))?;
    made(text.repeat(count))
}

fn trim_all(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let cut = text(&values[0]);
    made(text(&values[1]).trim_matches(|c| cut.contains(c)))
}

fn joined(values: &[Value], show: impl Fn(&Value) -> Result<String, Failure>) -> Outcome {
    let shown: Result<Vec<String>, Failure> = values
        .iter()
        .filter(|value| !matches!(value, Value::Nil))
        .map(show)
        .collect();
    made(shown?.join(" "))
}

fn cat(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let there: Vec<Value> = values
        .iter()
        .filter(|value| !matches!(value, Value::Nil))
        .cloned()
        .collect();
    let format = "%v ".repeat(there.len());
    made(sprintf(run, format.trim_end(), &there)?)
}

/// Indents every line by this many spaces.
pub(crate) fn padded(run: &Run<'_>, text: &str, spaces: i64) -> Result<String, Failure> {
    let Ok(spaces) = usize::try_from(spaces) else {
        return Err("strings: negative Repeat count".into());
    };
    let n_lines = 1 + text.bytes().filter(|b| *b == b'\n').count();
    run.fits(text.len().saturating_add(spaces.saturating_mul(n_lines)))?;
    let pad = " ".repeat(spaces);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

fn replace(run: &Run<'_>, whole: &str, old: &str, new: &str) -> Outcome {
    let n_matches = whole.matches(old).count();
    run.fits(
        whole
            .len()
            .saturating_add(n_matches.saturating_mul(new.len())),
    )?;
    made(whole.replace(old, new))
}

/// The elements of a list as texts. Any other value is treated as a list of one element.
pub(crate) fn texts_of(value: &Value) -> Result<Vec<Rc<str>>, Failure> {
    match value {
        Value::List(list) if list.elements == Elements::Texts => Ok(list
            .items
            .iter()
            .filter_map(Value::as_text)
            .cloned()
            .collect()),
        Value::List(list) => list
            .items
            .iter()
            .filter(|item| !matches!(item, Value::Nil))
            .map(strval)
            .collect(),
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![strval(other)?]),
    }
}

/// Go's `SplitN`: an empty separator splits into characters, a negative limit is none.
fn split(whole: &str, separator: &str, limit: i64) -> Vec<String> {
    if limit == 0 {
        return Vec::new();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return whole.splitn(limit, separator).map(str::to_owned).collect();
    }
    let mut parts = Vec::new();
    let mut rest = whole;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest.to_owned());
            return parts;
        }
        parts.push(c.to_string());
        rest = &rest[c.len_utf8()..];
    }
    parts
}

/// `_0`, `_1`, …
fn numbered(parts: &[String]) -> Value {
    let entries = parts
        .iter()
        .enumerate()
        .map(|(i, part)| (Rc::from(format!("_{i}")), Value::text(part)));
    Value::Map(Rc::new(Map::of_texts(entries)))
}

/// Bytes, as Go counts; a character that is cut becomes a replacement.
pub(super) fn bytes_of(text: &str, start: usize, end: usize) -> String {
    let bytes = &text.as_bytes()[start.min(text.len())..end.min(text.len())];
    String::from_utf8_lossy(bytes).into_owned()
}

fn truncate(whole: &str, count: i64) -> Outcome {
    let length = whole.len() as i64;
    if count < 0 && length + count > 0 {
        return made(bytes_of(whole, (length + count) as usize, whole.len()));
    }
    if count >= 0 && length > count {
        return made(bytes_of(whole, 0, count as usize));
    }
    made(whole)
}

fn substring(whole: &str, start: i64, end: i64) -> Outcome {
    let length = whole.len() as i64;
    let (start, end) = if start < 0 {
        (0, end)
    } else if end < 0 || end > length {
        (start, length)
    } else {
        (start, end)
    };
    if end < 0 {
        return Err(format!("runtime error: slice bounds out of range [:{end}]").into());
    }
    if end > length {
        return Err(format!(
            "runtime error: slice bounds out of range [:{end}] with length {length}"
        )
        .into());
    }
    if start > end {
        return Err(format!("runtime error: slice bounds out of range [{start}:{end}]").into());
    }
    made(bytes_of(whole, start as usize, end as usize))
}
