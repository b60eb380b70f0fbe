//! Authentication and authorization, and the text of refusals.

use serde_json::{Value, json};

use crate::case::{Case, Until, apply, case, delete, delete_with, get, merge, post, put};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role, "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "name": user}]})
}

fn access(spec: Value) -> crate::case::Step {
    post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        json!({"spec": spec}),
    )
}

pub(crate) fn cases() -> Vec<Case> {
    let roles = format!("{RBAC}/namespaces/{{ns}}/roles");
    let bindings = format!("{RBAC}/namespaces/{{ns}}/rolebindings");
    vec![
        case(
            "rbac: refusals",
            [
                get(MAPS).impersonating("jane"),
                get(format!("{MAPS}/x")).impersonating("jane"),
                post(MAPS, json!({"metadata": {"name": "x"}})).impersonating("jane"),
                put(format!("{MAPS}/x"), json!({"metadata": {"name": "x"}})).impersonating("jane"),
                merge(format!("{MAPS}/x"), json!({})).impersonating("jane"),
                apply(format!("{MAPS}/x"), "m", json!({"apiVersion": "v1", "kind": "ConfigMap"})).impersonating("jane"),
                delete(format!("{MAPS}/x")).impersonating("jane"),
                delete(MAPS).impersonating("jane"),
                get(format!("{MAPS}?watch=true")).impersonating("jane"),
                get("/apis/apps/v1/deployments").impersonating("jane"),
                get("/api/v1/namespaces/{ns}/pods/p/log").impersonating("jane"),
                get("/apis/apps/v1/namespaces/{ns}/deployments/d/scale").impersonating("jane"),
                get("/api/v1/namespaces/{ns}").impersonating("jane"),
                get("/metrics").impersonating("jane"),
                get("/apis/nope.example.com/v1/things").impersonating("jane"),
                get("/version").impersonating("jane"),
            ],
        ),
        case(
            "rbac: anonymous requests",
            [
                get(MAPS).as_anonymous(),
                get("/version").as_anonymous(),
                get("/healthz").as_anonymous(),
                get("/api").as_anonymous(),
                get(MAPS).as_anonymous().header("authorization", "Bearer wrong"),
                get("/version").as_anonymous().header("authorization", "Bearer wrong"),
                get(MAPS).as_anonymous().impersonating("jane"),
                get(MAPS).as_anonymous().header("authorization", "Basic dTpw"),
            ],
        ),
        case(
            "rbac: roles grant",
            [
                post(roles.clone(), role("reader", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["a"]}]))),
                post(bindings.clone(), binding("readers", "Role", "reader", "joe")),
                get(format!("{MAPS}/a")).impersonating("joe").until(Until::Code(404)),
                get(format!("{MAPS}/b")).impersonating("joe"),
                get(MAPS).impersonating("joe"),
                get(format!("{MAPS}?fieldSelector=metadata.name%3Da")).impersonating("joe"),
                get("/api/v1/configmaps?fieldSelector=metadata.name%3Da").impersonating("joe"),
                get(roles.clone()).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(bindings.clone()).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                merge(format!("{bindings}/readers"), json!({"roleRef": {"name": "other"}})),
                post(roles.clone(), role("bad", json!([{"apiGroups": [""], "resources": ["configmaps"]}]))),
                post(roles.clone(), role("bad", json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]))),
                post(bindings.clone(), json!({"metadata": {"name": "bad"}, "roleRef": {"kind": "Thing", "name": ""}, "subjects": [{"kind": "Robot", "name": ""}, {"kind": "ServiceAccount", "name": "x"}]})),
            ],
        ),
        case(
            "rbac: users cannot grant what they lack",
            [
                post(format!("{RBAC}/clusterroles"), role("{ns}", json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"]}]))).setup(),
                post(format!("{RBAC}/clusterrolebindings"), binding("{ns}", "ClusterRole", "{ns}", "climber")).setup(),
                post(format!("{roles}?dryRun=All"), role("none", json!([]))).impersonating("climber").until(Until::Code(201)),
                post(roles.clone(), role("up", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]))).impersonating("climber"),
                post(bindings.clone(), binding("up", "ClusterRole", "cluster-admin", "climber")).impersonating("climber"),
                post(bindings.clone(), binding("up", "ClusterRole", "not-there", "climber")).impersonating("climber"),
                post(roles.clone(), role("same", json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]}]))).impersonating("climber"),
                get(format!("{MAPS}?labelSelector=none")).impersonating("climber").header("impersonate-group", "system:masters"),
            ],
        ),
        case(
            "rbac: reviews",
            [
                access(json!({"user": "jane", "resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "configmaps"}})),
                access(json!({"user": "root", "groups": ["system:masters"], "resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}})),
                access(json!({"user": "jane", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}})),
                access(json!({"user": "jane", "groups": ["system:authenticated"], "nonResourceAttributes": {"path": "/apis", "verb": "get"}})),
                access(json!({"resourceAttributes": {"verb": "get", "resource": "configmaps"}})),
                access(json!({"user": "jane"})),
                access(json!({"user": "jane", "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/"}})),
                post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})),
                post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})).impersonating("jane"),
                post("/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews", json!({"metadata": {"namespace": "{ns}"}, "spec": {"user": "jane", "resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}}})),
                post("/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews", json!({"spec": {"user": "jane", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}}})),
                post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"spec": {"namespace": "{ns}"}})).impersonating("jane"),
                post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"spec": {}})),
                post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).impersonating("jane"),
                post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "wrong"}})),
                post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {}})),
                get("/apis/authentication.k8s.io/v1/tokenreviews"),
            ],
        ),
        case(
            "rbac: service accounts",
            [
                post("/api/v1/namespaces/{ns}/serviceaccounts", json!({"metadata": {"name": "robot"}})).setup(),
                post("/api/v1/namespaces/{ns}/serviceaccounts/robot/token", json!({"spec": {"expirationSeconds": 3600}})).save("robot", "/status/token"),
                post("/api/v1/namespaces/{ns}/serviceaccounts/robot/token", json!({"spec": {"expirationSeconds": 5}})),
                post("/api/v1/namespaces/{ns}/serviceaccounts/nobody/token", json!({"spec": {}})),
                get(MAPS).as_anonymous().header("authorization", "Bearer {robot}"),
                post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).as_anonymous().header("authorization", "Bearer {robot}"),
                post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "{robot}"}})),
                delete_with("/api/v1/namespaces/{ns}/serviceaccounts/robot", json!({})).setup(),
                get(MAPS).as_anonymous().header("authorization", "Bearer {robot}").until(Until::Code(401)),
            ],
        ),
        case(
            "rbac: impersonation",
            [
                get(MAPS).header("impersonate-group", "x"),
                get(MAPS).impersonating("system:serviceaccount:{ns}:default"),
                post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).impersonating("jane").header("impersonate-group", "g").header("impersonate-uid", "7").header("impersonate-extra-scopes", "a"),
                get(MAPS).impersonating("system:anonymous"),
            ],
        ),
    ]
}
