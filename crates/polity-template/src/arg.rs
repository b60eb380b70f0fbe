//! Accessors for arguments after their types were checked.

use std::rc::Rc;

use crate::function::Failure;
use crate::value::{Map, Value};

pub(crate) fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

pub(crate) fn rc(value: &Value) -> Rc<str> {
    match value {
        Value::Text(text) => text.clone(),
        _ => Rc::from(""),
    }
}

pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number, _) => *number,
        _ => 0,
    }
}

pub(crate) fn truth(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

pub(crate) fn map(value: &Value) -> Option<&Rc<Map>> {
    match value {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// The items of a list. For other values, the error names the kind.
pub(crate) fn items<'v>(value: &'v Value, what: &str) -> Result<&'v [Value], Failure> {
    match value {
        Value::List(list) => Ok(&list.items),
        Value::Nil => Err(NIL_TYPE.into()),
        other => Err(format!("{what} {}", other.kind_name()).into()),
    }
}

/// Go's message for the kind of nil.
pub(crate) const NIL_TYPE: &str =
    "runtime error: invalid memory address or nil pointer dereference";
