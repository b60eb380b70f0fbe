//! Server-side apply: ownership, conflicts, force, and invalid requests.

use serde_json::{Value, json};

use crate::case::{Case, apply, case, get, merge, post, put, raw};

const MAP: &str = "/api/v1/namespaces/{ns}/configmaps/m";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/{ns}/deployments/d";

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"l": "1"}}, "spec": spec})
}

fn full(image: &str) -> Value {
    deployment(
        json!({"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
        "containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m"}}}]}}}),
    )
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "apply: create, own, give up",
            [
                apply(MAP, "one", map(json!({"a": "1", "b": "2"}))),
                apply(MAP, "one", map(json!({"a": "1", "b": "2"}))),
                apply(MAP, "two", map(json!({"b": "2", "c": "3"}))),
                apply(MAP, "one", map(json!({"a": "1"}))),
                apply(MAP, "two", map(json!({"c": "3"}))),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
                ),
                get(MAP),
            ],
        ),
        case(
            "apply: conflicts",
            [
                apply(MAP, "one", map(json!({"a": "1", "b": "1"}))),
                apply(MAP, "two", map(json!({"a": "2"}))),
                apply(MAP, "two", map(json!({"a": "2", "b": "2"}))),
                merge(
                    format!("{MAP}?fieldManager=three"),
                    json!({"data": {"a": "3"}}),
                ),
                apply(MAP, "one", map(json!({"a": "1", "b": "1"}))),
                apply(
                    format!("{MAP}?force=true"),
                    "two",
                    map(json!({"a": "2", "b": "2"})),
                ),
                get(MAP),
            ],
        ),
        case(
            "apply: refusals",
            [
                raw(
                    "PATCH",
                    MAP,
                    "application/apply-patch+yaml",
                    map(json!({})).to_string(),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"kind": "ConfigMap", "metadata": {"name": "m"}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "metadata": {"name": "m"}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "managedFields": [{"manager": "x"}]}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "uid": "u"}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "spec": {"x": 1}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": ["x"]}),
                ),
                raw(
                    "PATCH",
                    format!("{MAP}?fieldManager=one"),
                    "application/apply-patch+yaml",
                    "a: b: c",
                ),
                raw(
                    "PATCH",
                    format!("{MAP}?fieldManager=one"),
                    "application/apply-patch+yaml",
                    "- 1",
                ),
                apply(
                    "/api/v1/namespaces/not-there/configmaps/m",
                    "one",
                    map(json!({})),
                ),
            ],
        ),
        case(
            "apply: a deployment shared",
            [
                apply(DEPLOYMENT, "one", full("i:1")),
                apply(DEPLOYMENT, "two", deployment(json!({"replicas": 4}))),
                apply(
                    DEPLOYMENT,
                    "two",
                    deployment(
                        json!({"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}),
                    ),
                ),
                apply(
                    DEPLOYMENT,
                    "one",
                    deployment(
                        json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:2"}]}}}),
                    ),
                ),
                apply(
                    DEPLOYMENT,
                    "three",
                    deployment(
                        json!({"template": {"spec": {"containers": [{"name": "c", "image": "i:3"}]}}}),
                    ),
                ),
                merge(
                    format!("{DEPLOYMENT}/scale?fieldManager=scaler"),
                    json!({"spec": {"replicas": 7}}),
                ),
                apply(DEPLOYMENT, "two", deployment(json!({"replicas": 4}))),
                apply(
                    format!("{DEPLOYMENT}/status"),
                    "status",
                    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]}}),
                ),
                apply(
                    DEPLOYMENT,
                    "four",
                    deployment(
                        json!({"template": {"spec": {"containers": [{"name": "x", "image": "1"}, {"name": "x", "image": "2"}]}}}),
                    ),
                ),
                apply(
                    DEPLOYMENT,
                    "four",
                    deployment(
                        json!({"template": {"spec": {"containers": [{"image": "nameless"}]}}}),
                    ),
                ),
                get(DEPLOYMENT),
            ],
        ),
        case(
            "apply: after other writes",
            [
                post(
                    "/api/v1/namespaces/{ns}/configmaps?fieldManager=creator",
                    map(json!({"a": "1", "b": "1"})),
                )
                .setup(),
                apply(MAP, "one", map(json!({"a": "1"}))),
                put(format!("{MAP}?fieldManager=putter"), map(json!({"a": "5"}))),
                apply(MAP, "one", map(json!({"a": "1"}))),
                put(
                    format!("{MAP}?fieldManager=eraser"),
                    json!({"metadata": {"name": "m", "managedFields": [{}]}, "data": {"a": "6"}}),
                ),
                apply(MAP, "one", map(json!({"a": "7"}))),
                apply(
                    format!("{MAP}?force=true&dryRun=All"),
                    "one",
                    map(json!({"a": "8"})),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "resourceVersion": "1"}}),
                ),
                get(MAP),
            ],
        ),
        case(
            "apply: sets and owners",
            [
                get("/api/v1/namespaces/{ns}")
                    .setup()
                    .save("home", "/metadata/uid"),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "finalizers": ["example.com/a"], "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "{ns}", "uid": "{home}"}]}}),
                ),
                apply(
                    MAP,
                    "two",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "finalizers": ["example.com/b"]}}),
                ),
                apply(
                    MAP,
                    "one",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
                ),
                apply(
                    MAP,
                    "two",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
                ),
            ],
        ),
    ]
}
