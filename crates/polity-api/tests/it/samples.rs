//! Manifests as users have them: they decode, nothing in them is lost, and defaults are filled in.

use std::path::{Path, PathBuf};

use polity_api::policies::{v1, v1alpha2};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn sample_paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn sample(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Decodes and encodes an object as its own type.
fn through_its_type(object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        // From text, as a client reads it, so that nothing leans on how a `Value` deserializes.
        let typed: T = serde_json::from_str(&object.to_string())
            .unwrap_or_else(|error| panic!("{error}: {object}"));
        serde_json::to_value(typed).unwrap()
    }
    match (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    ) {
        ("policies.kubewarden.io/v1", "AdmissionPolicy") => through::<v1::AdmissionPolicy>(object),
        ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy") => {
            through::<v1::ClusterAdmissionPolicy>(object)
        }
        ("policies.kubewarden.io/v1", "AdmissionPolicyGroup") => {
            through::<v1::AdmissionPolicyGroup>(object)
        }
        ("policies.kubewarden.io/v1", "ClusterAdmissionPolicyGroup") => {
            through::<v1::ClusterAdmissionPolicyGroup>(object)
        }
        ("policies.kubewarden.io/v1", "PolicyServer") => through::<v1::PolicyServer>(object),
        ("policies.kubewarden.io/v1", "PolicyRevision") => through::<v1::PolicyRevision>(object),
        ("policies.kubewarden.io/v1alpha2", "AdmissionPolicy") => {
            through::<v1alpha2::AdmissionPolicy>(object)
        }
        ("policies.kubewarden.io/v1alpha2", "ClusterAdmissionPolicy") => {
            through::<v1alpha2::ClusterAdmissionPolicy>(object)
        }
        ("policies.kubewarden.io/v1alpha2", "PolicyServer") => {
            through::<v1alpha2::PolicyServer>(object)
        }
        other => panic!("no type for {other:?}"),
    }
}

/// Everything in `part` is in `whole` with the same value; null and an empty list are as good as absent.
fn assert_kept(part: &Value, whole: &Value, path: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                assert_kept(
                    value,
                    whole.get(key).unwrap_or(&Value::Null),
                    &format!("{path}.{key}"),
                );
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{path}");
            for (index, value) in part.iter().enumerate() {
                assert_kept(value, &whole[index], &format!("{path}[{index}]"));
            }
        }
        (Value::Array(part), Value::Null) if part.is_empty() => {}
        _ => assert_eq!(part, whole, "{path}"),
    }
}

#[test]
fn manifests_lose_nothing() {
    for path in sample_paths() {
        let object = sample(path.to_str().unwrap());
        let encoded = through_its_type(&object);
        assert_kept(
            &object,
            &encoded,
            path.file_name().unwrap().to_str().unwrap(),
        );
        assert_eq!(encoded, through_its_type(&encoded), "encoding is stable");
    }
}

#[test]
fn defaults_are_those_of_the_schema() {
    let policy: v1::AdmissionPolicy =
        serde_json::from_value(sample("admission-policy-minimal.yaml")).unwrap();
    let encoded = serde_json::to_value(&policy.spec).unwrap();
    assert_eq!(
        policy.spec.module.settings, None,
        "null settings are no settings"
    );
    let defaults = json!({"policyServer": "default", "mode": "protect", "timeoutSeconds": 10, "backgroundAudit": true});
    assert_kept(&defaults, &encoded, "spec");

    let server: v1::PolicyServerSpec =
        serde_json::from_value(json!({"image": "i", "replicas": 0})).unwrap();
    assert_eq!(
        (server.webhook_port, server.readiness_probe_port),
        (8443, 8081)
    );
}

#[test]
fn both_spellings_of_allow_inside_count() {
    let cases = [
        (json!({}), false),
        (
            json!({"allowInsideAdmissionControllerNamespace": true}),
            true,
        ),
        (json!({"allowInsideKubewardenNamespace": true}), true),
        (
            json!({"allowInsideKubewardenNamespace": true, "allowInsideAdmissionControllerNamespace": false}),
            true,
        ),
        (
            json!({"allowInsideKubewardenNamespace": false, "allowInsideAdmissionControllerNamespace": false}),
            false,
        ),
    ];
    for (fields, expected) in cases {
        let scope: v1::ClusterScope = serde_json::from_value(fields.clone()).unwrap();
        assert_eq!(scope.allows_inside_own_namespace(), expected, "{fields}");
    }
}

#[test]
fn older_version_reads_as_the_newer_and_back() {
    for name in [
        "v1alpha2-admission-policy.yaml",
        "v1alpha2-cluster-admission-policy.yaml",
        "v1alpha2-policy-server.yaml",
    ] {
        let old = sample(name);
        let mut new = old.clone();
        new["apiVersion"] = json!("policies.kubewarden.io/v1");
        let mut stored = through_its_type(&new);
        assert_kept(&new, &stored, name);
        stored["apiVersion"] = json!("policies.kubewarden.io/v1alpha2");
        assert_kept(&old, &through_its_type(&stored), name);
    }
}

#[test]
fn malformed_manifests_are_errors_that_name_the_field() {
    let rules = json!([{"operations": ["CREATE"], "apiVersions": ["v1"], "resources": ["pods"]}]);
    let cases = [
        (
            "no module",
            json!({"rules": rules, "mutating": false}),
            "module",
        ),
        (
            "no rules",
            json!({"module": "m", "mutating": false}),
            "rules",
        ),
        (
            "no mutating",
            json!({"module": "m", "rules": rules}),
            "mutating",
        ),
        (
            "unknown mode",
            json!({"module": "m", "rules": rules, "mutating": false, "mode": "off"}),
            "off",
        ),
        (
            "settings is a list",
            json!({"module": "m", "rules": rules, "mutating": false, "settings": []}),
            "map",
        ),
    ];
    for (name, spec, word) in cases {
        let error = serde_json::from_value::<v1::AdmissionPolicySpec>(spec)
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
}

#[test]
fn words_of_conditions_are_spelled_as_the_contract_spells_them() {
    assert_eq!(
        v1::ConditionType::PolicyUniquelyReachable.as_str(),
        "PolicyUniquelyReachable"
    );
    assert_eq!(
        v1::ScheduledReason::parse("WaitingForPolicyServer"),
        Some(v1::ScheduledReason::WaitingForPolicyServer)
    );
    assert_eq!(v1::ReadyReason::parse("waitingForPolicyServer"), None);
    for word in v1::InitializedReason::ALL {
        assert_eq!(v1::InitializedReason::parse(&word.to_string()), Some(*word));
    }
}
