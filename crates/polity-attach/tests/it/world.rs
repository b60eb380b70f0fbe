//! A small language for worked cases: objects in short words, policies as in the contract.
//!
//! `Fixture` starts with the kinds of docs/spec/attachment.md#6 (`TimeoutPolicy` inherited with its cluster twin, `HealthPolicy` direct)
//! and builds objects by name; names are `ns/name`, `infra` if omitted.

use polity_attach::{Graph, ObjectRef, Resultant, Through};
use serde_json::{Value, json};

pub(crate) const GATEWAY: &str = "gateway.networking.k8s.io";
pub(crate) const ACME: &str = "acme.test";

/// Objects of a case.
#[derive(Clone, Default)]
pub(crate) struct Fixture {
    pub(crate) objects: Vec<Value>,
}

/// A CRD of a policy kind; the body of its stanzas is `body`.
pub(crate) fn crd(kind: &str, scope: &str, label: &str, body: &Value) -> Value {
    let target = json!({"type": "object", "properties": {
        "group": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"},
        "namespace": {"type": "string"}, "sectionName": {"type": "string"}}});
    let mut spec = json!({
        "targetRef": target,
        "targetRefs": {"type": "array", "items": target},
        "strategy": {"type": "string"},
    });
    if label.eq_ignore_ascii_case("inherited") {
        for stanza in ["defaults", "overrides", "default", "override"] {
            spec[stanza] = json!({"type": "object", "properties": body});
        }
    }
    for (name, schema) in body.as_object().unwrap() {
        spec[name] = schema.clone();
    }
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{ACME}"),
                     "labels": {"gateway.networking.k8s.io/policy": label},
                     "annotations": {"polity.dev/managed-policy": "true"}},
        "spec": {"group": ACME, "scope": scope, "names": {"kind": kind, "plural": plural},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": spec},
                        "status": {"type": "object", "properties": {"ancestors": {"type": "array", "maxItems": 16,
                            "items": {"type": "object", "properties": {"conditions": {"type": "array",
                                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}}}}}]},
    })
}

pub(crate) fn body() -> Value {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let flag = || json!({"type": "boolean"});
    json!({
        "timeout": text(), "retries": number(), "tls": text(), "limit": number(), "max": number(), "burst": number(),
        "rate": number(), "lb": text(), "keepalive": text(), "maxBody": text(), "idle": text(), "path": text(),
        "port": number(), "connect": text(), "request": text(), "x": number(), "y": number(), "z": number(),
        "retryOn": {"type": "array", "items": {"type": "string"}},
        "codes": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "hosts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "required": ["name"],
                            "properties": {"name": text(), "w": number()}}},
        "cdn": {"type": "object", "properties": {"enabled": flag(), "cache": {"type": "object",
                "properties": {"host": flag(), "proto": flag(), "query": flag()}}}},
    })
}

/// `ns/name` or `name`, which is in `infra`; `/name` is cluster-scoped.
fn place(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some(("", name)) => (None, name),
        Some((namespace, name)) => (Some(namespace), name),
        None => (Some("infra"), name),
    }
}

/// The group of a kind that cases name.
pub(crate) fn group_of(kind: &str) -> &'static str {
    match kind {
        "Service" | "Namespace" | "ConfigMap" | "Pod" => "",
        "Deployment" | "ReplicaSet" => "apps",
        "Gateway" | "GatewayClass" | "ListenerSet" | "HTTPRoute" | "GRPCRoute" | "TLSRoute"
        | "TCPRoute" | "UDPRoute" => GATEWAY,
        _ => ACME,
    }
}

/// `Kind/name` or `Kind/ns/name`, as a reference.
pub(crate) fn reference(text: &str) -> ObjectRef {
    let (kind, name) = text.split_once('/').unwrap();
    let group = group_of(kind);
    if matches!(kind, "Namespace" | "GatewayClass" | "ClusterTimeoutPolicy") {
        return ObjectRef::new(group, kind, None, name);
    }
    let (namespace, name) = place(name);
    ObjectRef::new(group, kind, namespace, name)
}

/// A target as cases write it: `C`, `G`, `G#https`, `R`, `Service/s#admin`, `Namespace/app`, `infra/G`.
fn target(text: &str) -> Value {
    let (object, section) = match text.split_once('#') {
        Some((object, section)) => (object, Some(section)),
        None => (text, None),
    };
    let long = match object {
        "C" => "GatewayClass/c".to_owned(),
        "S" => "Service/s".to_owned(),
        name if name.starts_with('G') && name.len() <= 2 => {
            format!("Gateway/{}", name.to_lowercase())
        }
        name if name.starts_with('R') && name.len() <= 2 => {
            format!("HTTPRoute/{}", name.to_lowercase())
        }
        other => other.to_owned(),
    };
    let (kind, name) = long.split_once('/').unwrap();
    let (kind, group) = match kind.split_once('.') {
        Some((kind, group)) => (kind, group.to_owned()),
        None => (kind, group_of(kind).to_owned()),
    };
    let mut target = json!({"group": group, "kind": kind});
    match name.split_once('/') {
        Some((namespace, name)) => {
            target["namespace"] = json!(namespace);
            target["name"] = json!(name);
        }
        None => target["name"] = json!(name),
    }
    if let Some(section) = section {
        target["sectionName"] = json!(section);
    }
    target
}

impl Fixture {
    /// The kinds of the worked cases.
    pub(crate) fn new() -> Self {
        Self::default()
            .with(crd("TimeoutPolicy", "Namespaced", "Inherited", &body()))
            .with(crd("ClusterTimeoutPolicy", "Cluster", "inherited", &body()))
            .with(crd("HealthPolicy", "Namespaced", "Direct", &body()))
    }

    pub(crate) fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    pub(crate) fn object(self, api_version: &str, kind: &str, name: &str, spec: Value) -> Self {
        let (namespace, name) = place(name);
        let mut metadata = json!({"name": name});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        self.with(
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}),
        )
    }

    pub(crate) fn class(self) -> Self {
        self.object(
            &format!("{GATEWAY}/v1"),
            "GatewayClass",
            "/c",
            json!({"controllerName": "acme.test/gw"}),
        )
    }

    pub(crate) fn namespace(self, name: &str) -> Self {
        self.object("v1", "Namespace", &format!("/{name}"), json!({}))
    }

    /// A Gateway of class `c` with HTTP listeners that take routes of all namespaces.
    pub(crate) fn gateway(self, name: &str, listeners: &[&str]) -> Self {
        let listeners: Vec<Value> = listeners
            .iter()
            .enumerate()
            .map(|(index, name)| {
                json!({"name": name, "port": 80 + index, "protocol": "HTTP",
                       "allowedRoutes": {"namespaces": {"from": "All"}}})
            })
            .collect();
        let spec = json!({"gatewayClassName": "c", "listeners": listeners});
        self.object(&format!("{GATEWAY}/v1"), "Gateway", name, spec)
    }

    /// A route under these Gateways (`g` or `g#listener`) with one rule for each entry: a name or `-`, then backends.
    pub(crate) fn route(self, name: &str, parents: &[&str], rules: &[(&str, &[&str])]) -> Self {
        let parents: Vec<Value> = parents
            .iter()
            .map(|parent| {
                let (gateway, section) = match parent.split_once('#') {
                    Some((gateway, section)) => (gateway, Some(section)),
                    None => (*parent, None),
                };
                let (namespace, gateway) = place(gateway);
                let mut parent = json!({"name": gateway, "namespace": namespace});
                if let Some(section) = section {
                    parent["sectionName"] = json!(section);
                }
                parent
            })
            .collect();
        let rules: Vec<Value> = rules
            .iter()
            .map(|(name, backends)| {
                let backends: Vec<Value> = backends
                    .iter()
                    .map(|service| match service.split_once('/') {
                        Some((namespace, service)) => {
                            json!({"name": service, "namespace": namespace, "port": 80})
                        }
                        None => json!({"name": service, "port": 80}),
                    })
                    .collect();
                let mut rule = json!({"backendRefs": backends});
                if *name != "-" {
                    rule["name"] = json!(name);
                }
                rule
            })
            .collect();
        self.object(
            &format!("{GATEWAY}/v1"),
            "HTTPRoute",
            name,
            json!({"parentRefs": parents, "rules": rules}),
        )
    }

    /// A Service with named ports 80, 81 and so on; without any it has one unnamed port 80.
    pub(crate) fn service(self, name: &str, ports: &[&str]) -> Self {
        let ports: Vec<Value> = if ports.is_empty() {
            vec![json!({"port": 80})]
        } else {
            let numbered = ports.iter().enumerate();
            numbered
                .map(|(index, name)| json!({"name": name, "port": 80 + index}))
                .collect()
        };
        self.object("v1", "Service", name, json!({"ports": ports}))
    }

    /// A policy of the kind that `kind` stands for (`K`, `H`, or its name), made in second `t`.
    pub(crate) fn policy(
        self,
        kind: &str,
        name: &str,
        t: u32,
        targets: &[&str],
        spec: Value,
    ) -> Self {
        self.with(policy(kind, name, t, targets, spec))
    }

    /// `C > N > G > L > R > S`, all in `infra`.
    pub(crate) fn chain(self) -> Self {
        self.class()
            .namespace("infra")
            .gateway("g", &["http"])
            .route("r", &["g"], &[("-", &["s"])])
            .service("s", &[])
    }

    pub(crate) fn graph(&self) -> Graph {
        Graph::of(self.objects.clone())
    }

    /// Settings for kinds, as an AttachmentConfig.
    pub(crate) fn config(self, spec: Value) -> Self {
        self.with(
            json!({"apiVersion": "polity.dev/v1alpha1", "kind": "AttachmentConfig",
                         "metadata": {"name": "test"}, "spec": spec}),
        )
    }
}

pub(crate) fn policy(kind: &str, name: &str, t: u32, targets: &[&str], mut spec: Value) -> Value {
    let cluster = name.starts_with('/');
    let kind = match kind {
        "K" if cluster => "ClusterTimeoutPolicy",
        "K" => "TimeoutPolicy",
        "H" => "HealthPolicy",
        other => other,
    };
    let (namespace, name) = place(name);
    match targets {
        [] => {}
        [one] => spec["targetRef"] = target(one),
        many => spec["targetRefs"] = many.iter().map(|text| target(text)).collect(),
    }
    let mut metadata = json!({"name": name, "generation": 1, "uid": format!("uid-{name}"),
                              "creationTimestamp": format!("2026-01-01T00:00:{t:02}Z")});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": format!("{ACME}/v1"), "kind": kind, "metadata": metadata, "spec": spec})
}

/// The results for an object on paths over another one.
pub(crate) fn results(graph: &Graph, object: &str, through: Option<&str>) -> Vec<Resultant> {
    let through = through.map(|text| {
        let (object, section) = match text.split_once('#') {
            Some((object, section)) => (object, Some(section.to_owned())),
            None => (text, None),
        };
        Through {
            object: reference(object),
            section,
        }
    });
    graph.effective(&reference(object), through.as_ref())
}

/// The one value of an object, on paths over another one; `{}` when no policy reaches it.
pub(crate) fn value(graph: &Graph, object: &str, through: Option<&str>) -> Value {
    let (object, section) = match object.split_once('#') {
        Some((object, section)) => (object, Some(section)),
        None => (object, None),
    };
    let all = results(graph, object, through);
    let whole: Vec<&Resultant> = all
        .iter()
        .filter(|result| result.section_name.is_none())
        .collect();
    let own: Vec<&Resultant> = all
        .iter()
        .filter(|result| result.section_name.as_deref() == section)
        .collect();
    let found = if own.is_empty() { whole } else { own };
    match found.as_slice() {
        [] => json!({}),
        [one] => one.values.clone(),
        many => panic!("{object} has {} results: {many:#?}", many.len()),
    }
}

/// `A` and `E` of a policy: `Accepted full`, `Conflicted`, `Invalid`.
pub(crate) fn status(graph: &Graph, policy: &str) -> String {
    let status = graph
        .policy_status(&reference(policy))
        .expect("the policy is there");
    let mut words: Vec<String> = status
        .ancestors
        .iter()
        .map(|ancestor| {
            let accepted = ancestor.condition("Accepted").unwrap();
            let programmed =
                ancestor
                    .condition("Programmed")
                    .map(|condition| match condition.reason.as_str() {
                        "Programmed" => " full",
                        "PartiallyProgrammed" => " partial",
                        "Overridden" => " overridden",
                        other => panic!("no effectiveness: {other}"),
                    });
            format!("{}{}", accepted.reason, programmed.unwrap_or(""))
        })
        .collect();
    words.dedup();
    words.join(", ")
}

/// Checks `A` and `E` of several policies.
pub(crate) fn check_status(graph: &Graph, expected: &[(&str, &str)]) {
    for (policy, words) in expected {
        assert_eq!(status(graph, policy), *words, "status of {policy}");
    }
}

/// The policies that act on an object.
pub(crate) fn affected_by(graph: &Graph, object: &str) -> Vec<String> {
    graph
        .affected_by(&reference(object))
        .iter()
        .map(|policy| policy.name.clone())
        .collect()
}
