//! Computes the JSON Patch from an object to its mutation.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Why a patch cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The object of the request cannot be parsed, for example because it is nested too deeply.
    #[error("cannot read the object to change: {0}")]
    Original(#[source] serde_json::Error),
    /// The object of the guest cannot be parsed, for example because it is nested too deeply.
    #[error("cannot read the mutated object: {0}")]
    Mutated(#[source] serde_json::Error),
}

/// The patch from one JSON text to another, in base64; `None` if they are equal.
pub(crate) fn between(original: &str, mutated: &str) -> Result<Option<String>, PatchError> {
    let original: Value = serde_json::from_str(original).map_err(PatchError::Original)?;
    let mutated: Value = serde_json::from_str(mutated).map_err(PatchError::Mutated)?;
    let patch = json_patch::diff(&original, &mutated);
    if patch.is_empty() {
        return Ok(None);
    }
    let bytes = serde_json::to_vec(&patch).expect("values serialise");
    Ok(Some(STANDARD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn decode(patch: &str) -> json_patch::Patch {
        serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap()
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..5_i64).prop_map(Value::from),
            "[a-c~/ é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn no_difference_no_patch() {
        assert_eq!(
            between(r#"{"a":1,"b":[1,2]}"#, r#"{"b":[1,2],"a":1}"#).unwrap(),
            None
        );
        let big = r#"{"n":12345678901234567890123}"#;
        assert_eq!(between(big, big).unwrap(), None);
    }

    #[test]
    fn a_label_more_is_one_operation() {
        let patch = between(
            r#"{"metadata":{"labels":{}}}"#,
            r#"{"metadata":{"labels":{"a/b":"c"}}}"#,
        )
        .unwrap();
        let patch = serde_json::to_value(decode(&patch.unwrap())).unwrap();
        assert_eq!(
            patch,
            json!([{"op":"add","path":"/metadata/labels/a~1b","value":"c"}])
        );
    }

    #[test]
    fn values_that_are_nested_too_deeply_are_an_error() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(between("{}", &deep), Err(PatchError::Mutated(_))));
        assert!(matches!(between(&deep, "{}"), Err(PatchError::Original(_))));
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_one_to_the_other(original in json_value(), mutated in json_value()) {
            let mut object = original.clone();
            match between(&original.to_string(), &mutated.to_string()).unwrap() {
                None => prop_assert_eq!(&original, &mutated),
                Some(patch) => {
                    json_patch::patch(&mut object, &decode(&patch)).unwrap();
                    prop_assert_eq!(&object, &mutated);
                }
            }
        }
    }
}
