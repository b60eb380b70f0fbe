//! Create, read, update, delete, and the rules about metadata.

use serde_json::{Value, json};

use crate::case::{Case, case, delete, get, post, put};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"mine": "yes"}}, "data": {"a": "1"}})
}

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "crud: a life",
            [
                post(MAPS, map("m")),
                get(at("m")),
                post(MAPS, map("m")),
                put(
                    at("m"),
                    json!({"metadata": {"name": "m", "labels": {"x": "y"}}, "data": {"a": "2"}}),
                )
                .save("rv", "/metadata/resourceVersion"),
                put(
                    at("m"),
                    json!({"metadata": {"name": "m", "resourceVersion": "1"}, "data": {}}),
                ),
                put(
                    at("m"),
                    json!({"metadata": {"name": "m", "resourceVersion": "{rv}"}, "data": {"a": "2"}}),
                ),
                delete(at("m")),
                get(at("m")),
                delete(at("m")),
                put(at("m"), map("m")),
            ],
        ),
        case(
            "crud: generated names",
            [
                post(MAPS, json!({"metadata": {"generateName": "g-"}})),
                post(MAPS, json!({"metadata": {}})),
                post(
                    MAPS,
                    json!({"metadata": {"name": "", "generateName": "Bad_"}}),
                ),
            ],
        ),
        case(
            "crud: names and namespaces must fit",
            [
                post(MAPS, json!({"metadata": {"name": "Upper"}})),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "namespace": "elsewhere"}}),
                ),
                post("/api/v1/namespaces/not-there/configmaps", map("a")),
                post(MAPS, map("a")),
                put(at("a"), map("b")),
                put(
                    at("a"),
                    json!({"metadata": {"name": "a", "namespace": "elsewhere"}}),
                ),
                post(
                    "/api/v1/namespaces",
                    json!({"metadata": {"name": "has.dot"}}),
                ),
                post(MAPS, json!({"metadata": {"name": "a/b"}})),
                post(MAPS, json!({"metadata": {"name": "x".repeat(254)}})),
            ],
        ),
        case(
            "crud: kind and version must fit",
            [
                post(
                    MAPS,
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
                ),
                post(
                    MAPS,
                    json!({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                ),
                post(
                    MAPS,
                    json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                ),
                post(
                    MAPS,
                    json!({"kind": "ConfigMap", "metadata": {"name": "a"}}),
                ),
            ],
        ),
        case(
            "crud: what only the server sets",
            [
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x", "deletionTimestamp": "2001-01-01T00:00:00Z"}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "b", "resourceVersion": "5"}}),
                ),
                put(
                    at("a"),
                    json!({"metadata": {"name": "a", "uid": "someone-else"}}),
                ),
                put(
                    at("a"),
                    json!({"metadata": {"name": "a", "generation": 9, "creationTimestamp": "2001-01-01T00:00:00Z"}}),
                ),
                put(
                    at("a"),
                    json!({"metadata": {"name": "a", "resourceVersion": "abc"}}),
                ),
            ],
        ),
        case(
            "crud: bad metadata",
            [
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "labels": {"a b": "c"}}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "labels": {"a": "-c-"}}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "annotations": {"a//b": "c"}}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "finalizers": ["plain"]}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": ""}]}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "u"}]}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "ownerReferences": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": true},
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "2", "controller": true},
                    ]}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "twice", "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Namespace", "name": "o", "uid": "1"},
                        {"apiVersion": "v1", "kind": "Namespace", "name": "o", "uid": "1"},
                    ]}}),
                ),
            ],
        ),
        case(
            "crud: unknown and duplicate fields",
            [
                post(
                    format!("{MAPS}?fieldValidation=Strict"),
                    json!({"metadata": {"name": "a", "colour": "red"}, "spec": {}}),
                ),
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "colour": "red"}, "spec": {}}),
                ),
                post(
                    format!("{MAPS}?fieldValidation=Ignore"),
                    json!({"metadata": {"name": "b"}, "spec": {}}),
                ),
                post(format!("{MAPS}?fieldValidation=Sometimes"), map("c")),
                put(
                    format!("{}?fieldValidation=Strict", at("a")),
                    json!({"metadata": {"name": "a"}, "spec": 1}),
                ),
                crate::case::raw(
                    "POST",
                    format!("{MAPS}?fieldValidation=Strict"),
                    "application/json",
                    r#"{"metadata":{"name":"d"},"data":{"a":"1","a":"2"}}"#,
                ),
                crate::case::raw(
                    "POST",
                    MAPS,
                    "application/json",
                    r#"{"metadata":{"name":"d","name":"e"},"data":{"a":"1","a":"2"}}"#,
                ),
                post(
                    format!("/apis/apps/v1/namespaces/{{ns}}/deployments?fieldValidation=Strict"),
                    json!({
                        "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "replica": 2, "template": {
                            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "imagePullPolice": "Always"}]}}},
                    }),
                ),
            ],
        ),
        case(
            "crud: dry run",
            [
                post(format!("{MAPS}?dryRun=All"), map("a")),
                get(at("a")),
                post(format!("{MAPS}?dryRun=Some"), map("a")),
                post(MAPS, map("a")),
                post(format!("{MAPS}?dryRun=All"), map("a")),
                put(
                    format!("{}?dryRun=All", at("a")),
                    json!({"metadata": {"name": "a"}, "data": {"z": "z"}}),
                ),
                delete(format!("{}?dryRun=All", at("a"))),
                get(at("a")),
            ],
        ),
        case(
            "crud: field managers",
            [
                post(format!("{MAPS}?fieldManager=me"), map("a")),
                put(
                    format!("{}?fieldManager=you", at("a")),
                    json!({"metadata": {"name": "a", "labels": {"l": "v"}}, "data": {"a": "2", "b": "3"}}),
                ),
                put(
                    at("a"),
                    json!({"metadata": {"name": "a", "managedFields": [{}]}, "data": {"a": "2"}}),
                ),
                post(format!("{MAPS}?fieldManager={}", "m".repeat(129)), map("b")),
                post(format!("{MAPS}?fieldManager=a%07b"), map("b")),
            ],
        ),
        case(
            "crud: update without a version",
            [
                post(
                    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
                    json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2026-01-02T03:04:05.678901Z"}}),
                ),
                put(
                    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l",
                    json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "you"}}),
                ),
                put(
                    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/new",
                    json!({"metadata": {"name": "new"}, "spec": {"holderIdentity": "you"}}),
                ),
                put(
                    "/api/v1/namespaces/{ns}/services/new",
                    json!({"metadata": {"name": "new"}, "spec": {"ports": [{"port": 80}]}}),
                ),
            ],
        ),
        case(
            "crud: tables and partial objects",
            [
                post(MAPS, map("m"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
                get(format!("{MAPS}?labelSelector=mine"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(format!("{MAPS}?labelSelector=mine&includeObject=None"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(format!("{}?includeObject=Object", at("m")))
                    .accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
                get(format!("{MAPS}?includeObject=Some"))
                    .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(at("m")).accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
                get(format!("{MAPS}?labelSelector=mine"))
                    .accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
                get(MAPS).accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
                get(at("m")).accept("application/xml"),
                get(at("none")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
            ],
        ),
    ]
}
