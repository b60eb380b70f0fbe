//! The functions of the language itself.

use crate::arg;
use crate::compare;
use crate::function::{Call, Failure, Function, Outcome, Type, function};
use crate::print;
use crate::printf;
use crate::run::Run;
use crate::syntax::unquote::is_printable;
use crate::value::{IntType, Value};

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "and",
        Function {
            parameters: &[Type::Value],
            rest: Some(Type::Value),
            call: Call::ShortCircuit { stops_at: false },
        },
    ),
    (
        "or",
        Function {
            parameters: &[Type::Value],
            rest: Some(Type::Value),
            call: Call::ShortCircuit { stops_at: true },
        },
    ),
    (
        "call",
        Function {
            parameters: &[Type::Value],
            rest: Some(Type::Value),
            call: Call::OfValue,
        },
    ),
    (
        "not",
        function(&[Type::Value], None, |_, v| {
            Ok(Value::Bool(!v[0].is_true()))
        }),
    ),
    (
        "html",
        function(&[], Some(Type::Any), |_, v| {
            Ok(Value::text(html(&joined(v)?)))
        }),
    ),
    (
        "js",
        function(&[], Some(Type::Any), |_, v| {
            Ok(Value::text(js(&joined(v)?)))
        }),
    ),
    (
        "urlquery",
        function(&[], Some(Type::Any), |_, v| {
            Ok(Value::text(query_escape(&joined(v)?)))
        }),
    ),
    ("index", function(&[Type::Value], Some(Type::Value), index)),
    ("len", function(&[Type::Value], None, length)),
    (
        "print",
        function(&[], Some(Type::Any), |_, v| {
            Ok(Value::text(print::sprint(v)?))
        }),
    ),
    (
        "println",
        function(&[], Some(Type::Any), |_, v| {
            Ok(Value::text(print::sprintln(v)?))
        }),
    ),
    (
        "printf",
        function(&[Type::Text], Some(Type::Any), |run, v| {
            Ok(Value::text(printf::sprintf(
                run,
                arg::text(&v[0]),
                &v[1..],
            )?))
        }),
    ),
    (
        "eq",
        function(&[Type::Value], Some(Type::Value), |_, v| {
            Ok(Value::Bool(compare::equal(&v[0], &v[1..])?))
        }),
    ),
    (
        "ne",
        function(&[Type::Value, Type::Value], None, |_, v| {
            Ok(Value::Bool(!compare::equal(&v[0], &v[1..])?))
        }),
    ),
    (
        "lt",
        function(&[Type::Value, Type::Value], None, |_, v| {
            Ok(Value::Bool(compare::less(&v[0], &v[1])?))
        }),
    ),
    (
        "le",
        function(&[Type::Value, Type::Value], None, |_, v| {
            Ok(Value::Bool(compare::less_or_equal(&v[0], &v[1])?))
        }),
    ),
    (
        "gt",
        function(&[Type::Value, Type::Value], None, |_, v| {
            Ok(Value::Bool(!compare::less_or_equal(&v[0], &v[1])?))
        }),
    ),
    (
        "ge",
        function(&[Type::Value, Type::Value], None, |_, v| {
            Ok(Value::Bool(!compare::less(&v[0], &v[1])?))
        }),
    ),
];

/// Values are never functions, so a call of a value is always an error.
pub(crate) fn call_of(arguments: &[Value], shown: Option<String>) -> Failure {
    match arguments.first() {
        None | Some(Value::Nil) => "call of nil".into(),
        Some(value) => {
            let name = shown.unwrap_or_else(|| format!("<{} Value>", value.type_name()));
            format!("non-function {name} of type {}", value.type_name()).into()
        }
    }
}

/// The arguments as one text, nothing as `<no value>`.
fn joined(values: &[Value]) -> Result<String, Failure> {
    let shown: Vec<Value> = values
        .iter()
        .map(|value| match value {
            Value::Nil => Value::text("<no value>"),
            value => value.clone(),
        })
        .collect();
    print::sprint(&shown)
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => {
                out.push('\\');
                out.push(c);
            }
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c if !c.is_ascii() && !is_printable(c) => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Everything but letters, digits and `-_.~` as percent signs, spaces as a plus.
pub(crate) fn query_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn length(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let length = match &values[0] {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.len(),
        Value::Nil => {
            return Err("reflect: call of reflect.Value.Type on zero Value".into());
        }
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::int(length as i64))
}

fn index(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let (first, indexes) = values.split_first().ok_or("missing argument")?;
    if matches!(first, Value::Nil) {
        return Err("index of untyped nil".into());
    }
    let mut item = first.clone();
    for index in indexes {
        item = match &item {
            Value::Nil => return Err("index of nil pointer".into()),
            Value::List(list) => {
                let at = index_of(index, list.items.len())?;
                let found = list.items.get(at).cloned();
                found.ok_or("reflect: slice index out of range")?
            }
            Value::Text(text) => {
                let at = index_of(index, text.len())?;
                let byte = text.as_bytes().get(at).copied();
                let byte = byte.ok_or("reflect: string index out of range")?;
                Value::Int(i64::from(byte), IntType::Uint8)
            }
            Value::Map(map) => {
                let key = match index {
                    Value::Text(key) => key,
                    Value::Nil => return Err("value is nil; should be of type string".into()),
                    other => {
                        let name = other.type_name();
                        return Err(format!("value has type {name}; should be string").into());
                    }
                };
                match map.get(key) {
                    Some(value) => value,
                    None if map.texts => Value::text(""),
                    None => Value::Nil,
                }
            }
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}

fn index_of(index: &Value, length: usize) -> Result<usize, Failure> {
    let number = match index {
        Value::Int(number, _) => *number,
        Value::Nil => return Err("cannot index slice/array with nil".into()),
        other => {
            let name = other.type_name();
            return Err(format!("cannot index slice/array with type {name}").into());
        }
    };
    match usize::try_from(number) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(format!("index out of range: {number}").into()),
    }
}
