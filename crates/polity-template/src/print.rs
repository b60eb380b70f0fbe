//! How values print: Go's `%v`, and its `Sprint` and `Sprintln`.

use polity_core::go_text;

use crate::function::Failure;
use crate::run::{exceeded, too_deep};
use crate::time;
use crate::value::{DEEPEST, IntType, Value};

/// A text longer than this is not made: it could not be written anyway.
const LONGEST: usize = 1 << 22;

/// A value as an action prints it: nothing is `<no value>`.
pub(crate) fn top(value: &Value) -> Result<String, Failure> {
    match value {
        Value::Nil => Ok("<no value>".to_owned()),
        value => plain(value),
    }
}

/// `%v`.
pub(crate) fn plain(value: &Value) -> Result<String, Failure> {
    let mut out = String::new();
    write(&mut out, value, Form::Plain, 0)?;
    Ok(out)
}

/// Which of the forms of `%v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// `%+v`: with the names of fields.
    Named,
}

pub(crate) fn write(
    out: &mut String,
    value: &Value,
    form: Form,
    depth: usize,
) -> Result<(), Failure> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    if out.len() > LONGEST {
        return Err(exceeded(&format!("{} MiB of text", LONGEST >> 20)));
    }
    match value {
        Value::Nil => out.push_str("<nil>"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number, IntType::Month) => out.push_str(time::month_name(*number)),
        Value::Int(number, IntType::Weekday) => out.push_str(time::weekday_name(*number)),
        Value::Int(number, IntType::Uint64) => out.push_str(&(*number as u64).to_string()),
        Value::Int(number, _) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&go_text::float(*number)),
        Value::Text(text) => out.push_str(text),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write(out, item, form, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push_str("map[");
            map.with_entries(|entries| {
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(' ');
                    }
                    out.push_str(key);
                    out.push(':');
                    write(out, value, form, depth + 1)?;
                }
                Ok::<(), Failure>(())
            })?;
            out.push(']');
        }
        Value::Time(time) => out.push_str(&time::text(time)),
        Value::Duration(nanoseconds) => out.push_str(&time::duration_text(*nanoseconds)),
        Value::Version(version) => out.push_str(&version.to_string()),
        Value::Struct(fields) => {
            out.push('{');
            for (i, (name, value)) in fields.fields.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                if form == Form::Named {
                    out.push_str(name);
                    out.push(':');
                }
                write(out, value, form, depth + 1)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// `Sprint`: a space between two values when neither is a text.
pub(crate) fn sprint(values: &[Value]) -> Result<String, Failure> {
    let mut out = String::new();
    let mut after_text = true;
    for (i, value) in values.iter().enumerate() {
        let is_text = matches!(value, Value::Text(_));
        if i > 0 && !is_text && !after_text {
            out.push(' ');
        }
        write(&mut out, value, Form::Plain, 0)?;
        after_text = is_text;
    }
    Ok(out)
}

/// `Sprintln`: a space between any two values, and a line break.
pub(crate) fn sprintln(values: &[Value]) -> Result<String, Failure> {
    let mut out = String::new();
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write(&mut out, value, Form::Plain, 0)?;
    }
    out.push('\n');
    Ok(out)
}

/// sprig's text of a value: a text unchanged, everything else printed.
pub(crate) fn strval(value: &Value) -> Result<std::rc::Rc<str>, Failure> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        value => Ok(plain(value)?.into()),
    }
}
