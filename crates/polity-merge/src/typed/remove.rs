//! Removing paths from a value.

use serde_json::{Map, Value};

use super::{Shape, Type};
use crate::fields::{FieldSet, PathElement};

/// How to treat a container that loses its last part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// It stays as a null, so that its own path is still there.
    Null,
    /// The container is removed.
    Gone,
}

/// `value` without the paths of `gone`.
pub(crate) fn remove(ty: Type<'_>, value: Value, gone: &FieldSet, emptied: Emptied) -> Value {
    without(ty, value, gone, emptied).unwrap_or_else(|| Value::Object(Map::new()))
}

fn without(ty: Type<'_>, value: Value, gone: &FieldSet, emptied: Emptied) -> Option<Value> {
    let instead = || (emptied == Emptied::Null).then_some(Value::Null);
    if gone.is_empty() {
        return Some(value);
    }
    match (ty.shape(&value), value) {
        (Shape::Map, Value::Object(map)) => {
            let was_empty = map.is_empty();
            let kept: Map<_, _> = map
                .into_iter()
                .filter_map(|(name, value)| {
                    let element = PathElement::Field(name);
                    let value = keep(
                        ty.child(&element).unwrap_or(Type::Deduced),
                        &element,
                        value,
                        gone,
                        emptied,
                    )?;
                    let PathElement::Field(name) = element else {
                        return None;
                    };
                    Some((name, value))
                })
                .collect();
            if was_empty || !kept.is_empty() {
                Some(Value::Object(kept))
            } else {
                instead()
            }
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(items)) => {
            let was_empty = items.is_empty();
            let kept: Vec<_> = items
                .into_iter()
                .filter_map(|item| match ty.identify(shape, &item) {
                    Ok(element) => keep(ty.element(), &element, item, gone, emptied),
                    Err(_) => Some(item),
                })
                .collect();
            if was_empty || !kept.is_empty() {
                Some(Value::Array(kept))
            } else {
                instead()
            }
        }
        (_, value) => Some(value),
    }
}

fn keep(
    ty: Type<'_>,
    element: &PathElement,
    value: Value,
    gone: &FieldSet,
    emptied: Emptied,
) -> Option<Value> {
    if gone.owns(element) {
        return None;
    }
    match gone.below(element) {
        None => Some(value),
        Some(below) => without(ty, value, below, emptied),
    }
}
