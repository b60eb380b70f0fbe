//! JSON, merge and strategic-merge patch.

use serde_json::{Value, json};

use crate::case::{Case, Step, case, get, json_patch, merge, post, raw, strategic};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const MAP: &str = "/api/v1/namespaces/{ns}/configmaps/m";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/{ns}/deployments/d";

fn map() -> Step {
    post(
        MAPS,
        json!({"metadata": {"name": "m", "labels": {"l": "1"}}, "data": {"a": "1", "b": "2"}}),
    )
    .setup()
}

fn deployment() -> Step {
    let container = |name: &str, port: u16| json!({"name": name, "image": "i:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "ports": [{"containerPort": port}]});
    post(
        DEPLOYMENTS,
        json!({"metadata": {"name": "d", "finalizers": ["example.com/a"]}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
            "containers": [container("one", 80), container("two", 81)],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        }}}}),
    )
    .setup()
}

fn pod_spec(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "patch: merge",
            [
                map(),
                merge(
                    MAP,
                    json!({"data": {"a": null, "c": "3"}, "metadata": {"annotations": {"x": "y"}}}),
                ),
                merge(MAP, json!({"data": null})),
                merge(MAP, json!({})),
                merge(MAP, json!([])),
                raw("PATCH", MAP, "application/merge-patch+json", "{broken"),
                merge(MAP, json!({"metadata": {"name": "other"}})),
                merge(MAP, json!({"metadata": {"namespace": "other"}})),
                merge(MAP, json!({"metadata": {"uid": "other"}})),
                merge(MAP, json!({"metadata": {"resourceVersion": "1"}})),
                merge(MAP, json!({"kind": "Secret"})),
                merge(MAP, json!({"apiVersion": "v2"})),
                merge(
                    MAP,
                    json!({"metadata": {"generation": 5, "creationTimestamp": null}}),
                ),
                merge(format!("{MAPS}/missing"), json!({"data": {}})),
            ],
        ),
        case(
            "patch: unknown fields and wrong types",
            [
                map(),
                merge(
                    format!("{MAP}?fieldValidation=Strict"),
                    json!({"spec": {"x": 1}}),
                ),
                merge(MAP, json!({"spec": {"x": 1}})),
                merge(MAP, json!({"data": {"a": 1}})),
                merge(MAP, json!({"data": "text"})),
                merge(MAP, json!({"metadata": {"labels": {"bad key": "x"}}})),
                json_patch(
                    format!("{MAP}?fieldValidation=Strict"),
                    json!([{"op": "add", "path": "/spec", "value": {}}]),
                ),
                strategic(format!("{MAP}?fieldValidation=Strict"), json!({"spec": {}})),
                strategic(MAP, json!({"data": {"a": 1}})),
                merge(format!("{MAP}?force=true"), json!({"data": {"a": "9"}})),
                merge(format!("{MAP}?dryRun=All"), json!({"data": {"a": "9"}})),
            ],
        ),
        case(
            "patch: json",
            [
                map(),
                json_patch(
                    MAP,
                    json!([
                        {"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "x"},
                        {"op": "add", "path": "/data/n", "value": "new"}, {"op": "remove", "path": "/data/b"},
                        {"op": "copy", "from": "/data/a", "path": "/data/c"}, {"op": "move", "from": "/data/n", "path": "/data/o"},
                    ]),
                ),
                json_patch(
                    MAP,
                    json!([{"op": "test", "path": "/data/a", "value": "wrong"}]),
                ),
                json_patch(
                    MAP,
                    json!([
                        {"op": "test", "path": "/metadata/finalizers", "value": null},
                        {"op": "add", "path": "/metadata/finalizers", "value": ["polity.dev/hold"]},
                    ]),
                ),
                json_patch(
                    MAP,
                    json!([
                        {"op": "test", "path": "/metadata/finalizers/0", "value": "polity.dev/hold"},
                        {"op": "remove", "path": "/metadata/finalizers/0"},
                    ]),
                ),
                json_patch(
                    MAP,
                    json!([{"op": "test", "path": "/nothing/here", "value": null}]),
                ),
                json_patch(MAP, json!([{"op": "remove", "path": "/data/none"}])),
                json_patch(
                    MAP,
                    json!([{"op": "replace", "path": "/nothing/here", "value": 1}]),
                ),
                json_patch(MAP, json!([{"op": "jump", "path": "/data/a"}])),
                json_patch(MAP, json!({"op": "remove", "path": "/data/a"})),
                json_patch(MAP, json!([{"op": "remove"}])),
                json_patch(
                    MAP,
                    json!([{"op": "replace", "path": "/metadata/name", "value": "z"}]),
                ),
                json_patch(MAP, json!([])),
            ],
        ),
        case(
            "patch: strategic lists by key",
            [
                deployment(),
                strategic(
                    DEPLOYMENT,
                    pod_spec(
                        json!({"containers": [{"name": "two", "image": "i:2"}, {"name": "three", "image": "i:3"}]}),
                    ),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(
                        json!({"containers": [{"name": "one", "env": [{"name": "A", "value": "9"}, {"$patch": "delete", "name": "B"}]}]}),
                    ),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(json!({"containers": [{"$patch": "delete", "name": "three"}]})),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(
                        json!({"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}], "containers": [{"name": "one", "image": "i:9"}]}),
                    ),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(json!({"tolerations": [{"key": "other", "operator": "Exists"}]})),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(
                        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]}),
                    ),
                ),
                strategic(
                    DEPLOYMENT,
                    json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
                ),
                strategic(
                    DEPLOYMENT,
                    json!({"metadata": {"finalizers": ["example.com/b"]}}),
                ),
                strategic(
                    DEPLOYMENT,
                    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(
                        json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "i"}]}),
                    ),
                ),
                strategic(
                    DEPLOYMENT,
                    json!({"spec": {"template": {"metadata": {"labels": {"$patch": "replace", "app": "a", "z": "z"}}}}}),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(json!({"containers": [{"image": "nameless"}]})),
                ),
                strategic(
                    DEPLOYMENT,
                    pod_spec(json!({"containers": [{"name": "only", "$patch": "sideways"}]})),
                ),
                get(DEPLOYMENT),
            ],
        ),
        case(
            "patch: media types",
            [
                map(),
                raw("PATCH", MAP, "application/json", "{}"),
                raw("PATCH", MAP, "text/plain", "{}"),
                crate::case::bare("PATCH", MAP),
            ],
        ),
    ]
}
