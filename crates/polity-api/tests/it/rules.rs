//! The CEL rules of the schemas, run as an API server runs them: after defaulting, on the whole object.

use kube_cel::Validator;
use serde_json::{Value, json};

use crate::schema::schema;

/// The messages of the rules that refuse `new`, given `old` for an update.
fn refused(kind: &str, version: &str, new: Value, old: Option<Value>) -> Vec<String> {
    let schema = schema(kind, version);
    let object = |spec| json!({"metadata": {"name": "x"}, "spec": spec});
    let outcome = Validator::new().validate(&schema, &object(new), old.map(object).as_ref());
    outcome.err().map_or_else(Vec::new, |errors| {
        errors.into_iter().map(|error| error.to_string()).collect()
    })
}

fn check(kind: &str, name: &str, new: Value, old: Option<Value>, word: Option<&str>) {
    let refused = refused(kind, "v1", new, old);
    match word {
        None => assert!(refused.is_empty(), "{kind}, {name}: {refused:?}"),
        Some(word) => assert!(
            refused.len() == 1 && refused[0].contains(word),
            "{kind}, {name}: expected one message with {word:?}, got {refused:?}"
        ),
    }
}

/// A spec with the fields that the rules look at; the others do not matter here.
fn policy(server: &str, mode: &str, timeout_eval: Option<i32>) -> Value {
    let mut spec = json!({
        "module": "m", "mutating": false, "rules": [], "policyServer": server, "mode": mode, "timeoutSeconds": 10,
    });
    if let Some(seconds) = timeout_eval {
        spec["timeoutEvalSeconds"] = json!(seconds);
    }
    spec
}

fn group(policies: &Value) -> Value {
    json!({
        "expression": "a()", "message": "no", "rules": [], "policies": policies,
        "policyServer": "default", "mode": "protect", "timeoutSeconds": 10,
    })
}

/// An evaluation that exceeds the timeout of its request has no effect.
#[test]
fn evaluation_is_no_longer_than_the_request() {
    for kind in ["AdmissionPolicy", "ClusterAdmissionPolicy"] {
        check(
            kind,
            "absent",
            policy("default", "protect", None),
            None,
            None,
        );
        check(
            kind,
            "equal",
            policy("default", "protect", Some(10)),
            None,
            None,
        );
        check(
            kind,
            "longer",
            policy("default", "protect", Some(11)),
            None,
            Some("timeoutEvalSeconds"),
        );
    }
}

/// The schema compares the new object with the old one.
#[test]
fn policy_server_and_mode_on_update() {
    let cases = [
        ("nothing", ("a", "protect"), ("a", "protect"), None),
        (
            "other server",
            ("a", "protect"),
            ("b", "protect"),
            Some("policy server cannot be changed"),
        ),
        ("to protect", ("a", "monitor"), ("a", "protect"), None),
        ("stays monitor", ("a", "monitor"), ("a", "monitor"), None),
        (
            "to monitor",
            ("a", "protect"),
            ("a", "monitor"),
            Some("from protect to monitor"),
        ),
    ];
    for (name, (old_server, old_mode), (server, mode), word) in cases {
        let old = Some(policy(old_server, old_mode, None));
        for kind in ["AdmissionPolicy", "ClusterAdmissionPolicy"] {
            check(kind, name, policy(server, mode, None), old.clone(), word);
            let through_old_version =
                refused(kind, "v1alpha2", policy(server, mode, None), old.clone());
            assert_eq!(
                through_old_version.is_empty(),
                word.is_none(),
                "{kind} v1alpha2, {name}"
            );
        }
        for kind in ["AdmissionPolicyGroup", "ClusterAdmissionPolicyGroup"] {
            let with = |server, mode| {
                let mut spec = group(&json!({"a": {"module": "m"}}));
                (spec["policyServer"], spec["mode"]) = (json!(server), json!(mode));
                spec
            };
            check(
                kind,
                name,
                with(server, mode),
                Some(with(old_server, old_mode)),
                word,
            );
        }
    }
}

/// Only the rules about members of groups that a schema can express.
#[test]
fn members_of_groups() {
    let cases = [
        (
            "plain",
            json!({"a": {"module": "m"}, "_b2": {"module": "m"}}),
            None,
        ),
        (
            "dash",
            json!({"a-b": {"module": "m"}}),
            Some("name of a member"),
        ),
        (
            "digit first",
            json!({"2b": {"module": "m"}}),
            Some("name of a member"),
        ),
        (
            "together as long as the request",
            json!({"a": {"module": "m", "timeoutEvalSeconds": 4}, "b": {"module": "m", "timeoutEvalSeconds": 6}}),
            None,
        ),
        (
            "together longer than the request",
            json!({"a": {"module": "m", "timeoutEvalSeconds": 5}, "b": {"module": "m", "timeoutEvalSeconds": 6}}),
            Some("together"),
        ),
        (
            "one longer",
            json!({"a": {"module": "m", "timeoutEvalSeconds": 11}}),
            Some("together"),
        ),
    ];
    for (name, policies, word) in cases {
        for kind in ["AdmissionPolicyGroup", "ClusterAdmissionPolicyGroup"] {
            check(kind, name, group(&policies), None, word);
        }
    }
}

#[test]
fn policy_servers() {
    let server = |fields: Value| {
        let mut spec =
            json!({"image": "i", "replicas": 1, "webhookPort": 8443, "readinessProbePort": 8081});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        spec
    };
    let cases = [
        ("plain", json!({}), None),
        ("one budget", json!({"minAvailable": 1}), None),
        (
            "two budgets",
            json!({"minAvailable": 1, "maxUnavailable": "50%"}),
            Some("cannot both be set"),
        ),
        (
            "one port",
            json!({"readinessProbePort": 8443}),
            Some("must differ"),
        ),
        (
            "own claim",
            json!({"cache": {"existingClaim": "c", "ephemeral": false}}),
            None,
        ),
        (
            "claim and size",
            json!({"cache": {"existingClaim": "c", "size": "1Gi", "ephemeral": false}}),
            Some("existingClaim"),
        ),
        ("ephemeral", json!({"cache": {"ephemeral": true}}), None),
        (
            "ephemeral and class",
            json!({"cache": {"ephemeral": true, "storageClassName": "s"}}),
            Some("ephemeral"),
        ),
        (
            "ephemeral claim",
            json!({"cache": {"ephemeral": true, "existingClaim": "c"}}),
            Some("existingClaim"),
        ),
        (
            "sized",
            json!({"cache": {"size": "1Gi", "storageClassName": "s", "ephemeral": false}}),
            None,
        ),
    ];
    for (name, fields, word) in cases {
        check("PolicyServer", name, server(fields), None, word);
    }
}

/// Of a PolicyRevision only `enabled` can be changed, and only to false.
#[test]
fn revisions_stay_as_they_were_made() {
    let revision = |name: &str, generation: i64, enabled: bool| {
        json!({
            "objectReference": {"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy", "name": name},
            "policyGeneration": generation, "enabled": enabled, "data": {"spec": {}},
        })
    };
    let cases = [
        (
            "nothing",
            revision("a", 1, true),
            revision("a", 1, true),
            None,
        ),
        (
            "disable",
            revision("a", 1, true),
            revision("a", 1, false),
            None,
        ),
        (
            "stays disabled",
            revision("a", 1, false),
            revision("a", 1, false),
            None,
        ),
        (
            "enable",
            revision("a", 1, false),
            revision("a", 1, true),
            Some("cannot be enabled again"),
        ),
        (
            "other policy",
            revision("a", 1, true),
            revision("b", 1, true),
            Some("objectReference"),
        ),
        (
            "other generation",
            revision("a", 1, true),
            revision("a", 2, true),
            Some("policyGeneration"),
        ),
    ];
    for (name, old, new, word) in cases {
        check("PolicyRevision", name, new, Some(old), word);
    }
}
