//! The overloads of the binary operators.

use kube_cel::cel::common::ast::operators as op;

use crate::node::Operator;
use crate::types::Type;

pub(super) fn binary_operator(name: &str) -> Option<Operator> {
    Some(match name {
        op::ADD => Operator::Add,
        op::SUBSTRACT => Operator::Subtract,
        op::MULTIPLY => Operator::Multiply,
        op::DIVIDE => Operator::Divide,
        op::MODULO => Operator::Modulo,
        op::EQUALS => Operator::Equals,
        op::NOT_EQUALS => Operator::NotEquals,
        op::LESS => Operator::Less,
        op::LESS_EQUALS => Operator::LessEquals,
        op::GREATER => Operator::Greater,
        op::GREATER_EQUALS => Operator::GreaterEquals,
        op::IN => Operator::In,
        _ => return None,
    })
}

/// The type of a binary operation, or nothing where no overload fits.
pub(super) fn binary_type(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Double, Duration, Dyn, List, Timestamp};
    match operator {
        Operator::Equals | Operator::NotEquals => left.overlaps(right).then_some(Type::Bool),
        Operator::Less | Operator::LessEquals | Operator::Greater | Operator::GreaterEquals => {
            left.orders_with(right).then_some(Type::Bool)
        }
        Operator::In => match right {
            Dyn => Some(Type::Bool),
            List(element) => element.overlaps(left).then_some(Type::Bool),
            Type::Map(entry) => entry.0.overlaps(left).then_some(Type::Bool),
            _ => None,
        },
        Operator::Add => match (left, right) {
            (Timestamp, Duration) | (Duration, Timestamp) => Some(Timestamp),
            (Timestamp, Timestamp) => None,
            (Timestamp | Duration, Dyn) | (Dyn, Timestamp | Duration | Dyn) => Some(Dyn),
            (Dyn, other) | (other, Dyn) => is_summable(other).then(|| other.clone()),
            (List(a), List(b)) => a.overlaps(b).then(|| Type::list(a.join(b))),
            (a, b) => (a == b && is_summable(a)).then(|| a.clone()),
        },
        Operator::Subtract => match (left, right) {
            (Timestamp, Timestamp) | (Duration, Duration) => Some(Duration),
            (Timestamp, Duration) => Some(Timestamp),
            (Timestamp | Duration | Dyn, Dyn) | (Dyn, Timestamp | Duration) => Some(Dyn),
            _ => number_type(left, right),
        },
        Operator::Multiply | Operator::Divide => number_type(left, right),
        Operator::Modulo => number_type(left, right).filter(|kind| *kind != Double),
    }
}

fn is_summable(kind: &Type) -> bool {
    matches!(
        kind,
        Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Duration
            | Type::List(_)
    )
}

fn number_type(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Dyn, Type::Dyn) => Some(Type::Dyn),
        (Type::Dyn, kind @ (Type::Int | Type::Uint | Type::Double))
        | (kind @ (Type::Int | Type::Uint | Type::Double), Type::Dyn) => Some(kind.clone()),
        (Type::Int, Type::Int) | (Type::Uint, Type::Uint) | (Type::Double, Type::Double) => {
            Some(left.clone())
        }
        _ => None,
    }
}
