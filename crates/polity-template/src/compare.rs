//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`: basic values of the same kind, regardless of their type.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::function::Failure;
use crate::value::{IntType, Value};

const BAD_TYPE: &str = "invalid type for comparison";

/// The kind of a value in comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    Text,
    Other,
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Bool,
        Value::Int(_, IntType::Uint8 | IntType::Uint32 | IntType::Uint64) => Kind::Uint,
        Value::Int(..) | Value::Duration(_) => Kind::Int,
        Value::Float(_) => Kind::Float,
        Value::Text(_) => Kind::Text,
        _ => Kind::Other,
    }
}

/// As a number without loss, for values that compare as integers.
fn wide(value: &Value) -> i128 {
    match value {
        Value::Int(number, IntType::Uint64) => i128::from(*number as u64),
        Value::Int(number, _) | Value::Duration(number) => i128::from(*number),
        _ => 0,
    }
}

/// Is the first equal to any of the others?
pub(crate) fn equal(first: &Value, others: &[Value]) -> Result<bool, Failure> {
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal_two(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_two(a: &Value, b: &Value) -> Result<bool, Failure> {
    let (a_kind, b_kind) = (kind(a), kind(b));
    let both_integers = |kind| matches!(kind, Kind::Int | Kind::Uint);
    if both_integers(a_kind) && both_integers(b_kind) {
        return Ok(wide(a) == wide(b));
    }
    if a_kind != b_kind {
        if matches!(a, Value::Nil) || matches!(b, Value::Nil) {
            return Ok(false);
        }
        return Err(incompatible(a, b));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b) == Some(Ordering::Equal)),
        (Value::Text(a), Value::Text(b)) => Ok(a == b),
        _ => equal_others(a, b),
    }
}

fn equal_others(a: &Value, b: &Value) -> Result<bool, Failure> {
    let nothing = |value: &Value| matches!(value, Value::Nil);
    if a.kind_name() != b.kind_name() && !nothing(a) && !nothing(b) {
        // Go's message has the two values in reverse order.
        let (a_type, b_type) = (a.type_name(), b.type_name());
        let (a, b) = (crate::printf::as_text(a)?, crate::print::plain(b)?);
        let message = format!("non-comparable types {a}: {a_type}, {b_type}: {b}");
        return Err(message.into());
    }
    if a.is_nil() || b.is_nil() {
        return Ok(a.is_nil() == b.is_nil());
    }
    match (a, b) {
        (_, Value::List(_) | Value::Map(_)) => {
            let (name, shown) = (b.type_name(), crate::printf::as_text(b)?);
            Err(format!("non-comparable type {shown}: {name}").into())
        }
        (Value::Time(a), Value::Time(b)) => Ok(a.timestamp() == b.timestamp()),
        (Value::Version(a), Value::Version(b)) => Ok(Rc::ptr_eq(a, b)),
        (a, b) => Ok(a.deep_equal(b, 0).unwrap_or(false)),
    }
}

fn incompatible(a: &Value, b: &Value) -> Failure {
    let (a, b) = (a.type_name(), b.type_name());
    format!("incompatible types for comparison: {a} and {b}").into()
}

/// Is the first less than the second?
pub(crate) fn less(a: &Value, b: &Value) -> Result<bool, Failure> {
    let (a_kind, b_kind) = (kind(a), kind(b));
    if a_kind == Kind::Other || b_kind == Kind::Other {
        return Err(BAD_TYPE.into());
    }
    let both_integers = |kind| matches!(kind, Kind::Int | Kind::Uint);
    if both_integers(a_kind) && both_integers(b_kind) {
        return Ok(wide(a) < wide(b));
    }
    match (a, b) {
        _ if a_kind != b_kind => Err(incompatible(a, b)),
        (Value::Float(a), Value::Float(b)) => Ok(a < b),
        (Value::Text(a), Value::Text(b)) => Ok(a < b),
        _ => Err(BAD_TYPE.into()),
    }
}

/// `<=` is less or equal.
pub(crate) fn less_or_equal(a: &Value, b: &Value) -> Result<bool, Failure> {
    Ok(less(a, b)? || equal_two(a, b)?)
}
