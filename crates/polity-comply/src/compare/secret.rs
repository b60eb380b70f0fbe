//! `stringData` of a Secret, which is compared with its decoded `data`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::{CompareError, KeyComparison, Question, laid_over};
use crate::equivalent::Strictness;
use crate::policy::ComplianceType;

pub(super) fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

pub(super) fn answer(
    want: &Value,
    question: Question<'_>,
    strictness: Strictness,
) -> Result<KeyComparison, CompareError> {
    let have = decoded(question.object)?;
    laid_over(
        "stringData",
        want,
        have.as_ref(),
        question.compliance,
        strictness,
    )
}

/// Writes the texts where a server keeps them: encoded, in `data`. Keys that did not change keep their bytes.
pub(super) fn write(merged: &Value, question: Question<'_>, object: &mut Map<String, Value>) {
    let only = question.compliance == ComplianceType::MustOnlyHave
        && question.definition.get("data").is_none();
    let Some(texts) = merged.as_object() else {
        return;
    };
    let data = object
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(data) = data.as_object_mut() else {
        return;
    };
    if only {
        data.retain(|key, _| texts.contains_key(key));
    }
    for key in texts.keys() {
        let Some(text) = question.definition["stringData"][key].as_str() else {
            continue;
        };
        data.insert(key.clone(), BASE64_STANDARD.encode(text).into());
    }
}

/// The data of a Secret as text; `None` without data.
fn decoded(secret: &Value) -> Result<Option<Value>, CompareError> {
    let data = match &secret["data"] {
        Value::Null => return Ok(None),
        Value::Object(data) => data,
        _ => return Err(CompareError::SecretData),
    };
    let mut texts = Map::new();
    for (key, value) in data {
        let encoded = value.as_str().ok_or(CompareError::SecretData)?;
        let bytes = BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| CompareError::SecretText {
                name: secret["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            })?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        texts.insert(key.clone(), text.into());
    }
    Ok(Some(Value::Object(texts)))
}
