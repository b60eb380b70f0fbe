//! `%#v`: a value as Go source.

use std::fmt::Write as _;

use polity_core::go_text;

use crate::function::Failure;
use crate::print;
use crate::run::too_deep;
use crate::syntax::unquote::quote;
use crate::value::{DEEPEST, Value};

pub(crate) fn go_syntax(value: &Value) -> Result<String, Failure> {
    let mut out = String::new();
    write(&mut out, value, 0)?;
    Ok(out)
}

fn write(out: &mut String, value: &Value, depth: usize) -> Result<(), Failure> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    match value {
        Value::Nil => out.push_str("interface {}(nil)"),
        Value::Text(text) => out.push_str(&quote(text)),
        Value::Float(number) => out.push_str(&go_text::float(*number)),
        Value::List(list) => {
            out.push_str(value.type_name());
            if list.nil {
                out.push_str("(nil)");
                return Ok(());
            }
            out.push('{');
            for (i, item) in list.items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(out, item, depth + 1)?;
            }
            out.push('}');
        }
        Value::Map(map) => {
            let _ = write!(out, "{}{{", value.type_name());
            for (i, (key, item)) in map.entries().into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                let _ = write!(out, "{}:", quote(&key));
                write(out, &item, depth + 1)?;
            }
            out.push('}');
        }
        other => out.push_str(&print::plain(other)?),
    }
    Ok(())
}
