//! Deletion: finalizers, grace periods, propagation, garbage collection, namespaces.

use serde_json::{Value, json};

use crate::case::{Case, Step, Until, case, delete, delete_with, get, merge, post, put};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

fn map(name: &str, metadata: Value) -> Step {
    let mut body = json!({"metadata": {"name": name}});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        body["metadata"][key] = value.clone();
    }
    post(MAPS, body).setup()
}

fn child(name: &str, block: bool) -> Step {
    map(
        name,
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{owner}", "blockOwnerDeletion": block}]}),
    )
}

pub(crate) fn cases() -> Vec<Case> {
    let owner = || map("owner", json!({})).save("owner", "/metadata/uid");
    vec![
        case(
            "deletion: responses",
            [
                map("a", json!({})),
                delete(at("a")),
                post("/api/v1/namespaces/{ns}/services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).setup(),
                delete("/api/v1/namespaces/{ns}/services/s"),
                post("/api/v1/namespaces/{ns}/serviceaccounts", json!({"metadata": {"name": "s"}})).setup(),
                delete("/api/v1/namespaces/{ns}/serviceaccounts/s"),
                post("/apis/apps/v1/namespaces/{ns}/controllerrevisions", json!({"metadata": {"name": "r"}, "revision": 1, "data": {}})).setup(),
                delete_with("/apis/apps/v1/namespaces/{ns}/controllerrevisions/r", json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})),
            ],
        ),
        case(
            "deletion: options",
            [
                map("a", json!({})).save("uid", "/metadata/uid").save("rv", "/metadata/resourceVersion"),
                delete_with(at("a"), json!({"preconditions": {"uid": "other"}})),
                delete_with(at("a"), json!({"preconditions": {"resourceVersion": "1"}})),
                delete_with(at("a"), json!({"propagationPolicy": "Sideways"})),
                delete_with(at("a"), json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
                delete_with(at("a"), json!({"dryRun": ["Some"]})),
                delete_with(at("a"), json!({"gracePeriodSeconds": "soon"})),
                delete_with(at("a"), json!({"kind": "Pod", "apiVersion": "v1"})),
                delete_with(at("a"), json!([])),
                delete(format!("{}?propagationPolicy=Sideways", at("a"))),
                delete(format!("{}?gracePeriodSeconds=x", at("a"))),
                delete_with(at("a"), json!({"preconditions": {"uid": "{uid}", "resourceVersion": "{rv}"}})),
            ],
        ),
        case(
            "deletion: finalizers",
            [
                map("a", json!({"finalizers": ["example.com/x"]})),
                delete(at("a")),
                delete(at("a")),
                post(MAPS, json!({"metadata": {"name": "a"}})),
                merge(at("a"), json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}})),
                merge(at("a"), json!({"metadata": {"labels": {"x": "y"}, "deletionTimestamp": null}})),
                put(at("a"), json!({"metadata": {"name": "a"}})),
                get(at("a")),
            ],
        ),
        case(
            "deletion: finalizers and generation",
            [
                post("/apis/apps/v1/namespaces/{ns}/replicasets", json!({"metadata": {"name": "r", "finalizers": ["example.com/x"]}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})).setup(),
                delete_with("/apis/apps/v1/namespaces/{ns}/replicasets/r", json!({"orphanDependents": false})),
                delete_with("/apis/apps/v1/namespaces/{ns}/replicasets/r", json!({"propagationPolicy": "Foreground"})),
                merge("/apis/apps/v1/namespaces/{ns}/replicasets/r", json!({"metadata": {"finalizers": []}})),
            ],
        ),
        case(
            "deletion: background",
            [
                owner(),
                child("child", true),
                delete_with(at("owner"), json!({"propagationPolicy": "Background"})),
                get(at("child")).until(Until::Code(404)),
            ],
        ),
        case(
            "deletion: foreground",
            [
                owner(),
                map("child", json!({"finalizers": ["example.com/hold"], "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{owner}", "blockOwnerDeletion": true}]})),
                delete_with(at("owner"), json!({"propagationPolicy": "Foreground"})),
                get(at("child")).until(Until::Field("/metadata/deletionGracePeriodSeconds", json!(0))),
                get(at("owner")),
                merge(at("child"), json!({"metadata": {"finalizers": null}})).setup(),
                get(at("owner")).until(Until::Code(404)),
            ],
        ),
        case(
            "deletion: orphan",
            [
                owner(),
                child("child", false),
                delete_with(at("owner"), json!({"propagationPolicy": "Orphan"})),
                get(at("owner")).until(Until::Code(404)),
                get(at("child")),
            ],
        ),
        case(
            "deletion: collections",
            [
                map("a", json!({"labels": {"x": "1"}})),
                map("b", json!({"labels": {"x": "2"}})),
                map("c", json!({"labels": {"x": "1"}, "finalizers": ["example.com/hold"]})),
                delete(format!("{MAPS}?labelSelector=x%3D1")),
                get(format!("{MAPS}?labelSelector=x")),
                delete(format!("{MAPS}?labelSelector=x%3D2&dryRun=All")),
                delete(format!("{MAPS}?labelSelector=a+b")),
                delete("/api/v1/namespaces"),
                merge(at("c"), json!({"metadata": {"finalizers": null}})),
            ],
        ),
        case(
            "deletion: pods",
            [
                post("/api/v1/nodes", json!({"metadata": {"name": "{ns}"}})).setup(),
                post("/api/v1/namespaces/{ns}/pods", json!({"metadata": {"name": "loose"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).setup(),
                post("/api/v1/namespaces/{ns}/pods", json!({"metadata": {"name": "bound"}, "spec": {"nodeName": "{ns}", "containers": [{"name": "c", "image": "i"}]}})).setup(),
                delete("/api/v1/namespaces/{ns}/pods/loose"),
                delete("/api/v1/namespaces/{ns}/pods/bound"),
                delete_with("/api/v1/namespaces/{ns}/pods/bound", json!({"gracePeriodSeconds": 5})),
                delete_with("/api/v1/namespaces/{ns}/pods/bound", json!({"gracePeriodSeconds": 50})),
                delete_with("/api/v1/namespaces/{ns}/pods/bound", json!({"gracePeriodSeconds": 0})),
                get("/api/v1/namespaces/{ns}/pods/bound"),
                post("/api/v1/namespaces/{ns}/pods/none/eviction", json!({"metadata": {"name": "none"}})),
            ],
        ),
        case(
            "deletion: namespaces",
            [
                post("/api/v1/namespaces", json!({"metadata": {"name": "{ns}-x"}})).setup(),
                post("/api/v1/namespaces/{ns}-x/configmaps", json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).setup(),
                delete("/api/v1/namespaces/{ns}-x"),
                post("/api/v1/namespaces/{ns}-x/configmaps", json!({"metadata": {"name": "late"}})),
                get("/api/v1/namespaces/{ns}-x/configmaps/held").until(Until::Field("/metadata/deletionGracePeriodSeconds", json!(0))),
                get("/api/v1/namespaces/{ns}-x").until(Until::Condition("NamespaceFinalizersRemaining", "True")),
                delete("/api/v1/namespaces/{ns}-x"),
                merge("/api/v1/namespaces/{ns}-x/configmaps/held", json!({"metadata": {"finalizers": null}})),
                get("/api/v1/namespaces/{ns}-x").until(Until::Code(404)),
                delete("/api/v1/namespaces/default"),
                delete("/api/v1/namespaces/kube-node-lease?dryRun=All"),
            ],
        ),
        case(
            "deletion: finalize a namespace",
            [
                post("/api/v1/namespaces", json!({"metadata": {"name": "{ns}-x"}})).setup(),
                put("/api/v1/namespaces/{ns}-x", json!({"metadata": {"name": "{ns}-x"}, "spec": {"finalizers": []}})),
                put("/api/v1/namespaces/{ns}-x/finalize", json!({"metadata": {"name": "{ns}-x"}, "spec": {"finalizers": ["kubernetes", "example.com/mine"]}})),
                merge("/api/v1/namespaces/{ns}-x/status", json!({"status": {"phase": "Active"}})),
            ],
        ),
    ]
}
