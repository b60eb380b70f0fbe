//! Conversion of any value to a number, as in `spf13/cast`: a value that is not a number becomes zero.

use crate::syntax::number::{parse_float, parse_int};
use crate::value::Value;

pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(number, _) => *number,
        // Durations and similar types are not basic types for the cast.
        Value::Float(number) => go_int(*number),
        Value::Text(text) => parse_int(without_zero_decimals(text), 0).unwrap_or(0),
        Value::Bool(truth) => i64::from(*truth),
        _ => 0,
    }
}

pub(crate) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(number, _) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) => parse_float(text).unwrap_or(0.0),
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        _ => 0.0,
    }
}

/// A float beyond the range of integers becomes the least one, as on amd64.
fn go_int(number: f64) -> i64 {
    if number.is_nan() || number >= 9_223_372_036_854_775_808.0 {
        i64::MIN
    } else {
        number as i64
    }
}

/// `12.000` is twelve.
fn without_zero_decimals(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    }
}
