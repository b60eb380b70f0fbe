//! Whether a JSON object fits its Go type, with the messages of Go's decoder.
//!
//! `null` fits everywhere, as it does in Go. Unknown fields are not checked here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use polity_core::GroupVersionKind;
use polity_core::quantity::Quantity;
use polity_merge::schema;
use serde_json::Value;

use super::schemas;
use super::wire::{self, FieldType, MessageId, Presence};

/// The first thing in `object` that cannot be decoded.
pub fn check(gvk: &GroupVersionKind, object: &Value) -> Result<(), String> {
    match wire::table().of_kind(gvk) {
        Some(message) => Walk { path: Vec::new() }.message(message, object),
        None => check_by_schema(gvk, object),
    }
}

/// Go's name for the kind of a JSON value.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// For the kinds without a Go type in the table.
fn check_by_schema(gvk: &GroupVersionKind, object: &Value) -> Result<(), String> {
    let wrong = schema::validate(&schemas::schema_of(gvk), object)
        .into_iter()
        .find(|error| {
            let null = error.message.contains("\"null\"");
            error.kind == polity_core::FieldErrorKind::TypeInvalid && !null
        });
    wrong.map_or(Ok(()), |error| {
        Err(format!("json: cannot unmarshal {error}"))
    })
}

struct Walk<'a> {
    path: Vec<&'a str>,
}

impl Walk<'_> {
    fn message(&mut self, id: MessageId, value: &Value) -> Result<(), String> {
        let message = wire::table().message(id);
        let Some(object) = value.as_object() else {
            return Ok(());
        };
        for field in &message.fields {
            if let (FieldType::Message(inner), Presence::Inline) = (&field.ty, field.presence) {
                self.message(*inner, value)?;
            } else if let Some(value) = object.get(field.name) {
                self.path.push(field.name);
                self.value(message.name, &field.ty, value)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    /// `parent` is the type that has the field this value belongs to.
    fn value(&mut self, parent: &str, ty: &FieldType, value: &Value) -> Result<(), String> {
        let fits = match (ty, value) {
            (_, Value::Null) | (FieldType::Raw | FieldType::IntOrString, _) => true,
            (FieldType::String, Value::String(_)) | (FieldType::Bool, Value::Bool(_)) => true,
            (FieldType::Int32, Value::Number(number)) => {
                number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
            }
            (FieldType::Int64, Value::Number(number)) => number.as_i64().is_some(),
            (FieldType::Bytes, Value::String(text)) => return base64(text),
            (FieldType::Time | FieldType::MicroTime, Value::String(text)) => return time(text),
            (FieldType::Quantity, value) => return quantity(value),
            (FieldType::Message(id), Value::Object(_)) => return self.message(*id, value),
            (FieldType::StringList, Value::Array(items)) => {
                return items
                    .iter()
                    .try_for_each(|item| self.value(parent, &FieldType::String, item));
            }
            (FieldType::List(of), Value::Array(items)) => {
                return items
                    .iter()
                    .try_for_each(|item| self.value(parent, of, item));
            }
            (FieldType::Map(of), Value::Object(entries)) => {
                return entries
                    .values()
                    .try_for_each(|entry| self.value(parent, of, entry));
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(self.mismatch(parent, ty, value))
        }
    }

    fn mismatch(&self, parent: &str, ty: &FieldType, value: &Value) -> String {
        let found = match (ty, value) {
            (FieldType::Int32 | FieldType::Int64, Value::Number(number)) => {
                format!("number {number}")
            }
            _ => kind_of(value).to_owned(),
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {}",
            parent.rsplit('.').next().unwrap_or_default(),
            self.path.join("."),
            go_type(ty)
        )
    }
}

fn go_type(ty: &FieldType) -> String {
    match ty {
        FieldType::String => "string".into(),
        FieldType::Int32 | FieldType::IntOrString => "int32".into(),
        FieldType::Int64 => "int64".into(),
        FieldType::Bool => "bool".into(),
        FieldType::Bytes => "[]uint8".into(),
        FieldType::Time | FieldType::MicroTime | FieldType::Quantity | FieldType::Raw => {
            "string".into()
        }
        FieldType::StringList => "[]string".into(),
        FieldType::Message(id) => {
            let name = wire::table().message(*id).name;
            name.split_once('.')
                .map_or(name, |(_, rest)| rest)
                .to_owned()
        }
        FieldType::List(of) => format!("[]{}", go_type(of)),
        FieldType::Map(of) => format!("map[string]{}", go_type(of)),
    }
}

fn base64(text: &str) -> Result<(), String> {
    // Go's decoder skips line breaks.
    let bare: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(&bare).map(|_| ()).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                bare.len()
            }
        };
        format!("illegal base64 data at input byte {at}")
    })
}

fn time(text: &str) -> Result<(), String> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
    }
}

fn quantity(value: &Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    match text.parse::<Quantity>() {
        Ok(_) => Ok(()),
        Err(_) => Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: &str, object: Value, expected: &str) {
        let group = if kind == "Deployment" { "apps" } else { "" };
        let answer = super::check(&GroupVersionKind::new(group, "v1", kind), &object);
        assert_eq!(answer.err().unwrap_or_default(), expected, "{object}");
    }

    #[test]
    fn wrong_types_are_reported_with_the_message_of_go() {
        let cannot = |what: &str| format!("json: cannot unmarshal {what}");
        check(
            "ConfigMap",
            json!({"data": {"a": "b", "c": null}, "metadata": null}),
            "",
        );
        check(
            "ConfigMap",
            json!({"data": {"a": 1}}),
            &cannot("number into Go struct field ConfigMap.data of type string"),
        );
        check(
            "ConfigMap",
            json!({"data": "x"}),
            &cannot("string into Go struct field ConfigMap.data of type map[string]string"),
        );
        check(
            "ConfigMap",
            json!({"metadata": {"name": 1}}),
            &cannot("number into Go struct field ObjectMeta.metadata.name of type string"),
        );
        check(
            "Service",
            json!({"spec": {"ports": {}}}),
            &cannot("object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort"),
        );
        check(
            "Service",
            json!({"spec": {"ports": [{"port": "x"}]}}),
            &cannot("string into Go struct field ServicePort.spec.ports.port of type int32"),
        );
        check(
            "Deployment",
            json!({"spec": {"replicas": 1.5}}),
            &cannot("number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        );
        check(
            "Secret",
            json!({"data": {"a": "not base64!"}}),
            "illegal base64 data at input byte 3",
        );
    }
}
