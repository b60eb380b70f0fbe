//! AuditSummary: its names, and that every field survives a round trip.

use polity_api::audit::{AuditSummary, FAILING_NAMED};
use polity_api::crds;
use serde_json::json;

#[test]
fn the_definition_has_the_name_that_clients_use() {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "AuditSummary")
        .unwrap();
    assert_eq!(
        crd.metadata.name.as_deref(),
        Some("auditsummaries.polity.dev")
    );
    assert_eq!(crd.spec.scope, "Cluster");
    let version = &crd.spec.versions[0];
    assert_eq!(version.name, "v1alpha1");
    assert!(version.subresources.is_some());
    let schema = serde_json::to_value(&version.schema).unwrap();
    let shards = "/openAPIV3Schema/properties/status/properties/shards";
    let shards = schema.pointer(shards).unwrap();
    assert_eq!(shards["x-kubernetes-list-map-keys"], json!(["shard"]));
    let failing = &shards["items"]["properties"]["failing"];
    assert_eq!(failing["maxItems"], json!(FAILING_NAMED));
}

#[test]
fn nothing_is_lost() {
    let object = json!({
        "apiVersion": "polity.dev/v1alpha1",
        "kind": "AuditSummary",
        "metadata": {"name": "clusterwide-no-priv"},
        "status": {"shards": [{
            "shard": 0,
            "of": 1,
            "policyUID": "6e7d",
            "policyGeneration": 3,
            "completedAt": "2026-11-16T10:00:00Z",
            "summary": {"pass": 7, "fail": 1, "warn": 0, "error": 0, "skip": 0},
            "failing": [{"kind": "Pod", "namespace": "shop", "name": "web"}, {"kind": "Node", "name": "n1"}],
        }]},
    });
    let typed: AuditSummary = serde_json::from_str(&object.to_string()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), object);
}
