//! Defaults for empty values.

use super::json;
use crate::arg::{text, truth};
use crate::function::{Function, Type, function};
use crate::value::Value;

const A: Type = Type::Any;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "default",
        function(&[A], Some(A), |_, v| {
            let given = v.get(1).filter(|value| value.is_true());
            Ok(given.unwrap_or(&v[0]).clone())
        }),
    ),
    (
        "empty",
        function(&[A], None, |_, v| Ok(Value::Bool(!v[0].is_true()))),
    ),
    (
        "coalesce",
        function(&[], Some(A), |_, v| {
            let found = v.iter().find(|value| value.is_true());
            Ok(found.cloned().unwrap_or(Value::Nil))
        }),
    ),
    (
        "all",
        function(&[], Some(A), |_, v| {
            Ok(Value::Bool(v.iter().all(Value::is_true)))
        }),
    ),
    (
        "any",
        function(&[], Some(A), |_, v| {
            Ok(Value::Bool(v.iter().any(Value::is_true)))
        }),
    ),
    (
        "ternary",
        function(&[A, A, Type::Bool], None, |_, v| {
            Ok(if truth(&v[2]) {
                v[0].clone()
            } else {
                v[1].clone()
            })
        }),
    ),
    ("fromJson", FROM_JSON),
    ("fromJSON", FROM_JSON),
    ("mustFromJson", MUST_FROM_JSON),
    ("mustFromJSON", MUST_FROM_JSON),
    ("toJson", TO_JSON),
    ("toJSON", TO_JSON),
    ("mustToJson", MUST_TO_JSON),
    ("mustToJSON", MUST_TO_JSON),
    ("toRawJson", TO_RAW_JSON),
    ("toRawJSON", TO_RAW_JSON),
    ("mustToRawJson", TO_RAW_JSON),
    ("mustToRawJSON", TO_RAW_JSON),
    (
        "toPrettyJson",
        function(&[A], None, |run, v| {
            json::lenient(json::write(run, &v[0], json::Style::Pretty))
        }),
    ),
    (
        "mustToPrettyJson",
        function(&[A], None, |run, v| {
            Ok(Value::text(json::write(run, &v[0], json::Style::Pretty)?))
        }),
    ),
];

const FROM_JSON: Function = function(&[Type::Text], None, |_, v| {
    Ok(json::read(text(&v[0])).unwrap_or(Value::Nil))
});

const MUST_FROM_JSON: Function = function(&[Type::Text], None, |_, v| json::read(text(&v[0])));

const TO_JSON: Function = function(&[A], None, |run, v| {
    json::lenient(json::write(run, &v[0], json::Style::Safe))
});

const MUST_TO_JSON: Function = function(&[A], None, |run, v| {
    Ok(Value::text(json::write(run, &v[0], json::Style::Safe)?))
});

const TO_RAW_JSON: Function = function(&[A], None, |run, v| {
    Ok(Value::text(json::write(run, &v[0], json::Style::Raw)?))
});
