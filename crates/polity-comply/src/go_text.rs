//! Values printed as Go's `%v` does: what comparing by printed form, and sorting lists, is about (11.4).

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The printed form: `map[a:1 b:[x y]]`, `<nil>`, `true`, `1e+06`.
pub(crate) fn go_text(value: &Value) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

/// Whether two values have the same printed form, without printing where that can be seen at once.
pub(crate) fn same_text(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => a == b || go_text(a) == go_text(b),
    }
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => print_number(number, out),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push_str("map[");
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(value, out);
            }
            out.push(']');
        }
    }
}

fn print_number(number: &Number, out: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => print_float(float, out),
        _ => _ = write!(out, "{number}"),
    }
}

/// `%v` of a float: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn print_float(float: f64, out: &mut String) {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        _ = write!(out, "{digits}e{sign}{exponent:0>2}");
    } else {
        _ = write!(out, "{float}");
    }
}

/// How Go calls the type of a decoded value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_go() {
        for (value, expected) in [
            (json!(null), "<nil>"),
            (json!(true), "true"),
            (json!(80), "80"),
            (json!(-1), "-1"),
            (json!(0.5), "0.5"),
            (json!(1.0), "1"),
            (json!(1e22), "1e+22"),
            (json!(1_000_000.5), "1.0000005e+06"),
            (json!(1.5e-7), "1.5e-07"),
            (json!("x"), "x"),
            (json!([1, "a", null]), "[1 a <nil>]"),
            (
                json!({"b": [true], "a": {"c": "d"}}),
                "map[a:map[c:d] b:[true]]",
            ),
            (json!({}), "map[]"),
        ] {
            assert_eq!(go_text(&value), expected, "{value}");
        }
    }

    #[test]
    fn the_same_text_may_come_from_other_types() {
        assert!(same_text(&json!("80"), &json!(80)));
        assert!(same_text(&json!("true"), &json!(true)));
        assert!(!same_text(&json!("a"), &json!("b")));
        assert!(same_text(&json!("[a b]"), &json!(["a", "b"])));
    }
}
