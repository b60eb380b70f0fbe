//! Values between JSON and CEL, and from one CEL type to another.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map, Opaque, OptionalValue};
use serde_json::Value as Json;

use crate::budget::Budget;
use crate::expression::EvalError;
use crate::library::{Conversion, library_function};

/// A type as a value: the result of `type(x)`, and the meaning of `string` in `type(x) == string`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TypeName(pub(crate) String);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

/// The names an expression may use for types.
const TYPE_NAMES: [&str; 17] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "net.IP",
    "net.CIDR",
    "kubernetes.URL",
    "kubernetes.Quantity",
];

/// The type an identifier names, as a value.
pub(crate) fn named_type(name: &str) -> Option<Value> {
    TYPE_NAMES
        .contains(&name)
        .then(|| Value::Opaque(Arc::new(TypeName(name.to_owned()))))
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Value) -> &str {
    match value {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Function(..) => "function",
    }
}

pub(crate) fn is_number_or_duration(value: &Value) -> bool {
    matches!(
        value,
        Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Duration(_)
    )
}

/// A map of CEL.
pub(crate) fn map(entries: HashMap<Key, Value>) -> Value {
    Value::Map(Map {
        map: Arc::new(entries),
    })
}

/// A string key of a map.
pub(crate) fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// An optional value of CEL.
pub(crate) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(
        value.map_or_else(OptionalValue::none, OptionalValue::of),
    ))
}

/// The content of an optional. Returns `None` if the value is not an optional.
#[expect(
    clippy::option_option,
    reason = "no optional, an empty one, a full one"
)]
pub(crate) fn held(value: &Value) -> Option<Option<&Value>> {
    match value {
        Value::Opaque(opaque) => opaque
            .downcast_ref::<OptionalValue>()
            .map(OptionalValue::value),
        _ => None,
    }
}

/// A JSON value without any schema.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value),
            (None, Some(value)) => Value::UInt(value),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(from_json).collect())),
        Json::Object(members) => map(members
            .iter()
            .map(|(name, value)| (key(name), from_json(value)))
            .collect()),
    }
}

/// The member of a cluster's object that holds its scores. No field of an object is called so.
const SCORES: &str = "@scores";

/// A cluster's object with its scores, by the name of their resource.
pub(crate) fn cluster_with_scores(object: &Json, scores: &Json) -> Value {
    let members = object.as_object().into_iter().flatten();
    let members = members.map(|(name, value)| (key(name), from_json(value)));
    map(members.chain([(key(SCORES), from_json(scores))]).collect())
}

/// The scores of a cluster under one name, none if it has none.
pub(crate) fn scores(cluster: &Value, resource: &str) -> Value {
    let member = |value: &Value, name: &str| match value {
        Value::Map(members) => members.map.get(&key(name)).cloned(),
        _ => None,
    };
    member(cluster, SCORES)
        .and_then(|scores| member(&scores, resource))
        .unwrap_or_else(|| Value::List(Arc::new(Vec::new())))
}

/// A value as JSON, where it has a form there.
pub(crate) fn to_json(value: &Value, budget: &mut Budget) -> Result<Json, EvalError> {
    budget.spend(1)?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::UInt(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::String(text) => Json::String(text.as_ref().clone()),
        Value::List(items) => {
            let items: Result<_, _> = items.iter().map(|item| to_json(item, budget)).collect();
            Json::Array(items?)
        }
        Value::Map(entries) => {
            let members: Result<_, EvalError> = entries
                .map
                .iter()
                .map(|(key, value)| match key {
                    Key::String(name) => Ok((name.as_ref().clone(), to_json(value, budget)?)),
                    _ => Err(EvalError::NoSuchOverload),
                })
                .collect();
            Json::Object(members?)
        }
        Value::Timestamp(_) | Value::Duration(_) => match convert(Conversion::String, value)? {
            Value::String(text) => Json::String(text.as_ref().clone()),
            _ => return Err(EvalError::NoSuchOverload),
        },
        other => {
            return Err(EvalError::Failed(format!(
                "{} has no JSON form",
                type_name(other)
            )));
        }
    })
}

/// One of the conversion functions.
pub(crate) fn convert(conversion: Conversion, value: &Value) -> Result<Value, EvalError> {
    match conversion {
        Conversion::Int => to_int(value),
        Conversion::Uint => to_uint(value),
        Conversion::Double => to_double(value),
        Conversion::Bool => to_bool(value),
        Conversion::String => to_string(value),
        Conversion::Bytes => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(Arc::new(text.as_bytes().to_vec()))),
            _ => Err(EvalError::NoSuchOverload),
        },
        Conversion::Duration => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::String(text) => duration(text),
            Value::Int(seconds) => duration(&format!("{seconds}s")),
            _ => Err(EvalError::NoSuchOverload),
        },
        Conversion::Timestamp => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::String(text) => timestamp(text),
            Value::Int(seconds) => {
                let since = duration(&format!("{seconds}s"))?;
                (timestamp("1970-01-01T00:00:00Z")? + since).map_err(|_| overflow("timestamp"))
            }
            _ => Err(EvalError::NoSuchOverload),
        },
    }
}

fn overflow(kind: &str) -> EvalError {
    EvalError::Failed(format!("{kind} overflow"))
}

fn failed(from: &Value, to: &str) -> EvalError {
    EvalError::Failed(format!(
        "type conversion error from '{}' to '{to}'",
        type_name(from)
    ))
}

fn to_int(value: &Value) -> Result<Value, EvalError> {
    // The first float beyond the range. The last one within it is not i64::MAX.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    Ok(Value::Int(match value {
        Value::Int(value) => *value,
        Value::UInt(value) => i64::try_from(*value).map_err(|_| overflow("integer"))?,
        Value::Float(value) if *value > -LIMIT && *value < LIMIT => *value as i64,
        Value::Float(_) => return Err(overflow("integer")),
        Value::String(text) => text.parse().map_err(|_| failed(value, "int"))?,
        Value::Timestamp(time) => time.timestamp(),
        Value::Duration(span) => span.num_nanoseconds().ok_or_else(|| overflow("integer"))?,
        _ => return Err(EvalError::NoSuchOverload),
    }))
}

fn to_uint(value: &Value) -> Result<Value, EvalError> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    Ok(Value::UInt(match value {
        Value::Int(value) => u64::try_from(*value).map_err(|_| overflow("unsigned integer"))?,
        Value::UInt(value) => *value,
        Value::Float(value) if *value >= 0.0 && *value < LIMIT => *value as u64,
        Value::Float(_) => return Err(overflow("unsigned integer")),
        Value::String(text) => text.parse().map_err(|_| failed(value, "uint"))?,
        _ => return Err(EvalError::NoSuchOverload),
    }))
}

fn to_double(value: &Value) -> Result<Value, EvalError> {
    Ok(Value::Float(match value {
        Value::Int(value) => *value as f64,
        Value::UInt(value) => *value as f64,
        Value::Float(value) => *value,
        Value::String(text) => text.parse().map_err(|_| failed(value, "double"))?,
        _ => return Err(EvalError::NoSuchOverload),
    }))
}

fn to_bool(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed(value, "bool")),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_string(value: &Value) -> Result<Value, EvalError> {
    let text = match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes.as_ref().clone()).map_err(|_| {
            EvalError::Failed("invalid UTF-8 in bytes, cannot convert to string".into())
        })?,
        Value::Timestamp(time) => time.to_rfc3339().replace("+00:00", "Z"),
        Value::Duration(span) => {
            let seconds = span.num_nanoseconds().ok_or_else(|| overflow("duration"))? as f64 / 1e9;
            format!("{seconds}s")
        }
        Value::Opaque(_) => return library_function("string", value.clone()),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::String(Arc::new(text)))
}

/// Parses an RFC 3339 time. It is stored in UTC, which its accessors use.
pub(crate) fn timestamp(text: &str) -> Result<Value, EvalError> {
    match library_function("timestamp", text.into())? {
        Value::Timestamp(time) => Ok(Value::Timestamp(time.to_utc().fixed_offset())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Parses a Go duration such as `1h30m`, within ± 292 years.
pub(crate) fn duration(text: &str) -> Result<Value, EvalError> {
    let invalid = || EvalError::Failed(format!("time: invalid duration {text:?}"));
    let parsed = polity_core::duration::parse(text).map_err(|_| invalid())?;
    // The library sums up floats, so it gets parts that floats hold exactly.
    let sign = if parsed.is_negative() { "-" } else { "" };
    let magnitude = parsed.as_nanos().unsigned_abs();
    let (seconds, rest) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
    library_function("duration", format!("{sign}{seconds}s{rest}ns").into()).map_err(|_| invalid())
}

/// The bytes of a base64 text.
pub(crate) fn base64(text: &str) -> Option<Value> {
    library_function("base64.decode", text.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_last_nanosecond() {
        for text in ["", "1", "1x", "9999999999h9999999999h"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
        let Ok(Value::Duration(span)) = duration("-9007199254740993ns") else {
            panic!()
        };
        assert_eq!(span.num_nanoseconds(), Some(-9_007_199_254_740_993));
    }
}
