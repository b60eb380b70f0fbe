//! Any JSON may come as a policy, and any JSON as the schema of its kind.
//!
//! The input is a list of a schema, a spec and a status. The policy of that kind targets a Gateway with a route below it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_attach::{Graph, ObjectRef};
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let Ok((schema, spec, status)) = serde_json::from_slice::<(Value, Value, Value)>(data) else { return };
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "fuzzpolicies.acme.test", "labels": {"gateway.networking.k8s.io/policy": "inherited"}},
        "spec": {"group": "acme.test", "scope": "Namespaced", "names": {"kind": "FuzzPolicy", "plural": "fuzzpolicies"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let object = |api_version: &str, kind: &str, name: &str, spec: &Value| {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "infra"}, "spec": spec, "status": status})
    };
    let gateway = "gateway.networking.k8s.io/v1";
    let mut graph = Graph::of([
        crd,
        object(gateway, "Gateway", "g", &json!({"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]})),
        object(gateway, "HTTPRoute", "r", &json!({"parentRefs": [{"name": "g"}], "rules": [{"name": "x"}]})),
        object("acme.test/v1", "FuzzPolicy", "as-is", &spec),
    ]);
    let mut targeted = spec;
    if let Some(fields) = targeted.as_object_mut() {
        fields.insert("targetRef".to_owned(), json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}));
        fields.remove("targetRefs");
    }
    graph.apply(object("acme.test/v1", "FuzzPolicy", "on-gateway", &targeted));
    graph.issues();
    let route = ObjectRef::new("gateway.networking.k8s.io", "HTTPRoute", Some("infra"), "r");
    let results = graph.effective(&route, None);
    assert_eq!(results, graph.effective(&route, None), "an answer does not change by being asked for");
    graph.effective_policy(Some("infra"), "r");
    let explanation = graph.explain(&route, None, jiff::Timestamp::UNIX_EPOCH).expect("the route is there");
    explanation.to_dot();
    explanation.to_mermaid();
    for policy in graph.policies() {
        graph.attachment_status(policy);
    }
});
