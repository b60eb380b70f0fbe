//! Malformed input: paths, bodies, types, sizes.

use serde_json::json;

use crate::case::{Case, bare, case, get, post, put, raw};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const JSON: &str = "application/json";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "malformed: bodies",
            [
                raw("POST", MAPS, JSON, ""),
                raw("POST", MAPS, JSON, "{"),
                raw("POST", MAPS, JSON, "null"),
                raw("POST", MAPS, JSON, "[]"),
                raw("POST", MAPS, JSON, "\"text\""),
                raw("POST", MAPS, JSON, "{} {}"),
                raw("POST", MAPS, JSON, r#"{"metadata": 1}"#),
                raw("POST", MAPS, JSON, r#"{"metadata": {"name": 1}}"#),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"metadata": {"name": "a", "labels": ["x"]}}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"metadata": {"name": "a", "labels": {"x": 1}}}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"metadata": {"name": "a"}, "data": "x"}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"metadata": {"name": "a"}, "immutable": "yes"}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"metadata": {"name": "nulls", "labels": null}, "data": {"a": null}}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    r#"{"kind": 1, "metadata": {"name": "a"}}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    "application/yaml",
                    "metadata:\n  name: yaml\ndata:\n  a: \"1\"\n",
                ),
                raw("POST", MAPS, "application/yaml", "metadata:\n  name: [\n"),
                raw("POST", MAPS, "text/plain", "{}"),
                raw("POST", MAPS, "application/xml", "<a/>"),
                raw(
                    "POST",
                    MAPS,
                    "application/json; charset=utf-8",
                    r#"{"metadata": {"name": "charset"}}"#,
                ),
                raw(
                    "POST",
                    MAPS,
                    "application/vnd.kubernetes.protobuf",
                    "not protobuf",
                ),
                raw("POST", MAPS, "nonsense", "{}"),
                post(
                    "/api/v1/namespaces/{ns}/services",
                    json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": "eighty"}]}}),
                ),
                post(
                    "/api/v1/namespaces/{ns}/services",
                    json!({"metadata": {"name": "s"}, "spec": {"ports": {"port": 80}}}),
                ),
                post(
                    "/api/v1/namespaces/{ns}/pods",
                    json!({"metadata": {"name": "s"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "lots"}}}]}}),
                ),
                put(format!("{MAPS}/a"), json!([])),
            ],
        ),
        case(
            "malformed: paths",
            [
                get("/nothing"),
                get("/api/v2"),
                get("/api/v1/things"),
                get("/apis/apps/v9/deployments"),
                get("/apis/nope.example.com"),
                get("/apis/apps/v1/namespaces/{ns}/things/x"),
                get("/api/v1/namespaces/{ns}/configmaps/a/status"),
                get("/api/v1/namespaces/{ns}/pods/a/nothing"),
                get("/api/v1/namespaces/{ns}/secrets/"),
                get("/api/v1/namespaces/{ns}/configmaps/%2e%2e"),
                get("/api/v1//namespaces"),
                get("/api/v1/namespaces/{ns}/configmaps/a/b/c"),
            ],
        ),
        case(
            "malformed: methods",
            [
                post(
                    "/api/v1/configmaps",
                    json!({"metadata": {"name": "a", "namespace": "{ns}"}}),
                ),
                post(format!("{MAPS}/a"), json!({})),
                put(MAPS, json!({})),
                bare("PATCH", MAPS),
                bare("OPTIONS", MAPS),
                bare("FLY", MAPS),
                post("/api/v1/namespaces/{ns}/pods/p/status", json!({})),
                bare("DELETE", "/api/v1/namespaces/{ns}/pods/p/status"),
                post("/version", json!({})),
            ],
        ),
        case("malformed: head", [bare("HEAD", MAPS)]),
        case(
            "malformed: too much",
            [
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    format!(
                        r#"{{"metadata": {{"name": "big"}}, "data": {{"a": "{}"}}}}"#,
                        "x".repeat(3 * 1024 * 1024)
                    ),
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    format!(
                        r#"{{"metadata": {{"name": "big"}}, "data": {{"a": "{}"}}}}"#,
                        "x".repeat(1024 * 1024)
                    ),
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    format!(
                        r#"{{"metadata": {{"name": "big", "annotations": {{"a": "{}"}}}}}}"#,
                        "x".repeat(256 * 1024)
                    ),
                ),
                raw(
                    "POST",
                    MAPS,
                    JSON,
                    format!(
                        r#"{{"metadata": {{"name": "deep"}}, "data": {}1{}}}"#,
                        "[".repeat(20_000),
                        "]".repeat(20_000)
                    ),
                ),
            ],
        ),
    ]
}
