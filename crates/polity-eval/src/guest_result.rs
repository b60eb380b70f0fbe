//! The results that guests return.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;

/// The result of `validate`. Unknown fields are ignored, and null is the same as absent.
#[derive(Debug, Deserialize)]
pub(crate) struct ValidationResult<'a> {
    pub(crate) accepted: bool,
    pub(crate) message: Option<String>,
    pub(crate) code: Option<u16>,
    /// The complete mutated object, not a patch.
    #[serde(borrow)]
    pub(crate) mutated_object: Option<&'a RawValue>,
    pub(crate) audit_annotations: Option<BTreeMap<String, String>>,
    pub(crate) warnings: Option<Vec<String>>,
}

/// The result of `validate_settings`.
#[derive(Debug, Deserialize)]
pub(crate) struct SettingsResult<'a> {
    pub(crate) valid: bool,
    #[serde(borrow)]
    pub(crate) message: Option<Cow<'a, str>>,
}

impl<'a> ValidationResult<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes)
            .map_err(|error| format!("Cannot deserialize policy validation response: {error}"))
    }
}

impl<'a> SettingsResult<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes)
            .map_err(|error| format!("Cannot deserialize settings validation response: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_absent_and_unknown_is_ignored() {
        let text = br#"{"accepted":true,"message":null,"code":null,"mutated_object":null,
            "audit_annotations":null,"warnings":null,"more":[1]}"#;
        let answer = ValidationResult::parse(text).unwrap();
        assert!(answer.accepted && answer.mutated_object.is_none());
        assert!(ValidationResult::parse(br#"{"accepted":true}"#).is_ok());
    }

    #[test]
    fn garbage_is_named() {
        for text in [
            "",
            "true",
            "{}",
            r#"{"accepted":"yes"}"#,
            r#"{"accepted":true,"code":70000}"#,
        ] {
            let error = ValidationResult::parse(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("Cannot deserialize policy validation response: "),
                "{error}"
            );
        }
    }
}
