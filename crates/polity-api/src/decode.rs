//! Objects from JSON, with the place of what does not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::v1::{PlacementBinding, Policy};

    #[test]
    fn what_does_not_fit_is_named_by_its_place() {
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
    fn section_3_2_a_binding_has_no_spec() {
        let binding: PlacementBinding = decode(&json!({
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "PlacementBinding",
            "metadata": {"name": "b", "namespace": "policies"},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "pl"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "p"}],
            "bindingOverrides": {"remediationAction": "enforce"},
            "subFilter": "restricted",
        }))
        .unwrap();
        let lowered = polity_core::governance::Binding::from(&binding);
        assert!(lowered.restricted && lowered.enforces());
        assert_eq!(lowered.placement.unwrap().name, "pl");
        let back = serde_json::to_value(&binding).unwrap();
        assert_eq!(back["subjects"][0]["name"], "p");
        assert!(back.get("spec").is_none());
    }

    #[test]
    fn section_3_2_other_pairs_of_group_and_kind_select_nothing() {
        let binding: PlacementBinding = decode(&json!({
            "metadata": {"name": "b"},
            "placementRef": {"apiGroup": "apps.open-cluster-management.io", "kind": "Placement", "name": "pl"},
            "subjects": [{"apiGroup": "v1", "kind": "Policy", "name": "p"}],
        }))
        .unwrap();
        let lowered = polity_core::governance::Binding::from(&binding);
        assert_eq!((lowered.placement, lowered.subjects), (None, vec![]));
    }
}
