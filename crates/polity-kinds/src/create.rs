//! Fields that the server sets in a new object besides defaults: the initial status, the selector of a Job, the
//! finalizer of a Namespace.

use polity_core::GroupVersionKind;
use polity_core::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::defaults::apply_defaults;
use super::wire;

/// Completes an object that is about to be created under `uid`; defaults were applied before.
pub fn prepare_create(gvk: &GroupVersionKind, object: &mut Value, uid: &str) {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => generate_job_selector(object, uid),
        ("", "Namespace") => add_namespace_finalizer(object),
        _ => {}
    }
    initial_status(gvk, object);
}

/// Replaces the status by that of a new object of this kind. Kinds without a status are unchanged, and so are
/// CustomResourceDefinitions, whose controller writes the status.
pub fn initial_status(gvk: &GroupVersionKind, object: &mut Value) {
    let Some(message) = wire::table().of_kind(gvk) else {
        return;
    };
    let has_status = wire::table()
        .message(message)
        .fields
        .iter()
        .any(|field| field.name == "status");
    // A kubelet registers its node together with its status.
    let keeps_status = gvk.group.is_empty() && gvk.kind == "Node";
    if !has_status || keeps_status || !object.is_object() {
        return;
    }
    object["status"] = json!({});
    if gvk.group.is_empty() && gvk.kind == "PersistentVolume" {
        object["status"]["lastPhaseTransitionTime"] =
            object["metadata"]["creationTimestamp"].clone();
    }
    // Phases of namespaces and volumes are defaults.
    apply_defaults(gvk, object);
    if gvk.group.is_empty() && gvk.kind == "Pod" {
        object["status"] = json!({"phase": "Pending", "qosClass": qos_class(object)});
    }
}

/// The quality of service class of a Pod, from the cpu and memory that its containers request.
pub fn qos_class(pod: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers: Vec<&Value> = lists
        .into_iter()
        .filter_map(|list| pod.get("spec")?.get(list)?.as_array())
        .flatten()
        .collect();
    let amount = |container: &Value, list: &str, resource: &str| -> Option<Quantity> {
        let text = container
            .get("resources")?
            .get(list)?
            .get(resource)?
            .as_str()?;
        text.parse()
            .ok()
            .filter(|quantity: &Quantity| !quantity.is_zero())
    };
    let resources = ["cpu", "memory"];
    let asks = |container: &&Value| {
        resources.iter().any(|r| {
            amount(container, "requests", r).is_some() || amount(container, "limits", r).is_some()
        })
    };
    let is_bounded = |container: &&Value| {
        resources.iter().all(|r| {
            let limit = amount(container, "limits", r);
            limit.is_some()
                && amount(container, "requests", r).is_none_or(|request| Some(request) == limit)
        })
    };
    if !containers.iter().any(asks) {
        "BestEffort"
    } else if containers.iter().all(is_bounded) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Ties a Job to its Pods by its uid, unless the user chose to do so by hand.
fn generate_job_selector(job: &mut Value, uid: &str) {
    if job.pointer("/spec/manualSelector") == Some(&json!(true)) {
        return;
    }
    let name = job.pointer("/metadata/name").cloned().unwrap_or_default();
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let labels = child(spec, "template")
        .and_then(|t| child(t, "metadata"))
        .and_then(|m| child(m, "labels"));
    if let Some(labels) = labels {
        for (key, value) in [
            ("job-name", name.clone()),
            ("batch.kubernetes.io/job-name", name),
            ("controller-uid", json!(uid)),
            ("batch.kubernetes.io/controller-uid", json!(uid)),
        ] {
            // A label that contradicts stays and fails validation.
            labels.entry(key).or_insert(value);
        }
    }
    if let Some(labels) =
        child(spec, "selector").and_then(|selector| child(selector, "matchLabels"))
    {
        labels
            .entry("batch.kubernetes.io/controller-uid")
            .or_insert(json!(uid));
    }
}

fn child<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    object
        .entry(field)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn add_namespace_finalizer(namespace: &mut Value) {
    let Some(spec) = namespace
        .as_object_mut()
        .and_then(|fields| child(fields, "spec"))
    else {
        return;
    };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.contains(&json!("kubernetes"))
    {
        finalizers.push(json!("kubernetes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(group: &str, kind: &str, mut object: Value) -> Value {
        let gvk = GroupVersionKind::new(group, "v1", kind);
        apply_defaults(&gvk, &mut object);
        prepare_create(&gvk, &mut object, "uid-1");
        object
    }

    #[test]
    fn new_objects_have_their_first_status() {
        let cases = [
            ("", "Namespace", json!({"phase": "Active"})),
            (
                "",
                "Pod",
                json!({"phase": "Pending", "qosClass": "BestEffort"}),
            ),
            ("", "PersistentVolume", json!({"phase": "Pending"})),
            ("", "PersistentVolumeClaim", json!({"phase": "Pending"})),
            ("apps", "Deployment", json!({})),
            ("apps", "ReplicaSet", json!({"replicas": 0})),
        ];
        for (group, kind, expected) in cases {
            let object = created(
                group,
                kind,
                json!({"metadata": {"name": "x"}, "status": {"phase": "Odd", "replicas": 3}}),
            );
            assert_eq!(object["status"], expected, "{kind}");
        }
        assert!(created("", "ConfigMap", json!({})).get("status").is_none());
    }

    #[test]
    fn quality_of_service_follows_requests_and_limits() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (json!([{}]), "BestEffort"),
            (
                json!([{"resources": {"limits": full, "requests": full}}]),
                "Guaranteed",
            ),
            (json!([{"resources": {"limits": full}}]), "Guaranteed"),
            (
                json!([{"resources": {"limits": full, "requests": {"cpu": "1000m", "memory": "1Gi"}}}]),
                "Guaranteed",
            ),
            (
                json!([{"resources": {"limits": full, "requests": {"cpu": "500m"}}}]),
                "Burstable",
            ),
            (json!([{"resources": {"limits": full}}, {}]), "Burstable"),
            (
                json!([{"resources": {"requests": {"cpu": "0"}}}]),
                "BestEffort",
            ),
            (
                json!([{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}]),
                "BestEffort",
            ),
        ];
        for (containers, expected) in cases {
            let pod = json!({"spec": {"containers": containers}});
            assert_eq!(qos_class(&pod), expected, "{pod}");
        }
    }

    #[test]
    fn a_job_selects_its_pods_by_uid() {
        let job = created(
            "batch",
            "Job",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}}),
        );
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}})
        );
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({"job-name": "j", "batch.kubernetes.io/job-name": "j",
                   "controller-uid": "uid-1", "batch.kubernetes.io/controller-uid": "uid-1"})
        );
        let manual =
            json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true, "template": {}}});
        assert!(
            created("batch", "Job", manual)["spec"]
                .get("selector")
                .is_none()
        );
    }

    #[test]
    fn a_new_namespace_is_held_by_kubernetes() {
        let namespace = created("", "Namespace", json!({"metadata": {"name": "n"}}));
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(
            namespace["metadata"]["labels"],
            json!({"kubernetes.io/metadata.name": "n"})
        );
    }
}
