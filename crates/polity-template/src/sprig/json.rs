//! JSON as Go's `encoding/json` reads and writes it.

use std::rc::Rc;

use polity_core::go_text::{self, JsonEscapes};

use crate::function::{Failure, Outcome};
use crate::run::{Run, too_deep};
use crate::syntax::unquote::quote_char;
use crate::time;
use crate::value::{DEEPEST, Value};

/// The style of encoded JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// With `<`, `>` and `&` escaped.
    Safe,
    Raw,
    /// As safe, in lines.
    Pretty,
}

/// A text that is empty when there is nothing to write, except where a limit was exceeded.
pub(super) fn lenient(written: Result<String, Failure>) -> Outcome {
    match written {
        Ok(text) => Ok(Value::text(text)),
        Err(Failure::Message(_)) => Ok(Value::text("")),
        Err(failure) => Err(failure),
    }
}

/// All numbers are floats, as when Go decodes into an interface.
pub(crate) fn read(text: &str) -> Result<Value, Failure> {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(text);
    match parsed {
        Ok(json) => Ok(floats(&json)),
        Err(error) => Err(syntax_error(text, &error).into()),
    }
}

fn floats(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or(0.0)),
        serde_json::Value::Array(items) => Value::list(items.iter().map(floats).collect()),
        serde_json::Value::Object(map) => Value::map(
            map.iter()
                .map(|(key, value)| (Rc::from(key.as_str()), floats(value))),
        ),
        other => Value::from(other),
    }
}

/// Go's messages for the two most common errors, otherwise the message of the parser.
fn syntax_error(text: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = text.split('\n').nth(error.line().saturating_sub(1));
    let at = error.column().saturating_sub(1);
    let found = line
        .and_then(|line| line.get(at..))
        .and_then(|rest| rest.chars().next());
    match found {
        Some(c) if literal_before(line.unwrap_or_default(), at).is_some() => {
            let (literal, expected) =
                literal_before(line.unwrap_or_default(), at).unwrap_or_default();
            let (found, expected) = (quote_char(c), quote_char(expected));
            format!("invalid character {found} in literal {literal} (expecting {expected})")
        }
        Some(c) if error.to_string().starts_with("trailing characters") => {
            format!("invalid character {} after top-level value", quote_char(c))
        }
        Some(c) => format!(
            "invalid character {} looking for beginning of value",
            quote_char(c)
        ),
        None => error.to_string(),
    }
}

/// The literal that began before this position, and the expected character.
fn literal_before(line: &str, at: usize) -> Option<(&'static str, char)> {
    let before = line.get(..at)?;
    let start = before.rfind(|c: char| !c.is_ascii_alphabetic());
    let begun = &before[start.map_or(0, |start| start + 1)..];
    let literals = ["true", "false", "null"];
    let literal = literals
        .into_iter()
        .find(|literal| !begun.is_empty() && literal.starts_with(begun))?;
    Some((literal, literal[begun.len()..].chars().next()?))
}

pub(crate) fn write(run: &Run<'_>, value: &Value, style: Style) -> Result<String, Failure> {
    let mut writer = Writer {
        run,
        style,
        out: String::new(),
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'w, 'r> {
    run: &'w Run<'r>,
    style: Style,
    out: String,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Failure> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        self.run.fits(self.out.len())?;
        match value {
            Value::Nil => self.out.push_str("null"),
            Value::Bool(truth) => self.out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(..) | Value::Duration(_) => {
                let number = match value {
                    Value::Int(number, _) | Value::Duration(number) => *number,
                    _ => 0,
                };
                self.out.push_str(&number.to_string());
            }
            Value::Float(number) => self.out.push_str(&float(*number)?),
            Value::Text(text) => self.text(text),
            Value::Time(time) => self.text(&time::json_text(time)),
            Value::Version(version) => self.text(&version.to_string()),
            Value::List(list) if list.nil => self.out.push_str("null"),
            Value::List(list) => {
                self.out.push('[');
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(i, depth + 1);
                    self.value(item, depth + 1)?;
                }
                self.close(list.items.is_empty(), depth, ']');
            }
            Value::Map(map) => {
                self.out.push('{');
                let entries = map.entries();
                for (i, (key, value)) in entries.iter().enumerate() {
                    self.separate(i, depth + 1);
                    self.entry(key, value, depth)?;
                }
                self.close(entries.is_empty(), depth, '}');
            }
            Value::Struct(fields) => {
                self.out.push('{');
                for (i, (name, value)) in fields.fields.iter().enumerate() {
                    self.separate(i, depth + 1);
                    self.entry(name, value, depth)?;
                }
                self.close(fields.fields.is_empty(), depth, '}');
            }
        }
        Ok(())
    }

    fn entry(&mut self, key: &str, value: &Value, depth: usize) -> Result<(), Failure> {
        self.text(key);
        self.out.push(':');
        if self.style == Style::Pretty {
            self.out.push(' ');
        }
        self.value(value, depth + 1)
    }

    fn separate(&mut self, i: usize, depth: usize) {
        if i > 0 {
            self.out.push(',');
        }
        self.line(depth);
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if self.style == Style::Pretty {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str("  ");
            }
        }
    }

    fn text(&mut self, text: &str) {
        let escapes = match self.style {
            Style::Raw => JsonEscapes::Plain,
            _ => JsonEscapes::Html,
        };
        go_text::write_json_text(text, escapes, &mut self.out);
    }
}

fn float(number: f64) -> Result<String, Failure> {
    if !number.is_finite() {
        let shown = go_text::float(number);
        return Err(format!("json: unsupported value: {shown}").into());
    }
    Ok(go_text::json_float(number))
}
