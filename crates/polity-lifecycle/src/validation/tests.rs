//! Validation as tables: an object, and the errors about it.

use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use serde_json::{Value, json};

use super::*;
use crate::lifecycle::PolicyKind::{
    self, AdmissionPolicy, AdmissionPolicyGroup, ClusterAdmissionPolicy,
    ClusterAdmissionPolicyGroup,
};
use crate::names::UniqueNames;

fn object(kind: PolicyKind, fields: Value) -> Value {
    let mut spec = json!({
        "policyServer": "default", "mode": "protect", "timeoutSeconds": 10,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    });
    let own = if kind.is_group() {
        json!({"expression": "a()", "message": "no", "policies": {"a": {"module": "m"}}})
    } else {
        json!({"module": "m", "mutating": false})
    };
    let map = spec.as_object_mut().unwrap();
    map.extend(own.as_object().unwrap().clone());
    map.extend(fields.as_object().unwrap().clone());
    let mut metadata = json!({"name": "p"});
    if kind.is_namespaced() {
        metadata["namespace"] = json!("team");
    }
    json!({"metadata": metadata, "spec": spec})
}

fn said(wrong: Vec<polity_core::FieldError>) -> String {
    let lines: Vec<_> = wrong.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn rule(groups: &[&str], resources: &[&str]) -> Value {
    json!({"rules": [{
        "apiGroups": groups, "apiVersions": ["v1"], "resources": resources, "operations": ["CREATE"],
    }]})
}

#[test]
fn policies_and_groups() {
    let wide =
        "spec.rules[0]: Forbidden: a namespaced policy cannot match every resource of every group";
    let reports =
        "spec.rules[0]: Forbidden: a namespaced policy cannot match policyreports.wgpolicyk8s.io";
    for (kind, fields, expected) in [
        (AdmissionPolicy, json!({}), ""),
        (ClusterAdmissionPolicyGroup, json!({}), ""),
        // 1
        (
            AdmissionPolicy,
            json!({"rules": []}),
            "spec.rules: Required value: must have at least one rule",
        ),
        (
            ClusterAdmissionPolicy,
            json!({"rules": [{"apiGroups": [], "apiVersions": ["v1"], "resources": [""], "operations": []}]}),
            "spec.rules[0].operations: Required value: must have at least one entry; \
             spec.rules[0].resources[0]: Required value: must not be empty",
        ),
        // 2
        (AdmissionPolicy, rule(&["*"], &["*"]), wide),
        (AdmissionPolicyGroup, rule(&["*"], &["*/*"]), wide),
        (ClusterAdmissionPolicy, rule(&["*"], &["*"]), ""),
        (
            AdmissionPolicy,
            rule(&["wgpolicyk8s.io"], &["policyreports"]),
            reports,
        ),
        (
            AdmissionPolicy,
            rule(&["wgpolicyk8s.io"], &["policyreports/status"]),
            reports,
        ),
        (AdmissionPolicy, rule(&["wgpolicyk8s.io"], &["*"]), reports),
        (AdmissionPolicy, rule(&["*"], &["policyreports"]), reports),
        (AdmissionPolicy, rule(&["apps"], &["*"]), ""),
        (
            AdmissionPolicy,
            rule(&["openreports.io"], &["reports"]),
            "spec.rules[0]: Forbidden: a namespaced policy cannot match reports.openreports.io",
        ),
        // 3
        (
            AdmissionPolicy,
            json!({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "request.operation == 'CREATE'"}]}),
            "spec.matchConditions[1].name: Duplicate value: \"a\"",
        ),
        (
            AdmissionPolicy,
            json!({"matchConditions": [{"name": "a", "expression": "1"}]}),
            "spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            AdmissionPolicy,
            json!({"matchConditions": vec![json!({"name": "a", "expression": "true"}); 65]}),
            "spec.matchConditions: Too many: 65: must have at most 64 items",
        ),
        // 4
        (
            AdmissionPolicy,
            json!({"timeoutEvalSeconds": 11}),
            "spec.timeoutEvalSeconds: Invalid value: 11: must not be more than timeoutSeconds (10)",
        ),
        // 6
        (
            AdmissionPolicyGroup,
            json!({"message": ""}),
            "spec.message: Required value: must not be empty",
        ),
        (
            AdmissionPolicyGroup,
            json!({"policies": {}, "expression": "true"}),
            "spec.policies: Required value: must have at least one member",
        ),
        (
            AdmissionPolicyGroup,
            json!({"policies": {"1a": {"module": "m"}}, "expression": "true"}),
            "spec.policies[1a]: Invalid value: \"1a\": must be made of letters, digits and underscores and not start with a digit",
        ),
        (
            AdmissionPolicyGroup,
            json!({"policies": {"while": {"module": "m"}}, "expression": "true"}),
            "spec.policies[while]: Invalid value: \"while\": is a reserved word of CEL",
        ),
        (
            AdmissionPolicyGroup,
            json!({"expression": "a() || b()"}),
            "spec.expression: Invalid value: \"a() || b()\": there is no member \"b\"",
        ),
        (
            ClusterAdmissionPolicyGroup,
            json!({"policies": {"a": {"module": "m", "timeoutEvalSeconds": 6}, "b": {"module": "m", "timeoutEvalSeconds": 6}}}),
            "spec.policies: Invalid value: 12: timeoutEvalSeconds of all members together must not be more than timeoutSeconds (10)",
        ),
    ] {
        let wrong = policy(
            kind,
            &object(kind, fields.clone()),
            None,
            UniqueNames::Classic,
        );
        assert_eq!(said(wrong), expected, "{kind:?} {fields}");
    }
    let broken = policy(
        AdmissionPolicyGroup,
        &object(AdmissionPolicyGroup, json!({"expression": "a() + 1"})),
        None,
        UniqueNames::Classic,
    );
    assert!(said(broken).starts_with("spec.expression: Invalid value"));
}

#[test]
fn updates() {
    let old = object(AdmissionPolicy, json!({}));
    for (fields, expected) in [
        (json!({"module": "n"}), ""),
        (
            json!({"policyServer": "other"}),
            "spec.policyServer: Forbidden: the policy server cannot be changed: delete the policy and create it again",
        ),
        (
            json!({"mode": "monitor"}),
            "spec.mode: Forbidden: a policy cannot go from protect to monitor: delete it and create it again",
        ),
    ] {
        let new = object(AdmissionPolicy, fields);
        assert_eq!(
            said(policy(
                AdmissionPolicy,
                &new,
                Some(&old),
                UniqueNames::Classic
            )),
            expected
        );
    }
    let (new, old) = (old, object(AdmissionPolicy, json!({"mode": "monitor"})));
    assert_eq!(
        said(policy(
            AdmissionPolicy,
            &new,
            Some(&old),
            UniqueNames::Classic
        )),
        ""
    );
}

#[test]
fn a_webhook_must_have_room_for_the_name() {
    let mut long = object(ClusterAdmissionPolicy, json!({}));
    for (length, is_fine) in [(220, true), (221, false)] {
        long["metadata"]["name"] = json!("n".repeat(length));
        let wrong = policy(ClusterAdmissionPolicy, &long, None, UniqueNames::Classic);
        assert_eq!(wrong.is_empty(), is_fine, "{length}: {}", said(wrong));
    }
}

#[test]
fn the_finalizer_is_filled_in() {
    let finalizers = |metadata: Value| {
        defaulted(json!({"metadata": metadata}))["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers(json!({})), json!(["kubewarden.io/finalizer"]));
    assert_eq!(
        finalizers(json!({"finalizers": ["x", "kubewarden"]})),
        json!(["x", "kubewarden.io/finalizer"])
    );
    assert_eq!(
        finalizers(json!({"finalizers": ["kubewarden.io/finalizer"]})),
        json!(["kubewarden.io/finalizer"])
    );
    assert_eq!(
        finalizers(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []})),
        json!([])
    );
}

#[test]
fn policy_servers() {
    let made = |name: &str, fields: Value| -> PolicyServer {
        let mut spec = json!({"image": "i", "replicas": 1});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": name}, "spec": spec,
        }))
        .unwrap()
    };
    let (forty_nine, fifty, many) = ("s".repeat(49), "s".repeat(50), "s".repeat(64));
    for (name, fields, expected) in [
        ("default", json!({}), ""),
        (forty_nine.as_str(), json!({}), ""),
        (many.as_str(), json!({}), "metadata.name: Too long"),
        (
            fifty.as_str(),
            json!({}),
            "metadata.name: Invalid value: \"ssss",
        ),
        (
            "a.b",
            json!({}),
            "metadata.name: Invalid value: \"a.b\": must be at most 49 characters without dots",
        ),
        (
            "a",
            json!({"imagePullSecret": "none"}),
            "spec.imagePullSecret: Not found: \"none\"",
        ),
        (
            "a",
            json!({"sigstoreTrustConfig": "none"}),
            "spec.sigstoreTrustConfig: Invalid value: \"none\"",
        ),
        (
            "a",
            json!({"serviceAccountName": "kubewarden-controller"}),
            "spec.serviceAccountName: Invalid value: \"kubewarden-controller\"",
        ),
        (
            "a",
            json!({"minAvailable": 1, "maxUnavailable": "10%"}),
            "spec.maxUnavailable: Forbidden",
        ),
        (
            "a",
            json!({"readinessProbePort": 8443}),
            "spec.readinessProbePort: Invalid value: 8443: must differ",
        ),
        (
            "a",
            json!({"limits": {"cpu": "-1"}}),
            "spec.limits[cpu]: Invalid value: \"-1\": must not be negative",
        ),
        (
            "a",
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}),
            "spec.requests[cpu]: Invalid value: \"1500m\": must not be more",
        ),
        (
            "a",
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
            "",
        ),
        (
            "a",
            json!({"namespacedPoliciesCapabilities": ["*", "oci/*", "oci/v1/*", "kubernetes/can_i"]}),
            "",
        ),
        (
            "a",
            json!({"namespacedPoliciesCapabilities": ["oci/v3/*"]}),
            "spec.namespacedPoliciesCapabilities[0]: Invalid value",
        ),
        (
            "a",
            json!({"namespacedPoliciesCapabilities": ["oc*"]}),
            "spec.namespacedPoliciesCapabilities[0]: Invalid value",
        ),
    ] {
        let wrong = said(server(&made(name, fields.clone()), &References::default()));
        assert!(
            wrong.starts_with(expected) && wrong.is_empty() == expected.is_empty(),
            "{name} {fields}: {wrong}"
        );
    }
    let wrong_type = References {
        image_pull_secret_type: Some("Opaque".into()),
        ..References::default()
    };
    let wrong = said(server(
        &made("a", json!({"imagePullSecret": "s"})),
        &wrong_type,
    ));
    assert!(
        wrong.ends_with("must be of type kubernetes.io/dockerconfigjson, not Opaque"),
        "{wrong}"
    );
    let is_update = References {
        is_update: true,
        ..References::default()
    };
    assert_eq!(
        said(server(&made("a.b", json!({})), &is_update)),
        "",
        "what is there already stays"
    );
}

fn a_revision() -> PolicyRevision {
    serde_json::from_value(json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
        "metadata": {"name": "r", "labels": {"kubewarden.io/policy-server": "a"}},
        "spec": {
            "objectReference": {"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "name": "p"},
            "policyGeneration": 1, "enabled": true, "data": {"spec": {}},
        },
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "replica": 0}, {"type": "Ready", "status": "True", "replica": 1},
        ]},
    }))
    .unwrap()
}

#[test]
fn a_revision_only_ever_gets_disabled() {
    let old = a_revision();
    let mut new = old.clone();
    new.spec.enabled = false;
    assert_eq!(said(revision(&new, &old)), "");
    assert_eq!(
        said(revision(&old, &new)),
        "spec.enabled: Forbidden: a revision that was disabled cannot be enabled again"
    );
    new.spec
        .data
        .insert("spec".into(), json!({"module": "other"}));
    assert_eq!(
        said(revision(&new, &old)),
        "spec.data: Forbidden: data cannot be changed"
    );
}

#[test]
fn each_replica_reports_for_itself() {
    let old = a_revision();
    let with = |replica: usize| {
        let mut new = old.clone();
        let conditions = &mut new.status.as_mut().unwrap().conditions;
        conditions[replica].status = polity_api::policies::v1::ConditionStatus::False;
        new
    };
    let replica = |server: &str, ordinal| StatusWriter::Replica {
        servers: vec![server.to_owned()],
        ordinal,
    };
    for (case, new, writer, is_fine) in [
        ("the controller", with(0), StatusWriter::Controller, true),
        ("its own entry", with(0), replica("a", Some(0)), true),
        ("another's entry", with(1), replica("a", Some(0)), false),
        ("a token without a pod", with(1), replica("a", None), true),
        (
            "another server's account",
            with(0),
            replica("b", Some(0)),
            false,
        ),
        ("somebody", with(0), StatusWriter::Other, false),
    ] {
        assert_eq!(
            revision_status(&new, &old, &writer).is_empty(),
            is_fine,
            "{case}"
        );
    }
    let mut removed = old.clone();
    removed.status.as_mut().unwrap().conditions.remove(1);
    assert!(!revision_status(&removed, &old, &replica("a", Some(0))).is_empty());
}
