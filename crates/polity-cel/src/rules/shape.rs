//! The CEL type of the values that a schema describes, and the conversion of JSON to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use serde_json::Value as Json;

use crate::convert;
use crate::escape::escape;
use crate::types::Type;

/// The form of a value under a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// The schema has no type: int-or-string, and values that are preserved without a schema.
    #[default]
    Any,
    Bool,
    Integer,
    Number,
    Text(Format),
    List(Arc<Shape>),
    Map(Arc<Shape>),
    /// Fields by their JSON name, each with its name in expressions.
    Object(Arc<BTreeMap<String, (String, Shape)>>),
}

/// The formats that change the type of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    Byte,
    Date,
    DateTime,
    Duration,
}

impl Shape {
    /// The shape a schema describes, or nothing where expressions cannot see the value.
    pub(super) fn of(schema: &Json, is_resource_root: bool) -> Option<Self> {
        if flag(schema, "x-kubernetes-int-or-string") {
            return Some(Self::Any);
        }
        match schema.get("type").and_then(Json::as_str)? {
            "array" => {
                let items = schema.get("items")?;
                Some(Self::List(Arc::new(Self::of(items, is_embedded(items))?)))
            }
            "object" => Self::of_object(schema, is_resource_root),
            "string" => Some(Self::Text(
                match schema.get("format").and_then(Json::as_str) {
                    Some("byte") => Format::Byte,
                    Some("date") => Format::Date,
                    Some("date-time") => Format::DateTime,
                    Some("duration") => Format::Duration,
                    _ => Format::Plain,
                },
            )),
            "boolean" => Some(Self::Bool),
            "number" => Some(Self::Number),
            "integer" => Some(Self::Integer),
            _ => None,
        }
    }

    fn of_object(schema: &Json, is_resource_root: bool) -> Option<Self> {
        if let Some(additional) = schema
            .get("additionalProperties")
            .filter(|additional| additional.is_object())
            && !is_resource_root
        {
            return Some(Self::Map(Arc::new(Self::of(
                additional,
                is_embedded(additional),
            )?)));
        }
        let properties = schema.get("properties").and_then(Json::as_object);
        let mut fields: BTreeMap<String, (String, Self)> = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, property)| {
                let shape = Self::of(property, is_embedded(property))?;
                Some((name.clone(), (escape(name)?, shape)))
            })
            .collect();
        if is_resource_root {
            // Rules can read the name and generateName of an object's metadata, regardless of the schema.
            let text = || Self::Text(Format::Plain);
            let field = |name: &str, shape| (name.to_owned(), (name.to_owned(), shape));
            let names = BTreeMap::from([field("name", text()), field("generateName", text())]);
            fields.extend([
                field("apiVersion", text()),
                field("kind", text()),
                field("metadata", Self::Object(Arc::new(names))),
            ]);
        }
        Some(Self::Object(Arc::new(fields)))
    }

    /// The type to check expressions with.
    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Any => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Integer => Type::Int,
            Self::Number => Type::Double,
            Self::Text(Format::Plain) => Type::String,
            Self::Text(Format::Byte) => Type::Bytes,
            Self::Text(Format::Date | Format::DateTime) => Type::Timestamp,
            Self::Text(Format::Duration) => Type::Duration,
            Self::List(items) => Type::list(items.kind()),
            Self::Map(values) => Type::map(Type::String, values.kind()),
            Self::Object(fields) => Type::object(
                fields
                    .values()
                    .map(|(name, shape)| (name.as_str(), shape.kind())),
            ),
        }
    }

    /// Converts a JSON value for expressions. A value that does not match the schema is passed unchanged, and no
    /// operator accepts it.
    pub(super) fn value(&self, json: &Json) -> Value {
        match (self, json) {
            (Self::Number, Json::Number(number)) => {
                Value::Float(number.as_f64().unwrap_or(f64::NAN))
            }
            (Self::Integer, Json::Number(number)) => match number.as_f64() {
                // `1.0` is an integer for a schema.
                Some(value)
                    if number.as_i64().is_none() && value.fract() == 0.0 && value.abs() < 9e18 =>
                {
                    Value::Int(value as i64)
                }
                _ => convert::from_json(json),
            },
            (Self::Text(format), Json::String(text)) => format.value(text),
            (Self::List(items), Json::Array(values)) => Value::List(Arc::new(
                values.iter().map(|value| items.value(value)).collect(),
            )),
            (Self::Map(values), Json::Object(members)) => convert::map(
                members
                    .iter()
                    .map(|(name, value)| (convert::key(name), values.value(value)))
                    .collect(),
            ),
            (Self::Object(fields), Json::Object(members)) => convert::map(
                members
                    .iter()
                    .filter_map(|(name, value)| {
                        let (escaped, shape) = fields.get(name)?;
                        Some((convert::key(escaped), shape.value(value)))
                    })
                    .collect(),
            ),
            _ => convert::from_json(json),
        }
    }
}

impl Format {
    fn value(self, text: &str) -> Value {
        let parsed = match self {
            Self::Plain => None,
            Self::Byte => convert::base64(text),
            Self::Date => convert::timestamp(&format!("{text}T00:00:00Z")).ok(),
            Self::DateTime => convert::timestamp(text).ok(),
            Self::Duration => convert::duration(text).ok(),
        };
        parsed.unwrap_or_else(|| text.into())
    }
}

pub(super) fn is_embedded(schema: &Json) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool) == Some(true)
}
