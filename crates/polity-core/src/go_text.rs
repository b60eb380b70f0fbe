//! Values as Go prints them: messages that people and other software match on were written by it.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A float as `%v` prints it: the shortest digits that read back as this number, with an exponent below 1e-4 and from
/// 1e6 on.
pub fn float(float: f64) -> String {
    if !float.is_finite() {
        return match (float.is_nan(), float > 0.0) {
            (true, _) => "NaN".to_owned(),
            (false, true) => "+Inf".to_owned(),
            (false, false) => "-Inf".to_owned(),
        };
    }
    let (mantissa, exponent) = scientific(float);
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A finite float in JSON: whole ones without a fraction, with an exponent below 1e-6 and from 1e21 on.
pub fn json_float(float: f64) -> String {
    let (mantissa, exponent) = scientific(float);
    if float == 0.0 || (-6..21).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{}", exponent.abs())
}

/// The shortest digits with one of them before the point, and the power of ten.
fn scientific(float: f64) -> (String, i32) {
    let mut text = format!("{float:e}");
    let exponent = text.find('e').and_then(|at| {
        let exponent = text[at + 1..].parse().ok();
        text.truncate(at);
        exponent
    });
    (text, exponent.unwrap_or(0))
}

/// Which characters of a JSON text are escaped besides those that must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonEscapes {
    /// What could end a script element, as `encoding/json` does unless it is told otherwise.
    #[default]
    Html,
    /// None.
    Plain,
}

/// Appends a text in JSON, quotes included. The two line separators of JavaScript are always escaped.
pub fn write_json_text(text: &str, escapes: JsonEscapes, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if escapes == JsonEscapes::Plain => out.push(c),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// A decoded value as `%v` prints it: `map[a:1 b:[x y]]`, `<nil>`, `true`, `1e+06`.
pub fn value(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&self::number(number)),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_value(item, out);
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
                write_value(value, out);
            }
            out.push(']');
        }
    }
}

/// A decoded number as `%v` prints it. What does not fit an int64 was decoded as a float.
fn number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(number)) => float(number),
        (None, None) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (number, plain, json) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (11.0, "11", "11"),
            (0.5, "0.5", "0.5"),
            (-0.000_01, "-1e-05", "-0.00001"),
            (-0.000_000_5, "-5e-07", "-5e-7"),
            (999_999.0, "999999", "999999"),
            (1_000_000.5, "1.0000005e+06", "1000000.5"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (1.5e300, "1.5e+300", "1.5e+300"),
        ] {
            assert_eq!(float(number), plain);
            assert_eq!(json_float(number), json);
        }
        assert_eq!(float(f64::NAN), "NaN");
        assert_eq!(float(f64::INFINITY), "+Inf");
        assert_eq!(float(f64::NEG_INFINITY), "-Inf");
    }

    #[test]
    fn texts_are_escaped_as_in_go() {
        let written = |escapes| {
            let mut out = String::new();
            write_json_text("<a>&\u{2028}\u{1}\u{8}\u{7f}\"\\é", escapes, &mut out);
            out
        };
        assert_eq!(
            written(JsonEscapes::Html),
            "\"\\u003ca\\u003e\\u0026\\u2028\\u0001\\b\u{7f}\\\"\\\\é\""
        );
        assert_eq!(
            written(JsonEscapes::Plain),
            "\"<a>&\\u2028\\u0001\\b\u{7f}\\\"\\\\é\""
        );
    }

    #[test]
    fn values_print_as_in_go() {
        for (given, expected) in [
            (json!(null), "<nil>"),
            (json!(true), "true"),
            (json!(80), "80"),
            (json!(-1), "-1"),
            (json!(1.0), "1"),
            (json!(1e22), "1e+22"),
            (json!(u64::MAX), "1.8446744073709552e+19"),
            (json!("x"), "x"),
            (json!([1, "a", null]), "[1 a <nil>]"),
            (
                json!({"b": [true], "a": {"c": "d"}}),
                "map[a:map[c:d] b:[true]]",
            ),
            (json!({}), "map[]"),
        ] {
            assert_eq!(value(&given), expected, "{given}");
        }
    }
}
