//! Computed defaults of Pods and their parts.

use serde_json::{Value, json};

use super::{Object, fill_from, objects, set_default, text};

/// Applies to Pods only, never to templates.
pub(super) fn pod(pod: &mut Object) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        spec.insert("terminationGracePeriodSeconds".into(), json!(1));
    }
    set_default(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork") == Some(&json!(true));
    for list in ["containers", "initContainers"] {
        for container in objects(spec, list) {
            if let Some(resources) = container
                .get_mut("resources")
                .and_then(Value::as_object_mut)
            {
                fill_from(resources, "limits", "requests");
            }
            if host_network {
                host_ports(container);
            }
        }
    }
}

/// On the host's network a container port is a host port.
fn host_ports(container: &mut Object) {
    for port in objects(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            set_default(port, "hostPort", number);
        }
    }
}

pub(super) fn pod_spec(spec: &mut Object) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    let account = account.to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccountName".into(), json!(account));
        spec.insert("serviceAccount".into(), json!(account));
    }
}

/// Keeps the single address and the list of addresses consistent. The single one takes precedence.
pub(super) fn pod_status(status: &mut Object) {
    let ip = text(status, "podIP").to_owned();
    let first = status
        .get("podIPs")
        .and_then(|ips| ips.get(0)?.get("ip")?.as_str())
        .unwrap_or_default()
        .to_owned();
    if !ip.is_empty() && ip != first {
        status.insert("podIPs".into(), json!([{"ip": ip}]));
    } else if ip.is_empty() && !first.is_empty() {
        status.insert("podIP".into(), json!(first));
    }
}

/// A floating tag is always pulled.
pub(super) fn pull_policy(object: &mut Object, image: &str, policy: &str) {
    let floating = has_floating_tag(text(object, image));
    set_default(
        object,
        policy,
        if floating { "Always" } else { "IfNotPresent" },
    );
}

/// Whether an image has the tag `latest`, or neither tag nor digest.
fn has_floating_tag(image: &str) -> bool {
    if image.is_empty() || image.contains('@') {
        return false;
    }
    let last_segment = image.rsplit('/').next().unwrap_or_default();
    match last_segment.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => true,
    }
}

/// A volume without a source is an empty directory.
pub(super) fn volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_tags_are_distinguished_from_fixed_ones() {
        let cases = [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("registry:5000/team/app", true),
            ("registry:5000/team/app:v1", false),
            ("nginx@sha256:abc", false),
            ("nginx:latest@sha256:abc", false),
            ("", false),
        ];
        for (image, expected) in cases {
            assert_eq!(has_floating_tag(image), expected, "{image}");
        }
    }
}
