//! Computed defaults of the kinds that are not workloads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Object, fill_from, objects, set_default, text};

pub(super) fn service(service: &mut Object) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    // The constants of ServiceSpec are set later, but are needed here already.
    set_default(spec, "type", "ClusterIP");
    set_default(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let given = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if given.is_none() {
                spec.insert(
                    "sessionAffinityConfig".into(),
                    json!({"clientIP": {"timeoutSeconds": 10800}}),
                );
            }
        }
        _ => {}
    }
    for port in objects(spec, "ports") {
        if port
            .get("targetPort")
            .is_none_or(|target| *target == json!(0) || *target == json!(""))
        {
            let number = port.get("port").cloned().unwrap_or(json!(0));
            port.insert("targetPort".into(), number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let has_external_ips = spec
        .get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|ips| !ips.is_empty());
    let external =
        kind == "LoadBalancer" || kind == "NodePort" || (kind == "ClusterIP" && has_external_ips);
    if external {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind.as_str()) {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(Value::Object(balancer)) = service
            .get_mut("status")
            .and_then(|status| status.get_mut("loadBalancer"))
        {
            for ingress in objects(balancer, "ingress").filter(|ingress| ingress.contains_key("ip"))
            {
                set_default(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// `stringData` is a way to write, never to read.
pub(super) fn secret(secret: &mut Object) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else {
        return;
    };
    let data = secret
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(data) = data.as_object_mut() {
        for (key, value) in plain {
            let text = value.as_str().unwrap_or_default();
            data.insert(key, json!(STANDARD.encode(text)));
        }
    }
}

/// The name label; a namespace still without a name gets its label once it has one.
pub(super) fn namespace(namespace: &mut Object) {
    let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let name = text(metadata, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), json!(name));
    }
}

pub(super) fn node_status(status: &mut Object) {
    if let Some(capacity) = status.get("capacity").cloned() {
        set_default(status, "allocatable", capacity);
    }
}

pub(super) fn limit_range_item(item: &mut Object) {
    if text(item, "type") == "Container" {
        fill_from(item, "max", "default");
        fill_from(item, "default", "defaultRequest");
        fill_from(item, "min", "defaultRequest");
    }
}

pub(super) fn network_policy(spec: &mut Object) {
    let has_egress = spec.contains_key("egress");
    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set_default(spec, "policyTypes", types);
}

pub(super) fn subject(subject: &mut Object) {
    if ["User", "Group"].contains(&text(subject, "kind")) {
        set_default(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

/// A behavior with anything in it is completed in both directions.
pub(super) fn autoscaler_behavior(behavior: &mut Object) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (direction, rules) in [("scaleUp", up), ("scaleDown", down)] {
        let given = behavior.entry(direction).or_insert_with(|| json!({}));
        if let (Value::Object(given), Value::Object(rules)) = (given, rules) {
            for (field, value) in rules {
                set_default(given, &field, value);
            }
        }
    }
}
