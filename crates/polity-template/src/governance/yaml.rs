//! `toYaml` and `fromYaml`.

use std::rc::Rc;

use polity_core::yaml_out::{Layout, to_yaml_in};

use crate::arg::text;
use crate::function::{Failure, Function, Type, function};
use crate::run::{Run, too_deep};
use crate::time;
use crate::value::{DEEPEST, Value};

pub(crate) const TABLE: &[(&str, Function)] = &[
    ("toYaml", TO_YAML),
    ("toYAML", TO_YAML),
    ("fromYaml", FROM_YAML),
    ("fromYAML", FROM_YAML),
];

const TO_YAML: Function = function(&[Type::Any], None, |run, v| {
    let json = to_json(run, &v[0], 0)?;
    let text = to_yaml_in(&json, Layout::Indented);
    Ok(Value::text(text.strip_suffix('\n').unwrap_or(&text)))
});

const FROM_YAML: Function = function(&[Type::Text], None, |_, v| {
    let json = parse(text(&v[0]))?;
    Ok(with_ints(&json))
});

/// YAML as Kubernetes reads it: `yes` is a boolean, `0644` is octal, and of several documents the first one counts.
pub(crate) fn parse(text: &str) -> Result<serde_json::Value, String> {
    let text = first_document(text);
    if text.trim().is_empty() {
        return Ok(serde_json::Value::Null);
    }
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        format!("yaml: {}", first.strip_prefix("error: ").unwrap_or(first))
    })
}

/// A text up to the line that begins its second document.
fn first_document(text: &str) -> &str {
    let is_mark = |line: &str| {
        line.strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let is_remark = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    let mut begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_mark(line) && begun {
            return &text[..at];
        }
        begun |= !is_remark(line);
        at += line.len();
    }
    text
}

/// Whole numbers of YAML are plain integers.
fn with_ints(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::int(whole),
            None => Value::Float(number.as_f64().unwrap_or(0.0)),
        },
        serde_json::Value::Array(items) => Value::list(items.iter().map(with_ints).collect()),
        serde_json::Value::Object(map) => Value::map(
            map.iter()
                .map(|(key, value)| (Rc::from(key.as_str()), with_ints(value))),
        ),
        other => Value::from(other),
    }
}

/// Converts a value to JSON. Values that JSON cannot represent are an error.
fn to_json(run: &mut Run<'_>, value: &Value, depth: usize) -> Result<serde_json::Value, Failure> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    run.spend(1)?;
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number, _) | Value::Duration(number) => (*number).into(),
        Value::Float(number) => match serde_json::Number::from_f64(*number) {
            Some(number) => number.into(),
            None => return Err("json: unsupported value".into()),
        },
        Value::Text(text) => text.to_string().into(),
        Value::Time(moment) => time::json_text(moment).into(),
        Value::Version(version) => version.to_string().into(),
        Value::List(list) if list.nil => serde_json::Value::Null,
        Value::List(list) => {
            let mut items = Vec::with_capacity(list.items.len());
            for item in &list.items {
                items.push(to_json(run, item, depth + 1)?);
            }
            items.into()
        }
        Value::Map(map) => {
            let mut object = serde_json::Map::new();
            for (key, value) in map.entries() {
                object.insert(key.to_string(), to_json(run, &value, depth + 1)?);
            }
            object.into()
        }
        Value::Struct(fields) => {
            let mut object = serde_json::Map::new();
            for (name, value) in &fields.fields {
                object.insert((*name).to_owned(), to_json(run, value, depth + 1)?);
            }
            object.into()
        }
    })
}
