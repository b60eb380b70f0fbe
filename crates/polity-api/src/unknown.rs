//! Fields of a manifest that the definition of its kind does not declare.

use kube::CustomResourceExt;
use polity_core::FieldPath;
use serde_json::{Map, Value};

/// The fields of an object that its kind does not declare, outside `metadata` and `status`. The API server drops them
/// from what it stores, so that they have no effect; most often they are misspelt.
///
/// What is known comes from the schema of the definition, so that it cannot differ from the declared fields.
pub fn unknown_fields<K: CustomResourceExt>(object: &Value) -> Vec<String> {
    let schemas = K::crd().spec.versions;
    let schema = schemas.first().and_then(|version| version.schema.as_ref());
    let Ok(mut schema) = serde_json::to_value(schema) else {
        return Vec::new();
    };
    let mut schema = schema["openAPIV3Schema"].take();
    let mut declared = Map::new();
    if let Some(Value::Object(properties)) = schema.get_mut("properties").map(Value::take) {
        declared = properties;
    }
    for field in ["apiVersion", "kind", "metadata", "status"] {
        declared.insert(field.to_owned(), Value::Null);
    }
    schema["properties"] = Value::Object(declared);
    let mut unknown = Vec::new();
    compare(object, &schema, &FieldPath::root(), &mut unknown);
    unknown
}

fn compare(value: &Value, schema: &Value, at: &FieldPath, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                return;
            }
            let Some(declared) = schema["properties"].as_object() else {
                return;
            };
            let undeclared = fields.keys().filter(|name| !declared.contains_key(*name));
            unknown.extend(undeclared.map(|name| at.child(name).to_string()));
            for (name, value) in fields {
                if let Some(schema) = declared.get(name) {
                    compare(value, schema, &at.child(name), unknown);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                compare(item, &schema["items"], &at.index(index), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::v1::ConfigurationPolicy;

    #[test]
    fn undeclared_fields_are_found_at_every_depth() {
        let object = json!({
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy",
            "metadata": {"name": "p", "anything": 1}, "status": {"anything": 1}, "sepc": {},
            "spec": {
                "remediationaction": "inform",
                "hubTemplateOptions": {"serviceAccountName": "a"},
                "namespaceSelector": {"includes": [], "matchLabels": {"any": "label"}},
                "customMessage": {"Compliant": ""},
                "object-templates": [
                    {"complianceType": "musthave", "objectDefinition": {"any": "thing"}},
                    {"compliancetype": "musthave"},
                ],
            },
        });
        assert_eq!(
            unknown_fields::<ConfigurationPolicy>(&object),
            [
                "sepc",
                "spec.hubTemplateOptions",
                "spec.remediationaction",
                "spec.customMessage.Compliant",
                "spec.namespaceSelector.includes",
                "spec.object-templates[1].compliancetype",
            ]
        );
        assert_eq!(unknown_fields::<ConfigurationPolicy>(&json!(3)), [""; 0]);
    }
}
