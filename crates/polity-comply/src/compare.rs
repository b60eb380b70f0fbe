//! Compares one object with one definition: whether it matches, and the object that would match.
//! See docs/spec/governance.md#11-4.

mod metadata;
mod secret;

use polity_core::go_text;
use serde_json::{Map, Value};

use crate::equivalent::{Strictness, equivalent};
use crate::merge::{Merged, merge};
use crate::policy::ComplianceType;
use crate::printed::go_type;

/// The annotation kubectl writes for itself; no policy looks at it.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is compared with what.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub definition: &'a Value,
    pub object: &'a Value,
    pub compliance: ComplianceType,
    pub metadata_compliance: ComplianceType,
}

/// The answer for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The object with the definition laid over it: what an update would send. Its status is untouched.
    pub updated: Value,
    /// The status as the definition wants it, where it says something about it.
    pub status: Option<Value>,
    /// Something outside the status is not as specified.
    pub mismatch: bool,
    /// The status is not as specified; nobody can mend that by writing.
    pub status_mismatch: bool,
    /// Equal only because what is missing was taken for its zero value.
    pub missing: bool,
}

impl Comparison {
    /// Nothing differs and nothing is in doubt.
    pub fn matches(&self) -> bool {
        !self.mismatch && !self.status_mismatch
    }

    /// The object as the definition wants it, status included: what a difference is shown against.
    pub fn wanted(&self) -> Value {
        let mut wanted = self.updated.clone();
        if let (Some(status), Some(fields)) = (&self.status, wanted.as_object_mut()) {
            fields.insert("status".to_owned(), status.clone());
        }
        wanted
    }
}

/// Why an object cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error(
        "Error merging changes into key \"{key}\": object type of template and existing do not match"
    )]
    TypeClash { key: String },
    #[error(
        "invalid {what}, error: contains non-string value in the map under key {key:?}: {value} is of the type {ty}, expected string"
    )]
    NotText {
        what: &'static str,
        key: String,
        value: String,
        ty: &'static str,
    },
    #[error(
        "invalid {what}, error: {value} is of the type {ty}, expected map[string]interface {{}}"
    )]
    NotMap {
        what: &'static str,
        value: String,
        ty: &'static str,
    },
    #[error("Error accessing encoded data")]
    SecretData,
    #[error("Error decoding secret: {name}")]
    SecretText { name: String },
}

/// Compares a named object with a definition.
pub fn compare(question: Question<'_>) -> Result<Comparison, CompareError> {
    let mut comparison = Comparison {
        updated: question.object.clone(),
        status: None,
        mismatch: false,
        status_mismatch: false,
        missing: false,
    };
    for (key, answer) in answers(question, Strictness::Named) {
        let answer = answer?;
        comparison.missing |= answer.missing;
        let differs = !answer.equal;
        if key == "status" {
            comparison.status = Some(answer.merged);
            comparison.status_mismatch = differs;
            continue;
        }
        comparison.mismatch |= differs;
        if let Some(fields) = comparison.updated.as_object_mut() {
            match key {
                "metadata" => metadata::write(answer.merged, fields),
                "stringData" if secret::is_secret(question.object) => {
                    secret::write(&answer.merged, question, fields);
                }
                _ => _ = fields.insert(key.to_owned(), answer.merged),
            }
        }
    }
    if question.compliance == ComplianceType::MustOnlyHave {
        comparison.mismatch |= remove_others(question, &mut comparison.updated);
    }
    Ok(comparison)
}

/// Whether an object found by searching is as the definition says; what cannot be compared is not.
pub fn matches_search(question: Question<'_>) -> bool {
    answers(question, Strictness::Search).all(|(_, answer)| answer.is_ok_and(|answer| answer.equal))
}

/// The comparison of one top-level key.
struct KeyComparison {
    merged: Value,
    equal: bool,
    missing: bool,
}

fn answers(
    question: Question<'_>,
    strictness: Strictness,
) -> impl Iterator<Item = (&str, Result<KeyComparison, CompareError>)> {
    let fields = question.definition.as_object().into_iter().flatten();
    fields
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"))
        .map(move |(key, want)| {
            let answer = match key.as_str() {
                "metadata" => metadata::answer(want, question, strictness),
                "stringData" if secret::is_secret(question.object) => {
                    secret::answer(want, question, strictness)
                }
                _ => answer(key, want, question, strictness),
            };
            (key.as_str(), answer)
        })
}

fn answer(
    key: &str,
    want: &Value,
    question: Question<'_>,
    strictness: Strictness,
) -> Result<KeyComparison, CompareError> {
    let have = question.object.get(key).filter(|have| !have.is_null());
    laid_over(key, want, have, question.compliance, strictness)
}

fn laid_over(
    key: &str,
    want: &Value,
    have: Option<&Value>,
    compliance: ComplianceType,
    strictness: Strictness,
) -> Result<KeyComparison, CompareError> {
    let clash = match (want, have) {
        (Value::Object(_), Some(have)) => !have.is_object(),
        (Value::Array(_), Some(have)) => !have.is_array(),
        _ => false,
    };
    if clash {
        let key = key.to_owned();
        return Err(CompareError::TypeClash { key });
    }
    let merged = match have {
        Some(have) if compliance != ComplianceType::MustOnlyHave => merge(want, have, strictness),
        _ => Merged {
            value: want.clone(),
            missing: have.is_none(),
        },
    };
    let likeness = equivalent(&merged.value, have, strictness);
    Ok(KeyComparison {
        merged: merged.value,
        equal: likeness.equal,
        missing: merged.missing || likeness.missing,
    })
}

/// `mustonlyhave`: drops the top-level keys that the definition does not have; says whether there were any.
fn remove_others(question: Question<'_>, updated: &mut Value) -> bool {
    let Some(fields) = updated.as_object_mut() else {
        return false;
    };
    let wanted = |key: &str| question.definition.get(key).is_some();
    let object = question.object;
    let is_service_account = object["kind"] == "ServiceAccount" && object["apiVersion"] == "v1";
    let keeps_data = secret::is_secret(object) && wanted("stringData");
    let before = fields.len();
    fields.retain(|key, _| {
        let own = match key.as_str() {
            "apiVersion" | "kind" | "metadata" | "status" => true,
            "secrets" | "imagePullSecrets" => is_service_account,
            "data" => keeps_data,
            _ => false,
        };
        own || wanted(key)
    });
    fields.len() < before
}

/// The labels or annotations of a metadata must all be text.
fn check_texts(what: &'static str, value: &Value) -> Result<(), CompareError> {
    let map = match value {
        Value::Null => return Ok(()),
        Value::Object(map) => map,
        other => {
            return Err(CompareError::NotMap {
                what,
                value: go_text::value(other),
                ty: go_type(other),
            });
        }
    };
    first_non_text(map).map_or(Ok(()), |(key, value)| {
        Err(CompareError::NotText {
            what,
            key: key.clone(),
            value: go_text::value(value),
            ty: go_type(value),
        })
    })
}

fn first_non_text(map: &Map<String, Value>) -> Option<(&String, &Value)> {
    map.iter().find(|(_, value)| !value.is_string())
}

#[cfg(test)]
mod tests;
