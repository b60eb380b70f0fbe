//! Converts a built-in object to the form that a real server would return: as if decoded into its Go type and encoded
//! again.
//!
//! `null` and the zero values of optional fields are removed, fields that are always present are added, and quantities
//! and times get their canonical form. Values of the wrong type and unknown fields stay: the decoder rejects them.

use jiff::Timestamp;
use polity_core::GroupVersionKind;
use polity_core::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::wire::{self, Field, FieldType, MessageId, Presence};

/// Normalises `object`; kinds that are not in the table of Go types stay as they are.
pub fn normalise(gvk: &GroupVersionKind, object: &mut Value) {
    if let (Some(message), Some(fields)) = (wire::table().of_kind(gvk), object.as_object_mut()) {
        normalise_message(message, fields);
    }
}

fn normalise_message(message: MessageId, object: &mut Map<String, Value>) {
    for field in &wire::table().message(message).fields {
        match (&field.ty, field.presence) {
            (FieldType::Message(inner), Presence::Inline) => normalise_message(*inner, object),
            _ => normalise_field(field, object),
        }
    }
}

fn normalise_field(field: &Field, object: &mut Map<String, Value>) {
    if let Some(value) = object.get_mut(field.name) {
        normalise_value(&field.ty, value);
        // The store of a real server does not distinguish an empty list from none.
        let nothing = matches!(field.ty, FieldType::List(_) | FieldType::Map(_)) && is_zero(value);
        if value.is_null() || nothing || (field.presence == Presence::NonZero && is_zero(value)) {
            object.remove(field.name);
        }
    }
    if field.presence == Presence::Always
        && !object.contains_key(field.name)
        && let Some(zero) = zero_value(&field.ty)
    {
        object.insert(field.name.to_owned(), zero);
    }
}

fn normalise_value(ty: &FieldType, value: &mut Value) {
    match (ty, value) {
        (FieldType::Message(message), Value::Object(fields)) => normalise_message(*message, fields),
        (FieldType::List(of), Value::Array(items)) => {
            for item in items {
                normalise_value(of, item);
            }
        }
        (FieldType::Map(of), Value::Object(entries)) => normalise_map(of, entries),
        (FieldType::Quantity, value) => normalise_quantity(value, |quantity| quantity),
        (FieldType::Time, value) => normalise_time(value, |time| {
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
        }),
        (FieldType::MicroTime, value) => {
            normalise_time(value, |time| {
                time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
            });
        }
        _ => {}
    }
}

fn normalise_map(of: &FieldType, entries: &mut Map<String, Value>) {
    for value in entries.values_mut() {
        // An entry without a value has the zero one.
        if value.is_null()
            && let Some(zero) = zero_value(of)
        {
            *value = zero;
        }
        match of {
            // A map of quantities is a resource list, which holds nothing finer than a thousandth.
            FieldType::Quantity => normalise_quantity(value, Quantity::round_up_to_milli),
            other => normalise_value(other, value),
        }
    }
}

fn normalise_quantity(value: &mut Value, round: impl FnOnce(Quantity) -> Quantity) {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(quantity) = text.parse::<Quantity>() {
        *value = Value::String(round(quantity).to_string());
    }
}

fn normalise_time(value: &mut Value, print: impl FnOnce(Timestamp) -> String) {
    if let Some(time) = value
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
    {
        *value = Value::String(print(time));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The fields that an object of this kind has without any input, and which its creator therefore did not set. `None`
/// without a Go type.
pub fn blank(gvk: &GroupVersionKind) -> Option<Value> {
    let mut object = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind});
    if gvk.kind == "CustomResourceDefinition" {
        object["metadata"] = json!({});
        object["spec"] = json!({"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": null});
        return Some(object);
    }
    let message = wire::table().of_kind(gvk)?;
    normalise_message(message, object.as_object_mut()?);
    Some(object)
}

/// The value of an always-present field without input. Go prints missing lists, maps and times as `null`.
fn zero_value(ty: &FieldType) -> Option<Value> {
    match ty {
        FieldType::String => Some(json!("")),
        FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString => Some(json!(0)),
        FieldType::Bool => Some(json!(false)),
        FieldType::Message(message) => {
            let mut fields = Map::new();
            normalise_message(*message, &mut fields);
            Some(Value::Object(fields))
        }
        FieldType::List(_) | FieldType::Map(_) | FieldType::Time | FieldType::MicroTime => {
            Some(Value::Null)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(group: &str, version: &str, kind: &str, mut given: Value, expected: &Value) {
        let gvk = GroupVersionKind::new(group, version, kind);
        normalise(&gvk, &mut given);
        assert_eq!(&given, expected);
        let once = given.clone();
        normalise(&gvk, &mut given);
        assert_eq!(given, once, "normalising twice changes nothing");
    }

    #[test]
    fn quantities_take_their_canonical_form_and_zero_values_vanish() {
        let given = json!({
            "metadata": {"name": "p", "labels": {}, "annotations": null, "creationTimestamp": null},
            "spec": {"hostNetwork": false, "containers": [{
                "name": "c", "image": "", "livenessProbe": {"httpGet": {"port": "http"}},
                "resources": {"limits": {"cpu": 0.5, "memory": "1024Ki"}, "requests": {"cpu": "1n"}},
            }]},
        });
        let expected = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{
                "name": "c", "livenessProbe": {"httpGet": {"port": "http"}},
                "resources": {"limits": {"cpu": "500m", "memory": "1Mi"}, "requests": {"cpu": "1m"}},
            }]},
            "status": {},
        });
        check("", "v1", "Pod", given, &expected);
    }

    #[test]
    fn always_present_fields_appear() {
        let given = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{}]}}}});
        let expected = json!({
            "metadata": {"name": "d"},
            "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": [{"name": "", "resources": {}}]}}},
            "status": {},
        });
        check("apps", "v1", "Deployment", given, &expected);
    }

    #[test]
    fn lease_times_keep_six_decimals() {
        let given = json!({"metadata": {}, "spec": {"renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 0}});
        check("coordination.k8s.io", "v1", "Lease", given.clone(), &given);
        let zoned = json!({"metadata": {}, "spec": {"renewTime": "2026-01-02T05:04:05+02:00"}});
        let utc = json!({"metadata": {}, "spec": {"renewTime": "2026-01-02T03:04:05.000000Z"}});
        check("coordination.k8s.io", "v1", "Lease", zoned, &utc);
    }

    #[test]
    fn wrong_types_and_unknown_kinds_are_left_alone() {
        let odd = json!({"metadata": [], "spec": {"containers": "x", "volumes": [1]}, "status": 3, "extra": {"a": ""}});
        check("", "v1", "Pod", odd.clone(), &odd);
        let custom = json!({"spec": {"a": null}});
        check("example.com", "v1", "Widget", custom.clone(), &custom);
    }
}
