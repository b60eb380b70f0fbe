//! Decoding that tolerates fields of the wrong type.
//!
//! Many producers write reports, and not all of their definitions check every field. A field that does not have its
//! type decodes as if it were absent, so that the rest of the report can be read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::result::Timestamp;

/// Any value; one of the wrong type is the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Value::deserialize(deserializer).map(|value| serde_json::from_value(value).unwrap_or_default())
}

/// A map of strings without the values that are not strings.
pub(super) fn strings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Value::deserialize(deserializer).map(|value| {
        let fields = string_fields(value).unwrap_or_default();
        serde_json::from_value(Value::Object(fields)).unwrap_or_default()
    })
}

/// A list of strings without the items that are not strings.
pub(super) fn string_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let items: Vec<Value> = or_default(deserializer)?;
    let strings = items.into_iter().filter_map(|item| match item {
        Value::String(text) => Some(text),
        _ => None,
    });
    Ok(strings.collect())
}

/// A list without the items that do not decode.
pub(super) fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let items: Vec<Value> = or_default(deserializer)?;
    let decoded = items
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok());
    Ok(decoded.collect())
}

/// A map without the values that do not decode; what is no map is an error.
pub(super) fn map<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let values = Option::<BTreeMap<String, Value>>::deserialize(deserializer)?.unwrap_or_default();
    let decoded = values
        .into_iter()
        .filter_map(|(key, value)| Some((key, serde_json::from_value(value).ok()?)));
    Ok(decoded.collect())
}

/// A reference to an object, all of whose fields are strings.
pub(super) fn reference<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ObjectReference>, D::Error> {
    Value::deserialize(deserializer).map(|value| string_fields(value).map(to_reference))
}

/// References to objects; an item that is no reference is one without any field.
pub(super) fn references<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ObjectReference>, D::Error> {
    let items: Vec<Value> = or_default(deserializer)?;
    let references = items
        .into_iter()
        .map(|item| string_fields(item).map(to_reference).unwrap_or_default());
    Ok(references.collect())
}

/// A selector; an object that is none selects like an empty one.
pub(super) fn selector<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LabelSelector>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value
        .is_object()
        .then(|| serde_json::from_value(value).unwrap_or_default()))
}

/// A time, which must have seconds.
pub(super) fn timestamp<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    struct Lenient {
        seconds: i64,
        #[serde(default, deserialize_with = "or_default")]
        nanos: i32,
    }
    let found: Option<Lenient> = or_default(deserializer)?;
    Ok(found.map(|Lenient { seconds, nanos }| Timestamp { seconds, nanos }))
}

/// The metadata of an object. Fields, labels, annotations and owner references of the wrong type are left out.
pub fn metadata(fields: &Map<String, Value>) -> ObjectMeta {
    if let Ok(metadata) = ObjectMeta::deserialize(fields) {
        return metadata;
    }
    let decodable = fields.iter().filter_map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("labels" | "annotations", _) => Value::Object(string_fields(value.clone())?),
            ("ownerReferences", Value::Array(owners)) => {
                owners.iter().cloned().map(owner_reference).collect()
            }
            _ => value.clone(),
        };
        let alone = Map::from_iter([(name.clone(), value)]);
        ObjectMeta::deserialize(&alone).is_ok().then_some(alone)
    });
    ObjectMeta::deserialize(&decodable.flatten().collect::<Map<_, _>>()).unwrap_or_default()
}

/// An owner reference with the fields that identify the owner.
fn owner_reference(owner: Value) -> Value {
    const IDENTITY: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
    let mut fields = string_fields(owner).unwrap_or_default();
    fields.retain(|name, _| IDENTITY.contains(&name.as_str()));
    Value::Object(fields)
}

fn to_reference(fields: Map<String, Value>) -> ObjectReference {
    serde_json::from_value(Value::Object(fields)).unwrap_or_default()
}

/// The fields of an object that are strings; none if it is no object.
fn string_fields(value: Value) -> Option<Map<String, Value>> {
    let Value::Object(mut fields) = value else {
        return None;
    };
    fields.retain(|_, value| value.is_string());
    Some(fields)
}
