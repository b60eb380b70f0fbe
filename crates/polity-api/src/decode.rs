//! Decodes objects from JSON; every error names the field.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_core::{FieldError, FieldErrors, FieldPath};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_path_to_error::Segment;

/// A document that is not what its kind asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct DecodeError {
    /// The field, as in `spec.policy-templates[0].objectDefinition`; empty for the document as a whole.
    pub path: String,
    pub message: String,
}

/// Decodes an object.
pub fn decode<T: DeserializeOwned>(document: &Value) -> Result<T, DecodeError> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        DecodeError {
            path: if path == "." { String::new() } else { path },
            message: error.into_inner().to_string(),
        }
    })
}

/// Decodes what it can, and reports every field whose value has the wrong type.
///
/// A field of the wrong type is reported and decoded as if it were absent, so that the caller can report what else is
/// wrong with the object. The value is `None` when the document cannot be decoded even so. `at` is the path of the
/// document.
pub fn decode_fields<T: DeserializeOwned>(
    document: &Value,
    at: &FieldPath,
) -> (Option<T>, Vec<FieldError>) {
    let mut errors = FieldErrors::default();
    let mut without: Option<Value> = None;
    loop {
        let error = match serde_path_to_error::deserialize(without.as_ref().unwrap_or(document)) {
            Ok(decoded) => return (Some(decoded), errors.into_vec()),
            Err(error) => error,
        };
        let message = error.inner().to_string();
        let path = error.path();
        let field = path
            .iter()
            .fold(at.clone(), |field, segment| match segment {
                Segment::Seq { index } => field.index(*index),
                Segment::Map { key } | Segment::Enum { variant: key } => field.child(key),
                Segment::Unknown => field,
            });
        if let Some(name) = message.strip_prefix("missing field `") {
            let name = name.split('`').next().unwrap_or_default();
            errors.push(FieldError::required(&field.child(name), ""));
            return (None, errors.into_vec());
        }
        let rest = without.get_or_insert_with(|| document.clone());
        let found = path.iter().try_fold(rest, |value, segment| match segment {
            Segment::Seq { index } => value.get_mut(*index),
            Segment::Map { key } | Segment::Enum { variant: key } => value.get_mut(key),
            Segment::Unknown => None,
        });
        let Some(found) = found.filter(|found| !found.is_null() && !errors.is_full()) else {
            if errors.is_empty() {
                errors.push(FieldError::type_invalid(&field, document, &message));
            }
            return (None, errors.into_vec());
        };
        errors.push(FieldError::type_invalid(&field, found, &expected(&message)));
        *found = Value::Null;
    }
}

/// Decodes the metadata of an object; an object without metadata has empty metadata.
pub fn decode_metadata(object: &Value) -> (ObjectMeta, Vec<FieldError>) {
    match object.get("metadata") {
        None | Some(Value::Null) => (ObjectMeta::default(), Vec::new()),
        Some(metadata) => {
            let (decoded, errors) = decode_fields(metadata, &FieldPath::of("metadata"));
            (decoded.unwrap_or_default(), errors)
        }
    }
}

/// What a field must be, from a message of serde such as ``invalid type: integer `1`, expected a map``.
fn expected(message: &str) -> String {
    match message.rsplit_once("expected ").map(|(_, what)| what) {
        Some("a sequence") => "must be a list".to_owned(),
        Some(what) if what == "a map" || what.starts_with("struct ") => {
            "must be an object".to_owned()
        }
        Some(what) => format!("must be {what}"),
        None => message.to_owned(),
    }
}

/// Decodes an explicit `null` as an absent field, as the Kubernetes API does.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::v1::Policy;

    #[test]
    fn errors_name_the_field() {
        let policy = |spec: Value| json!({"apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec});
        for (spec, expected) in [
            (
                json!({"disabled": false}),
                "spec: missing field `policy-templates`",
            ),
            (
                json!({"disabled": "no", "policy-templates": []}),
                r#"spec.disabled: invalid type: string "no", expected a boolean"#,
            ),
            (
                json!({"disabled": false, "policy-templates": [{"objectDefinition": 1}]}),
                "spec.policy-templates[0].objectDefinition: invalid type: integer `1`, expected a map",
            ),
            (
                json!({"disabled": false, "policy-templates": [], "remediationAction": "maybe"}),
                "spec.remediationAction: unknown variant `maybe`, expected one of `Inform`, `inform`, `Enforce`, `enforce`",
            ),
        ] {
            let error = decode::<Policy>(&policy(spec)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(decode::<Policy>(&json!([])).unwrap_err().path, "");
    }

    #[test]
    fn every_field_of_the_wrong_type_is_reported() {
        use crate::policy::v1::ConfigurationPolicySpec;
        let decode = |spec: Value| {
            let (decoded, errors) =
                decode_fields::<ConfigurationPolicySpec>(&spec, &FieldPath::of("spec"));
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            (decoded, errors.join("; "))
        };
        let (decoded, errors) = decode(json!({
            "remediationAction": 1, "severity": null, "pruneObjectBehavior": null,
            "namespaceSelector": {"include": "a", "exclude": null},
            "object-templates": [{"complianceType": []}, {}],
        }));
        assert_eq!(
            errors,
            "spec.namespaceSelector.include: Invalid value: \"a\": must be a list; \
             spec.object-templates[0].complianceType: Invalid value: []: must be a string; \
             spec.remediationAction: Invalid value: 1: must be a string"
        );
        assert_eq!(decoded.unwrap().object_templates.unwrap().len(), 2);
        let (decoded, errors) = decode(json!({"namespaceSelector": {"matchLabels": {"a": true}}}));
        assert_eq!(
            errors,
            "spec.namespaceSelector.matchLabels.a: Invalid value: true: must be a string"
        );
        assert!(decoded.is_none(), "a label must have a value");
        let (decoded, errors) = decode(json!({"object-templates": [3]}));
        assert_eq!(
            errors,
            "spec.object-templates[0]: Invalid value: 3: must be an object"
        );
        assert!(decoded.is_none());
        assert_eq!(
            decode(json!(3)).1,
            "spec: Invalid value: 3: must be an object"
        );
        assert_eq!(decode_metadata(&json!({})), Default::default());
    }
}
