//! The metadata of an object: only labels and annotations are compared and written.

use serde_json::{Map, Value};

use super::{CompareError, KeyComparison, LAST_APPLIED, Question, check_texts, laid_over};
use crate::equivalent::Strictness;
use crate::policy::ComplianceType;

/// Annotations of namespaces that belong to the platform, whatever a policy lists.
const PLATFORM_ANNOTATIONS: &str = "openshift.io/sa.scc.";

/// Compares the labels and annotations that the definition has; a part it does not have is left alone.
pub(super) fn answer(
    want: &Value,
    question: Question<'_>,
    strictness: Strictness,
) -> Result<KeyComparison, CompareError> {
    let object = question.object;
    let mut answer = KeyComparison {
        merged: Value::Object(Map::new()),
        equal: true,
        missing: false,
    };
    for (part, what) in [("labels", "label"), ("annotations", "annotation")] {
        let Some(wanted) = want.get(part).filter(|wanted| !wanted.is_null()) else {
            continue;
        };
        check_texts(what, wanted)?;
        let mut wanted = without_last_applied(wanted);
        let have = object["metadata"]
            .get(part)
            .filter(|have| !have.is_null())
            .map(without_last_applied);
        if part == "annotations"
            && question.metadata_compliance == ComplianceType::MustOnlyHave
            && object["kind"] == "Namespace"
            && object["apiVersion"] == "v1"
        {
            keep_platform_annotations(have.as_ref(), &mut wanted);
        }
        let one = laid_over(
            part,
            &wanted,
            have.as_ref(),
            question.metadata_compliance,
            strictness,
        )?;
        answer.equal &= one.equal;
        answer.missing |= one.missing;
        answer.merged[part] = one.merged;
    }
    Ok(answer)
}

/// Writes the parts that were compared into the object; kubectl's own annotation stays as it is.
pub(super) fn write(merged: Value, object: &mut Map<String, Value>) {
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let (Some(metadata), Value::Object(parts)) = (metadata.as_object_mut(), merged) else {
        return;
    };
    for (part, mut value) in parts {
        let last_applied = metadata
            .get(&part)
            .and_then(|existing| existing.get(LAST_APPLIED))
            .cloned();
        if let (Some(last_applied), Some(fields)) = (last_applied, value.as_object_mut()) {
            fields.insert(LAST_APPLIED.to_owned(), last_applied);
        }
        metadata.insert(part, value);
    }
}

fn without_last_applied(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(fields) = part.as_object_mut() {
        fields.remove(LAST_APPLIED);
    }
    part
}

fn keep_platform_annotations(have: Option<&Value>, wanted: &mut Value) {
    let existing = have.and_then(Value::as_object).into_iter().flatten();
    let Some(wanted) = wanted.as_object_mut() else {
        return;
    };
    for (key, value) in existing.filter(|(key, _)| key.starts_with(PLATFORM_ANNOTATIONS)) {
        wanted.entry(key).or_insert_with(|| value.clone());
    }
}
