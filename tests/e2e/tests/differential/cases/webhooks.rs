//! Admission webhooks: denials, patches, failures, warnings, and the content of reviews.

use serde_json::{Value, json};

use crate::case::{Case, Step, Until, case, delete, get, merge, post};

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

/// A configuration with one webhook for the ConfigMaps in the namespace of the case that have the label `hooked`.
fn configuration(behaviour: &str, changes: Value) -> Value {
    let mut hook = json!({
        "name": "hook.example.com",
        "clientConfig": {"url": format!("{{hook}}/{behaviour}"), "caBundle": "{ca}"},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}},
        "objectSelector": {"matchExpressions": [{"key": "hooked", "operator": "Exists"}]},
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        hook[key] = value.clone();
    }
    json!({"metadata": {"name": "{ns}"}, "webhooks": [hook]})
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"hooked": "yes"}}, "data": {"color": "red"}})
}

fn remove(path: &str) -> Step {
    delete(format!("{path}/{{ns}}")).setup()
}

/// A validating webhook that denies. The first request is repeated until the webhook is active.
fn refusal(name: &'static str, behaviour: &str, code: u16) -> Case {
    case(
        name,
        [
            post(VALIDATING, configuration(behaviour, json!({}))).setup(),
            post(format!("{MAPS}?dryRun=All"), map("m")).until(Until::Code(code)),
            post(MAPS, map("m")),
            post(MAPS, json!({"metadata": {"name": "free"}})),
            remove(VALIDATING),
        ],
    )
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "webhooks: configurations",
            [
                post(VALIDATING, configuration("allow", json!({}))),
                get(format!("{VALIDATING}/{{ns}}")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                remove(VALIDATING),
                post(MUTATING, configuration("allow", json!({"rules": [], "failurePolicy": "Ignore"}))),
                remove(MUTATING),
                post(VALIDATING, configuration("allow", json!({"name": "short"}))),
                post(VALIDATING, configuration("allow", json!({"sideEffects": null}))),
                post(VALIDATING, configuration("allow", json!({"sideEffects": "Some"}))),
                post(VALIDATING, configuration("allow", json!({"admissionReviewVersions": []}))),
                post(VALIDATING, configuration("allow", json!({"admissionReviewVersions": ["v7"]}))),
                post(VALIDATING, configuration("allow", json!({"timeoutSeconds": 31}))),
                post(VALIDATING, configuration("allow", json!({"failurePolicy": "Maybe"}))),
                post(VALIDATING, configuration("allow", json!({"clientConfig": {}}))),
                post(VALIDATING, configuration("allow", json!({"clientConfig": {"url": "http://x/y?z"}}))),
                post(VALIDATING, configuration("allow", json!({"rules": [{"operations": ["EAT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*", "pods"]}]}))),
                post(VALIDATING, configuration("allow", json!({"matchConditions": [{"name": "bad name", "expression": "1 +"}]}))),
                post(VALIDATING, configuration("allow", json!({"matchConditions": [{"name": "a", "expression": "'x'"}, {"name": "a", "expression": "true"}]}))),
            ],
        ),
        refusal("webhooks: deny", "deny", 400),
        refusal("webhooks: deny because", "deny-because", 403),
        refusal("webhooks: deny with a teapot", "deny-teapot", 418),
        refusal("webhooks: deny as invalid", "deny-invalid", 422),
        refusal("webhooks: out of order", "broken", 500),
        case(
            "webhooks: ignored failures",
            [
                post(VALIDATING, configuration("broken", json!({"failurePolicy": "Ignore"}))).setup(),
                post(MAPS, map("m")),
                remove(VALIDATING),
            ],
        ),
        case(
            "webhooks: deny update and delete",
            [
                post(MAPS, map("m")).setup(),
                post(VALIDATING, configuration("deny-because", json!({}))).setup(),
                merge(format!("{MAPS}/m?dryRun=All"), json!({"data": {"x": "y"}})).until(Until::Code(403)),
                merge(format!("{MAPS}/m"), json!({"data": {"x": "y"}})),
                delete(format!("{MAPS}/m")),
                delete(format!("{MAPS}?labelSelector=hooked")),
                remove(VALIDATING),
            ],
        ),
        case(
            "webhooks: warnings",
            [
                post(VALIDATING, configuration("warn", json!({}))).setup(),
                post(VALIDATING, json!({"metadata": {"name": "{ns}-sign"}, "webhooks": [configuration("deny", json!({"name": "sign.example.com", "objectSelector": {"matchLabels": {"sign": "yes"}}}))["webhooks"][0]]})).setup(),
                post(format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "sign", "labels": {"sign": "yes"}}})).until(Until::Code(400)),
                post(MAPS, map("m")),
                remove(VALIDATING),
                delete(format!("{VALIDATING}/{{ns}}-sign")).setup(),
            ],
        ),
        case(
            "webhooks: patches",
            [
                post(MUTATING, configuration("label", json!({}))).setup(),
                post(format!("{MAPS}?dryRun=All"), map("m")).until(Until::Field("/metadata/labels/touched", json!("yes"))),
                post(MAPS, map("m")),
                remove(MUTATING),
            ],
        ),
        case(
            "webhooks: bad patches",
            [
                post(MUTATING, configuration("bad-patch", json!({}))).setup(),
                post(format!("{MAPS}?dryRun=All"), map("m")).until(Until::Code(500)),
                remove(MUTATING),
            ],
        ),
        case(
            "webhooks: what they are shown",
            [
                post(MUTATING, configuration("echo", json!({}))).setup(),
                post(format!("{MAPS}?dryRun=All"), map("m")).setup().until(Until::Code(201)),
                post(format!("{MAPS}?dryRun=All&fieldManager=me"), map("m"))
                    .header("impersonate-user", "jane")
                    .header("impersonate-group", "system:masters")
                    .until(Until::Code(201)),
                post(MAPS, json!({"metadata": {"generateName": "g-", "labels": {"hooked": "yes"}}}))
                    .header("impersonate-user", "jane")
                    .header("impersonate-group", "system:masters"),
                remove(MUTATING),
            ],
        ),
        case(
            "webhooks: match conditions",
            [
                post(VALIDATING, configuration("deny", json!({"matchConditions": [{"name": "red", "expression": "object.data.color == 'red'"}, {"name": "who", "expression": "request.userInfo.username != 'friend'"}]}))).setup(),
                post(format!("{MAPS}?dryRun=All"), map("m")).until(Until::Code(400)),
                post(MAPS, json!({"metadata": {"name": "blue", "labels": {"hooked": "yes"}}, "data": {"color": "blue"}})),
                post(MAPS, json!({"metadata": {"name": "none", "labels": {"hooked": "yes"}}})),
                remove(VALIDATING),
            ],
        ),
    ]
}
