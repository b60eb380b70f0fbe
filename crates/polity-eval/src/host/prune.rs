//! Prunes objects for guests: removes fields that no policy needs, and keeps only the fields that the guest asks for.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Fields that every mask keeps.
const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes `managedFields` and the last-applied annotation, then everything that no mask names. Masks are
/// dotted paths; lists are walked through. No masks, or an empty set of them, keep everything.
pub fn prune_object(object: &mut Value, masks: Option<&BTreeSet<String>>) {
    let Value::Object(fields) = object else {
        return;
    };
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        forget_machinery(metadata);
    }
    if let Some(masks) = masks.filter(|masks| !masks.is_empty()) {
        let masks: Vec<Vec<&str>> = masks.iter().map(|mask| mask.split('.').collect()).collect();
        let paths: Vec<&[&str]> = masks.iter().map(Vec::as_slice).collect();
        fields.retain(|name, value| ALWAYS.contains(&name.as_str()) || keep(name, value, &paths));
    }
}

fn forget_machinery(metadata: &mut Map<String, Value>) {
    metadata.remove("managedFields");
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Whether a field is on one of the paths. Fields below it that are on no path are removed.
fn keep(name: &str, value: &mut Value, paths: &[&[&str]]) -> bool {
    let below: Vec<&[&str]> = paths
        .iter()
        .filter_map(|path| path.split_first())
        .filter(|(first, _)| **first == name)
        .map(|(_, rest)| rest)
        .collect();
    // A path that ends here keeps everything below.
    if !below.is_empty() && below.iter().all(|rest| !rest.is_empty()) {
        narrow(value, &below);
    }
    !below.is_empty()
}

fn narrow(value: &mut Value, paths: &[&[&str]]) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| keep(name, value, paths)),
        Value::Array(items) => items.iter_mut().for_each(|item| narrow(item, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(masks: &[&str], expected: Value) {
        let mut object = json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","managedFields":[1],
            "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},
            "spec":{"containers":[{"name":"a","image":"i"},{"name":"b"}],"nodeName":"n"},"status":{"phase":"x"}});
        let masks = masks.iter().map(|mask| (*mask).to_owned()).collect();
        prune_object(&mut object, Some(&masks));
        assert_eq!(object, expected, "{masks:?}");
    }

    #[test]
    fn a_mask_keeps_the_fields_that_it_names() {
        let head = json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}});
        let with = |key: &str, value: Value| {
            let mut object = head.clone();
            object[key] = value;
            object
        };
        check(
            &["spec.containers.image"],
            with("spec", json!({"containers":[{"image":"i"},{}]})),
        );
        check(
            &["spec.nodeName", "spec.nodeName.deeper"],
            with("spec", json!({"nodeName":"n"})),
        );
        check(&["status"], with("status", json!({"phase":"x"})));
        check(&["metadata.name"], head.clone());
        check(&["nothing"], head.clone());
        check(
            &["status", "status.phase.x"],
            with("status", json!({"phase":"x"})),
        );
    }

    #[test]
    fn without_masks_only_machinery_goes() {
        let mut object = json!({"metadata":{"managedFields":[],"annotations":{"a":"b",
            "kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":1});
        prune_object(&mut object, None);
        assert_eq!(
            object,
            json!({"metadata":{"annotations":{"a":"b"}},"spec":1})
        );
    }
}
