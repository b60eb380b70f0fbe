//! Operators on values. Each pays for its work first.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, KeyRef};

use crate::budget::Budget;
use crate::convert;
use crate::expression::EvalError;
use crate::node::Operator;

/// A binary operator that evaluates both sides.
pub(crate) fn binary(
    operator: Operator,
    left: Value,
    right: Value,
    budget: &mut Budget,
) -> Result<Value, EvalError> {
    match operator {
        Operator::Equals => equals(&left, &right, budget).map(Value::Bool),
        Operator::NotEquals => equals(&left, &right, budget).map(|equal| Value::Bool(!equal)),
        Operator::In => contains(&left, &right, budget).map(Value::Bool),
        Operator::Less => ordered(&left, &right, budget, |order| order == Ordering::Less),
        Operator::LessEquals => ordered(&left, &right, budget, |order| order != Ordering::Greater),
        Operator::Greater => ordered(&left, &right, budget, |order| order == Ordering::Greater),
        Operator::GreaterEquals => ordered(&left, &right, budget, |order| order != Ordering::Less),
        Operator::Add => add(left, right, budget),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            arithmetic(operator, left, right)
        }
    }
}

/// Spends one unit for every element of a value and a tenth for every byte of its texts.
pub(crate) fn spend_deep(value: &Value, budget: &mut Budget) -> Result<(), EvalError> {
    match value {
        Value::String(text) => budget.spend_bytes(text.len())?,
        Value::Bytes(bytes) => budget.spend_bytes(bytes.len())?,
        Value::List(items) => {
            budget.spend(1)?;
            for item in items.iter() {
                spend_deep(item, budget)?;
            }
        }
        Value::Map(entries) => {
            budget.spend(1)?;
            for (key, item) in entries.map.iter() {
                if let Key::String(name) = key {
                    budget.spend_bytes(name.len())?;
                }
                spend_deep(item, budget)?;
            }
        }
        _ => budget.spend(1)?,
    }
    Ok(())
}

/// Equality, across the numeric types and as deep as the values are.
pub(crate) fn equals(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    budget.spend(1)?;
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            budget.spend_bytes(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.spend_bytes(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (x, y) in a.iter().zip(b.iter()) {
                if !equals(x, y, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.map.len() != b.map.len() {
                return Ok(false);
            }
            for (key, x) in a.map.iter() {
                match b.get(key) {
                    Some(y) if equals(x, y, budget)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => Ok(left == right),
    }
}

fn contains(item: &Value, container: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    match container {
        Value::List(items) => {
            for candidate in items.iter() {
                if equals(candidate, item, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(entries) => {
            if let Value::String(text) = item {
                budget.spend_bytes(text.len())?;
            }
            Ok(key_ref(item).is_some_and(|key| entries.get(&key).is_some()))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A value as the key of a map. A double without a fractional part equals the integer.
pub(crate) fn key_ref(value: &Value) -> Option<KeyRef<'_>> {
    match value {
        Value::Int(value) => Some(KeyRef::Int(*value)),
        Value::UInt(value) => Some(KeyRef::Uint(*value)),
        Value::Bool(value) => Some(KeyRef::Bool(*value)),
        Value::String(text) => Some(KeyRef::String(text.as_str())),
        _ => None,
    }
}

/// How two values compare; nothing for NaN.
pub(crate) fn compare(
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Option<Ordering>, EvalError> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => budget.spend_bytes(a.len().min(b.len()))?,
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.spend_bytes(a.len().min(b.len()))?;
            return Ok(Some(a.cmp(b)));
        }
        (Value::Float(a), _) if a.is_nan() => return Ok(None),
        (_, Value::Float(b)) if b.is_nan() => return Ok(None),
        (Value::Null, _) | (_, Value::Null) => return Err(EvalError::NoSuchOverload),
        _ => {}
    }
    left.partial_cmp(right)
        .map(Some)
        .ok_or(EvalError::NoSuchOverload)
}

fn ordered(
    left: &Value,
    right: &Value,
    budget: &mut Budget,
    holds: impl Fn(Ordering) -> bool,
) -> Result<Value, EvalError> {
    Ok(Value::Bool(
        compare(left, right, budget)?.is_some_and(holds),
    ))
}

fn add(left: Value, right: Value, budget: &mut Budget) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            budget.spend_bytes(a.len() + b.len())?;
            Ok(Value::String(Arc::new([a.as_str(), b.as_str()].concat())))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.spend_bytes(a.len() + b.len())?;
            Ok(Value::Bytes(Arc::new(
                [a.as_slice(), b.as_slice()].concat(),
            )))
        }
        (Value::List(a), Value::List(b)) => {
            budget.spend((a.len() + b.len()) as u64)?;
            Ok(Value::List(Arc::new(
                a.iter().chain(b.iter()).cloned().collect(),
            )))
        }
        (left @ Value::Duration(_), right @ Value::Timestamp(_)) => {
            arithmetic(Operator::Add, right, left)
        }
        (left, right) => arithmetic(Operator::Add, left, right),
    }
}

fn arithmetic(operator: Operator, left: Value, right: Value) -> Result<Value, EvalError> {
    let overflow = || EvalError::Failed("integer overflow".into());
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            check_divisor(operator, b == 0)?;
            let result = match operator {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            result.map(Value::Int).ok_or_else(overflow)
        }
        (Value::UInt(a), Value::UInt(b)) => {
            check_divisor(operator, b == 0)?;
            let result = match operator {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            let overflow = || EvalError::Failed("unsigned integer overflow".into());
            result.map(Value::UInt).ok_or_else(overflow)
        }
        (Value::Float(a), Value::Float(b)) => match operator {
            Operator::Add => Ok(Value::Float(a + b)),
            Operator::Subtract => Ok(Value::Float(a - b)),
            Operator::Multiply => Ok(Value::Float(a * b)),
            Operator::Divide => Ok(Value::Float(a / b)),
            _ => Err(EvalError::NoSuchOverload),
        },
        (
            left @ (Value::Timestamp(_) | Value::Duration(_)),
            right @ (Value::Timestamp(_) | Value::Duration(_)),
        ) => {
            let result = match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                _ => return Err(EvalError::NoSuchOverload),
            };
            result.map_err(|error| match error {
                kube_cel::cel::ExecutionError::Overflow(..) => {
                    EvalError::Failed("timestamp overflow".into())
                }
                _ => EvalError::NoSuchOverload,
            })
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn check_divisor(operator: Operator, is_zero: bool) -> Result<(), EvalError> {
    match operator {
        Operator::Divide if is_zero => Err(EvalError::Failed("division by zero".into())),
        Operator::Modulo if is_zero => Err(EvalError::Failed("modulus by zero".into())),
        _ => Ok(()),
    }
}

/// `-x`
pub(crate) fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(value) => value
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| EvalError::Failed("integer overflow".into())),
        Value::Float(value) => Ok(Value::Float(-value)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// `container[index]`; on an optional the result is an optional.
pub(crate) fn index(container: &Value, index: &Value) -> Result<Value, EvalError> {
    if let Some(held) = convert::held(container) {
        let found = held.and_then(|inner| lookup(inner, index).ok().flatten());
        return Ok(convert::optional(found));
    }
    lookup(container, index)?.ok_or_else(|| match container {
        Value::List(_) => EvalError::Failed(format!("index out of bounds: {}", shown(index))),
        _ => EvalError::NoSuchKey(shown(index)),
    })
}

/// `container[?index]`
pub(crate) fn optional_index(container: &Value, index: &Value) -> Result<Value, EvalError> {
    let inner = match convert::held(container) {
        Some(None) => return Ok(convert::optional(None)),
        Some(Some(inner)) => inner,
        None => container,
    };
    lookup(inner, index).map(convert::optional)
}

fn lookup(container: &Value, index: &Value) -> Result<Option<Value>, EvalError> {
    match container {
        Value::List(items) => {
            let place = match index {
                Value::Int(value) => usize::try_from(*value).ok(),
                Value::UInt(value) => usize::try_from(*value).ok(),
                Value::Float(value) if value.fract() == 0.0 && *value >= 0.0 => {
                    Some(*value as usize)
                }
                _ => return Err(EvalError::NoSuchOverload),
            };
            Ok(place.and_then(|place| items.get(place).cloned()))
        }
        Value::Map(entries) => {
            let key = key_ref(index).ok_or(EvalError::NoSuchOverload)?;
            Ok(entries.get(&key).cloned())
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.as_ref().clone(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        other => convert::type_name(other).to_owned(),
    }
}
