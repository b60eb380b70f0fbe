//! The migration from `kubectl apply` to `kubectl apply --server-side`: the annotation of the former shows which
//! fields the same user already owned.

use serde_json::{Map, Value};

use crate::fields::FieldSet;
use crate::text::html_json;
use crate::typed::{self, Duplicates, Type};

/// The only manager this is done for.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotations of an object may not be larger than this together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The fields of the live object that have the value of the last client-side apply.
pub(super) fn owned(ty: Type<'_>, live: &Value, api_version: &str) -> FieldSet {
    let applied = annotations(live)
        .and_then(|all| all.get(ANNOTATION)?.as_str())
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .filter(|applied| applied.get("apiVersion").and_then(Value::as_str) == Some(api_version))
        .filter(|applied| typed::check(ty, applied, Duplicates::Refused).is_ok());
    let Some(applied) = applied else {
        return FieldSet::new();
    };
    let found = typed::compare(ty, &applied, live);
    typed::fields_of(ty, &applied)
        .difference(&found.changed())
        .difference(&found.removed)
}

/// Updates the annotation, if the object has one.
pub(super) fn refresh(object: &mut Value, body: &Value) {
    let present = annotations(object)
        .and_then(|all| all.get(ANNOTATION)?.as_str())
        .is_some_and(|text| !text.is_empty());
    let Some(Value::Object(all)) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
    else {
        return;
    };
    if !present {
        return;
    }
    let mut applied = body.clone();
    if let Some(Value::Object(all)) = applied
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
    {
        all.remove(ANNOTATION);
    }
    all.insert(
        ANNOTATION.to_owned(),
        Value::String(format!("{}\n", html_json(&applied))),
    );
    let size: usize = all
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        all.remove(ANNOTATION);
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}
