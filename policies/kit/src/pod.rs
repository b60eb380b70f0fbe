//! Pods, wherever they are described: in themselves and in everything that makes them.

use serde_json::Value;

/// A container, and the list it is in.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    /// `containers`, `initContainers` or `ephemeralContainers`.
    pub list: &'static str,
    /// Its description.
    pub value: &'a Value,
}

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

impl<'a> Container<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.value["name"].as_str().unwrap_or("(without a name)")
    }

    /// Its image.
    pub fn image(&self) -> &'a str {
        self.value["image"].as_str().unwrap_or("")
    }
}

/// Where a kind keeps its pod's spec.
fn pointer(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some("/spec"),
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicationController"
        | "Job" => Some("/spec/template/spec"),
        "CronJob" => Some("/spec/jobTemplate/spec/template/spec"),
        _ => None,
    }
}

/// The spec of the pod that an object describes.
pub fn pod_spec<'a>(kind: &str, object: &'a Value) -> Option<&'a Value> {
    object.pointer(pointer(kind)?)
}

/// The spec of the pod that an object describes, to be changed.
pub fn pod_spec_mut<'a>(kind: &str, object: &'a mut Value) -> Option<&'a mut Value> {
    object.pointer_mut(pointer(kind)?)
}

/// All containers of a pod, in the order they start.
pub fn containers(spec: &Value) -> impl Iterator<Item = Container<'_>> {
    LISTS.into_iter().flat_map(|list| {
        let values = spec[list].as_array().into_iter().flatten();
        values.map(move |value| Container { list, value })
    })
}

/// All containers of a pod, to be changed.
pub fn containers_mut(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let fields = spec.as_object_mut().into_iter().flatten();
    fields
        .filter(|(name, _)| LISTS.contains(&name.as_str()))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_found_in_what_makes_them() {
        let spec = json!({"containers":[{"name":"a"}],"initContainers":[{"name":"b"}]});
        for (kind, object) in [
            ("Pod", json!({"spec":spec})),
            ("Deployment", json!({"spec":{"template":{"spec":spec}}})),
            (
                "CronJob",
                json!({"spec":{"jobTemplate":{"spec":{"template":{"spec":spec}}}}}),
            ),
        ] {
            let found = pod_spec(kind, &object).expect(kind);
            let names: Vec<_> = containers(found)
                .map(|container| container.name())
                .collect();
            assert_eq!(names, ["b", "a"], "{kind}");
        }
        assert!(pod_spec("Service", &json!({"spec":{}})).is_none());
        assert!(pod_spec("Pod", &Value::Null).is_none());
    }

    #[test]
    fn odd_shapes_have_no_containers() {
        for spec in [json!(null), json!({"containers":3}), json!([]), json!("x")] {
            assert_eq!(containers(&spec).count(), 0);
            assert_eq!(containers_mut(&mut spec.clone()).count(), 0);
        }
    }
}
