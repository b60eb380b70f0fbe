//! Every kind of volume as files.

use k8s_openapi::ByteString;
use serde_json::json;

use super::*;

struct Objects;

impl Sources for Objects {
    fn config_map(&self, name: &str) -> Option<ConfigMap> {
        (name == "m").then(|| ConfigMap {
            data: Some(BTreeMap::from([("a".into(), "1".into())])),
            binary_data: Some(BTreeMap::from([("b".into(), ByteString(vec![0, 255]))])),
            ..ConfigMap::default()
        })
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        (name == "s").then(|| Secret {
            data: Some(BTreeMap::from([("k".into(), ByteString(b"key".to_vec()))])),
            ..Secret::default()
        })
    }
}

impl Tokens for Objects {
    fn token(&self, request: &ServiceAccountTokenProjection) -> Option<String> {
        (request.audience.as_deref() != Some("late")).then(|| "ey".to_owned())
    }
}

/// The content of a volume in a line.
fn show(volume: serde_json::Value) -> String {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "labels": {"a": "1", "b": "2"}},
        "spec": {"containers": []},
    }))
    .unwrap();
    let mut volume = volume;
    volume["name"] = json!("v");
    let volume: Volume = serde_json::from_value(volume).unwrap();
    match content(&pod, &volume, &Objects, &Objects) {
        Ok(Content::Files(files)) => {
            let files = files.iter();
            let files = files.map(|(path, file)| {
                let text = String::from_utf8_lossy(&file.bytes);
                format!("{path}:{:o}={text}", file.mode)
            });
            files.collect::<Vec<_>>().join(" ")
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{}: {}", error.reason, error.message),
    }
}

#[test]
fn every_kind_of_volume() {
    let cases = [
        (json!({"emptyDir": {}}), "Empty"),
        (
            json!({"persistentVolumeClaim": {"claimName": "cache"}}),
            "Claim(\"cache\")",
        ),
        (
            json!({"configMap": {"name": "m"}}),
            "a:644=1 b:644=\0\u{fffd}",
        ),
        (
            json!({"configMap": {"name": "m", "defaultMode": 256, "items": [{"key": "a", "path": "x/y"}]}}),
            "x/y:400=1",
        ),
        (
            json!({"secret": {"secretName": "s", "items": [{"key": "k", "path": "k", "mode": 384}]}}),
            "k:600=key",
        ),
        (
            json!({"secret": {"secretName": "none", "optional": true}}),
            "",
        ),
        (
            json!({"secret": {"secretName": "none"}}),
            "FailedMount: secret \"none\" not found",
        ),
        (
            json!({"secret": {"secretName": "s", "items": [{"key": "x", "path": "x"}]}}),
            "FailedMount: secret \"s\" has no key \"x\"",
        ),
        (
            json!({"configMap": {"name": "m", "items": [{"key": "a", "path": "../up"}]}}),
            "FailedMount: \"../up\" is no path inside a volume",
        ),
        (
            json!({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
            "labels:644=a=\"1\"\nb=\"2\"",
        ),
        (
            json!({"projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"secret": {"name": "s"}},
            ]}}),
            "ca.crt:644=1 k:644=key ns:644=n token:644=ey",
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "late"}}]}}),
            "FailedMount: the service account token is not there yet",
        ),
        (
            json!({"hostPath": {"path": "/etc"}}),
            "FailedMount: volume \"v\" is of a kind that is not known here",
        ),
    ];
    for (volume, expected) in cases {
        assert_eq!(show(volume.clone()), expected, "{volume}");
    }
}
