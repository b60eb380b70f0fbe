//! Rows of Services, endpoints, Ingresses and network policies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Row, at, int, join, labels, list, or, scalar, text, workload};

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row.list("spec.ports").iter().map(service_port).collect();
    let cluster_ip = row.list("spec.clusterIPs").first().and_then(Value::as_str);
    vec![
        row.name(),
        row.text_cell("spec.type"),
        json!(cluster_ip.unwrap_or_else(|| or(row.text("spec.clusterIP"), "<none>"))),
        json!(external_ip(row)),
        json!(or(&ports.join(","), "<none>")),
        row.age(),
        json!(labels(row.at("spec.selector"))),
    ]
}

fn service_port(port: &Value) -> String {
    let (number, protocol) = (int(port, "port"), text(port, "protocol"));
    match int(port, "nodePort") {
        1.. => format!("{number}:{}/{protocol}", int(port, "nodePort")),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(row: &Row<'_>) -> String {
    let external = row
        .list("spec.externalIPs")
        .iter()
        .filter_map(Value::as_str);
    match row.text("spec.type") {
        "ClusterIP" | "NodePort" => or(&join(external, ","), "<none>").to_owned(),
        "LoadBalancer" => {
            let balancer = balancer_addresses(row.list("status.loadBalancer.ingress"));
            or(
                &join(balancer.into_iter().chain(external), ","),
                "<pending>",
            )
            .to_owned()
        }
        "ExternalName" => row.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn balancer_addresses(ingress: &[Value]) -> BTreeSet<&str> {
    let address = |entry: &'_ Value| -> bool {
        !text(entry, "ip").is_empty() || !text(entry, "hostname").is_empty()
    };
    ingress
        .iter()
        .filter(|entry| address(entry))
        .map(|entry| or(text(entry, "ip"), text(entry, "hostname")))
        .collect()
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let class = row.at("spec.ingressClassName").as_str().unwrap_or("<none>");
    let ports = if row.list("spec.tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        row.name(),
        json!(class),
        json!(hosts(row.list("spec.rules"))),
        json!(join(
            balancer_addresses(row.list("status.loadBalancer.ingress")),
            ","
        )),
        json!(ports),
        row.age(),
    ]
}

fn hosts(rules: &[Value]) -> String {
    let hosts: Vec<&str> = rules
        .iter()
        .map(|rule| text(rule, "host"))
        .filter(|host| !host.is_empty())
        .collect();
    if hosts.is_empty() {
        "*".to_owned()
    } else {
        shortened(&hosts, hosts.len(), 3)
    }
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let is_default = row
        .at("metadata.annotations")
        .get("ingressclass.kubernetes.io/is-default-class");
    let default = if is_default == Some(&json!("true")) {
        " (default)"
    } else {
        ""
    };
    let parameters = row.at("spec.parameters");
    let parameters = if parameters.is_object() {
        let group = text(parameters, "apiGroup");
        let dot = if group.is_empty() { "" } else { "." };
        format!(
            "{}{dot}{group}/{}",
            text(parameters, "kind"),
            text(parameters, "name")
        )
    } else {
        "<none>".to_owned()
    };
    vec![
        json!(format!("{}{default}", row.text("metadata.name"))),
        row.text_cell("spec.controller"),
        json!(parameters),
        row.age(),
    ]
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        workload::selector(row.at("spec.podSelector")),
        row.age(),
    ]
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in row.list("subsets") {
        let ips = list(subset, "addresses")
            .iter()
            .map(|address| text(address, "ip"));
        match list(subset, "ports") {
            [] => all.extend(ips.map(str::to_owned)),
            ports => all.extend(
                ports
                    .iter()
                    .flat_map(|port| ips.clone().map(|ip| host_port(ip, int(port, "port")))),
            ),
        }
    }
    let shown = if row.list("subsets").is_empty() {
        "<none>".to_owned()
    } else {
        shortened(&all, all.len(), 3)
    };
    vec![row.name(), json!(shown), row.age()]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let port = |port: &Value| match at(port, "port") {
        Value::Null if port.get("name").is_some() => text(port, "name").to_owned(),
        Value::Null => "*".to_owned(),
        number => scalar(number),
    };
    let ports: Vec<String> = row.list("ports").iter().map(port).collect();
    let addresses: Vec<&str> = row
        .list("endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "addresses"))
        .filter_map(Value::as_str)
        .collect();
    vec![
        row.name(),
        row.text_cell("addressType"),
        json!(or(&shortened(&ports, ports.len(), 3), "<unset>")),
        json!(or(&shortened(&addresses, addresses.len(), 3), "<unset>")),
        row.age(),
    ]
}

/// The first few of a list and how many more there are.
pub(super) fn shortened(items: &[impl AsRef<str>], n_items: usize, at_most: usize) -> String {
    let shown = join(items.iter().take(at_most).map(AsRef::as_ref), ",");
    if n_items > at_most {
        format!("{shown} + {} more...", n_items - at_most)
    } else {
        shown
    }
}
