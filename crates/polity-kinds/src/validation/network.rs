//! Services, Ingresses and network policies.

use std::collections::HashSet;
use std::net::IpAddr;

use polity_core::name;
use polity_core::{FieldErrorKind, FieldPath};
use serde_json::{Value, json};

use super::{Errors, Object, at, field, list, rules, text};

pub(super) fn service_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let ty = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    let ports = list(spec, "ports");
    let ports_path = path.child("ports");
    if ports.is_empty() && !headless && ty != "ExternalName" {
        errors.required(&ports_path, "");
    }
    if ty == "ExternalName" {
        let target = text(spec, "externalName").trim_end_matches('.');
        let path = path.child("externalName");
        match target {
            "" => errors.required(&path, ""),
            target => errors.named(&path, &json!(target), name::dns_subdomain(target)),
        }
    }
    if headless && ["LoadBalancer", "NodePort"].contains(&ty) {
        let path = path.child("clusterIPs").index(0);
        errors.invalid(
            &path,
            &json!("None"),
            &format!("may not be set to 'None' for {ty} services"),
        );
    }
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let here = ports_path.index(index);
        let port_number = at(port, "port");
        if !port_number
            .as_i64()
            .is_some_and(|number| (1..=65535).contains(&number))
        {
            let shown = if port_number.is_null() {
                &json!(0)
            } else {
                port_number
            };
            errors.invalid(
                &here.child("port"),
                shown,
                "must be between 1 and 65535, inclusive",
            );
        }
        let name = at(port, "name");
        match name.as_str().unwrap_or_default() {
            "" if ports.len() > 1 => errors.required(&here.child("name"), ""),
            "" => {}
            text if !names.insert(text) => errors.duplicate(&here.child("name"), name),
            _ => {}
        }
        let protocol = at(port, "protocol").as_str().unwrap_or_default();
        if !numbers.insert((protocol, port_number.as_i64())) {
            // A real server shows the Go fields.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{port_number},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol),
            );
            errors.shown(FieldErrorKind::Duplicate, &here, &shown, "");
        }
        let node_port = at(port, "nodePort");
        if let Some(number) = node_port.as_i64().filter(|number| *number != 0) {
            if ty == "ClusterIP" {
                errors.forbidden(
                    &here.child("nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                );
            } else if !node_ports.insert((protocol, number)) {
                errors.duplicate(&here.child("nodePort"), node_port);
            }
        }
    }
}

/// The address of a Service is its own for as long as it has one.
pub(super) fn service_update(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let Some(old) = old else { return };
    let is_external = |service: &Value| at(service, "spec.type") == "ExternalName";
    let (before, now) = (at(old, "spec.clusterIP"), at(new, "spec.clusterIP"));
    if is_external(new) || is_external(old) || before.is_null() || before == now {
        return;
    }
    let path = FieldPath::of("spec").child("clusterIPs").index(0);
    errors.invalid(&path, &json!([now]), "may not change once set");
}

/// Addresses have the address type of the slice. Unlike on a real server they may be loopback addresses, because the
/// Pods of the local runtime use them.
pub(super) fn endpoint_slice(slice: &Object, path: &FieldPath, errors: &mut Errors) {
    let family = text(slice, "addressType");
    if !["IPv4", "IPv6"].contains(&family) {
        return;
    }
    for (index, endpoint) in list(slice, "endpoints").iter().enumerate() {
        let path = path.child("endpoints").index(index).child("addresses");
        for (index, address) in at(endpoint, "addresses")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            match address.as_str().unwrap_or_default().parse::<IpAddr>() {
                Ok(ip) if ip.is_ipv4() == (family == "IPv4") => {}
                Ok(_) => errors.invalid(&path, address, &format!("must be an {family} address")),
                Err(_) => rules::ip(address, &path.index(index), errors),
            }
        }
    }
}

pub(super) fn ingress_spec(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let rules = list(spec, "rules");
    if rules.is_empty() && field(spec, "defaultBackend").is_null() {
        errors.invalid(
            path,
            field(spec, "rules"),
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    for (index, rule) in rules.iter().enumerate() {
        let host = at(rule, "host");
        let Some(name) = host.as_str().filter(|name| !name.is_empty()) else {
            continue;
        };
        let path = path.child("rules").index(index).child("host");
        if name.parse::<IpAddr>().is_ok() {
            errors.invalid(&path, host, "must be a DNS name, not an IP address");
        }
        errors.named(
            &path,
            host,
            name::dns_subdomain(name.strip_prefix("*.").unwrap_or(name)),
        );
    }
}

pub(super) fn ingress_path(entry: &Object, path: &FieldPath, errors: &mut Errors) {
    let (ty, given) = (field(entry, "pathType"), text(entry, "path"));
    let here = path.child("path");
    let absolute = given.starts_with('/');
    match ty.as_str() {
        None => errors.required(&path.child("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !absolute {
                errors.invalid(&here, &json!(given), "must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"]
                .into_iter()
                .filter(|part| given.contains(part))
            {
                errors.invalid(
                    &here,
                    &json!(given),
                    &format!("must not contain '{sequence}'"),
                );
            }
            for suffix in ["/..", "/."]
                .into_iter()
                .filter(|part| given.ends_with(part))
            {
                errors.invalid(&here, &json!(given), &format!("cannot end with '{suffix}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !given.is_empty() && !absolute {
                errors.invalid(&here, &json!(given), "must be an absolute path");
            }
        }
        Some(_) => {
            errors.not_supported(
                &path.child("pathType"),
                ty,
                &["Exact", "ImplementationSpecific", "Prefix"],
            );
        }
    }
}

pub(super) fn ingress_backend(backend: &Object, path: &FieldPath, errors: &mut Errors) {
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => errors.invalid(
            path,
            &json!(""),
            "cannot set both resource and service backends",
        ),
        (None, None) => errors.invalid(path, &json!(""), "resource or service backend is required"),
        (Some(_), None) => {}
        (None, Some(service)) => {
            let (name, number) = (at(service, "port.name"), at(service, "port.number"));
            match (rules::is_absent(name), rules::is_absent(number)) {
                (true, true) => errors.required(path, "port name or number is required"),
                (false, false) => {
                    errors.invalid(path, &json!(""), "cannot set both port name & port number");
                }
                (false, true) => rules::port(
                    name,
                    &path.child("service").child("port").child("name"),
                    errors,
                ),
                (true, false) => rules::port(
                    number,
                    &path.child("service").child("port").child("number"),
                    errors,
                ),
            }
        }
    }
}

pub(super) fn policy_types(spec: &Object, path: &FieldPath, errors: &mut Errors) {
    let types = list(spec, "policyTypes");
    let path = path.child("policyTypes");
    if types.len() > 2 {
        errors.invalid(
            &path,
            field(spec, "policyTypes"),
            "may not specify more than two policyTypes",
        );
        return;
    }
    for (index, ty) in types.iter().enumerate() {
        if !["Ingress", "Egress"].contains(&ty.as_str().unwrap_or_default()) {
            errors.not_supported(&path.index(index), ty, &["Ingress", "Egress"]);
        }
    }
}

pub(super) fn policy_peer(peer: &Object, path: &FieldPath, errors: &mut Errors) {
    let n_peers = ["podSelector", "namespaceSelector", "ipBlock"]
        .into_iter()
        .filter(|kind| peer.contains_key(*kind))
        .count();
    if n_peers == 0 {
        errors.required(path, "must specify a peer");
    } else if n_peers > 1 && peer.contains_key("ipBlock") {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

pub(super) fn policy_port(port: &Object, path: &FieldPath, errors: &mut Errors) {
    let Some(end) = port.get("endPort") else {
        return;
    };
    let path = path.child("endPort");
    match port.get("port") {
        Some(Value::Number(first)) if end.as_i64() < first.as_i64() => {
            errors.invalid(&path, end, "must be greater than or equal to `port`");
        }
        Some(Value::Number(_)) => rules::port(end, &path, errors),
        Some(_) => errors.invalid(
            &path,
            end,
            "may not be specified when `port` is non-numeric",
        ),
        None => errors.invalid(
            &path,
            end,
            "may not be specified when `port` is not specified",
        ),
    }
}
