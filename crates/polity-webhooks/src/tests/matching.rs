//! Tables of requests that a webhook matches.

use super::*;
use crate::matching::matched;

fn webhook(changes: Value) -> Value {
    let mut webhook = json!({"name": "h.x.y", "clientConfig": {"url": "https://127.0.0.1:1"}});
    if let Value::Object(changes) = changes {
        webhook.as_object_mut().unwrap().extend(changes);
    }
    webhook
}

/// The version a webhook would be shown, or why nothing.
fn outcome(given: &Given, changes: Value) -> String {
    let configs = one("Mutating", &webhook(changes));
    let found = matched(
        &configs.mutating[0].webhooks[0],
        &Cluster::new(),
        &given.attributes(),
        given.object.as_ref(),
    );
    match found {
        Ok(None) => "no".to_owned(),
        Ok(Some(invocation)) => invocation.resource.version.clone(),
        Err(error) => error.message,
    }
}

fn rule(resources: &[&str]) -> Value {
    json!({"rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources}]})
}

#[test]
fn resources_and_subresources() {
    let cases: [(&[&str], bool, bool); 8] = [
        (&["deployments"], true, false),
        (&["deployments/status"], false, true),
        (&["deployments/*"], true, true),
        (&["*"], true, false),
        (&["*/*"], true, true),
        (&["*/status"], false, true),
        (&["pods", "*/scale"], false, false),
        (&[], false, false),
    ];
    for (resources, itself, status) in cases {
        let mut given = Given::create();
        assert_eq!(
            outcome(&given, rule(resources)) == "v1",
            itself,
            "{resources:?}"
        );
        given.subresource = "status";
        assert_eq!(
            outcome(&given, rule(resources)) == "v1",
            status,
            "{resources:?} status"
        );
    }
}

#[test]
fn operations_groups_versions_and_scope() {
    let rule = |field: &str, value: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*"]});
        rule[field] = value;
        json!({"rules": [rule], "matchPolicy": "Exact"})
    };
    let cases = [
        ("operations", json!(["*"]), "v1"),
        ("operations", json!(["UPDATE", "DELETE"]), "no"),
        ("apiGroups", json!(["", "*"]), "v1"),
        ("apiGroups", json!([""]), "no"),
        ("apiVersions", json!(["*"]), "v1"),
        ("apiVersions", json!(["v1beta1"]), "no"),
        ("scope", json!("*"), "v1"),
        ("scope", json!("Namespaced"), "v1"),
        ("scope", json!("Cluster"), "no"),
    ];
    for (field, value, expected) in cases {
        assert_eq!(
            outcome(&Given::create(), rule(field, value.clone())),
            expected,
            "{field} {value}"
        );
    }
    let mut namespace = Given::create();
    namespace.kind = GroupVersionKind::new("", "v1", "Namespace");
    namespace.resource = GroupVersionResource::new("", "v1", "namespaces");
    let scoped = |scope: &str| json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"], "scope": scope}]});
    assert_eq!(
        outcome(&namespace, scoped("Cluster")),
        "v1",
        "namespaces count as cluster-scoped"
    );
    assert_eq!(outcome(&namespace, scoped("Namespaced")), "no");
}

#[test]
fn other_versions_match_unless_exact() {
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v2"], "resources": ["deployments"]},
        {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1beta1"], "resources": ["deployments"]},
    ]);
    assert_eq!(
        outcome(&Given::create(), json!({"rules": rules})),
        "v1beta1"
    );
    assert_eq!(
        outcome(
            &Given::create(),
            json!({"rules": rules, "matchPolicy": "Equivalent"})
        ),
        "v1beta1"
    );
    assert_eq!(
        outcome(
            &Given::create(),
            json!({"rules": rules, "matchPolicy": "Exact"})
        ),
        "no"
    );
}

#[test]
fn namespace_selectors() {
    let selector = |labels: Value| json!({"namespaceSelector": {"matchLabels": labels}});
    let mut given = Given::create();
    assert_eq!(outcome(&given, selector(json!({"env": "prod"}))), "v1");
    assert_eq!(outcome(&given, selector(json!({"env": "test"}))), "no");
    given.namespace = "absent";
    assert_eq!(
        outcome(&given, selector(json!({"env": "prod"}))),
        "namespaces \"absent\" not found"
    );
    assert_eq!(
        outcome(&given, json!({"namespaceSelector": {}})),
        "v1",
        "an empty selector calls no webhook"
    );
    let elsewhere = json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}, "rules": []});
    assert_eq!(
        outcome(&given, elsewhere),
        "no",
        "errors of webhooks that do not apply do not matter"
    );
    given.namespace = "";
    assert_eq!(
        outcome(&given, selector(json!({"env": "test"}))),
        "v1",
        "cluster-scoped objects always match"
    );

    let mut namespace = Given::create();
    namespace.kind = GroupVersionKind::new("", "v1", "Namespace");
    namespace.resource = GroupVersionResource::new("", "v1", "namespaces");
    namespace.object = Some(json!({"metadata": {"name": "ns", "labels": {"env": "new"}}}));
    let any = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    let with_rules =
        |labels: Value| json!({"namespaceSelector": {"matchLabels": labels}, "rules": any});
    assert_eq!(
        outcome(&namespace, with_rules(json!({"env": "new"}))),
        "v1",
        "a namespace being written matches by itself"
    );
    namespace.operation = Operation::Delete;
    assert_eq!(
        outcome(&namespace, with_rules(json!({"env": "prod"}))),
        "v1",
        "one being deleted by what is stored"
    );
}

#[test]
fn object_selectors_look_at_both_objects() {
    let selector = |selector: Value| json!({"objectSelector": selector});
    let mut given = Given::create();
    assert_eq!(
        outcome(&given, selector(json!({"matchLabels": {"app": "d"}}))),
        "v1"
    );
    assert_eq!(
        outcome(&given, selector(json!({"matchLabels": {"app": "x"}}))),
        "no"
    );
    given.old_object = Some(json!({"metadata": {"labels": {"app": "x"}}}));
    assert_eq!(
        outcome(&given, selector(json!({"matchLabels": {"app": "x"}}))),
        "v1"
    );
    given.object = Some(json!({"metadata": {}}));
    given.old_object = None;
    assert_eq!(
        outcome(
            &given,
            selector(
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]})
            )
        ),
        "v1"
    );
    assert_eq!(
        outcome(
            &given,
            selector(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
        ),
        "no"
    );
}

#[tokio::test]
async fn match_conditions() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let cluster = Cluster::new();
    let cases = [
        (vec!["object.spec.replicas == 1"], "Fail", "called"),
        (vec!["object.spec.replicas == 2"], "Fail", "skipped"),
        (
            vec!["request.operation == 'CREATE' && request.userInfo.username == 'u'"],
            "Fail",
            "called",
        ),
        (
            vec!["oldObject == null && request.resource.resource == 'deployments'"],
            "Fail",
            "called",
        ),
        (
            vec!["authorizer.requestResource.check('breakglass').allowed()"],
            "Fail",
            "skipped",
        ),
        (
            vec!["object.absent == 1", "object.spec.replicas == 2"],
            "Fail",
            "skipped",
        ),
        (vec!["object.absent == 1", "true"], "Ignore", "skipped"),
        (
            vec!["object.absent == 1"],
            "Fail",
            "deployments.apps \"d\" is forbidden: expression 'object.absent == 1' resulted in error: no such key: absent",
        ),
        (
            vec!["object.a == 1", "object.b == 1"],
            "Fail",
            "deployments.apps \"d\" is forbidden: [expression 'object.a == 1' resulted in error: no such key: a, expression 'object.b == 1' resulted in error: no such key: b]",
        ),
    ];
    for (expressions, policy, expected) in cases {
        let conditions: Vec<Value> = expressions
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"name": format!("n{index}"), "expression": text}))
            .collect();
        let mut webhook = hooks.webhook("h.x.y", "/");
        webhook["matchConditions"] = json!(conditions);
        webhook["failurePolicy"] = json!(policy);
        let before = hooks.seen().len();
        let (result, _) = Given::create()
            .validate(&one("Validating", &webhook), &cluster)
            .await;
        let outcome = match result {
            Ok(()) if hooks.seen().len() > before => "called".to_owned(),
            Ok(()) => "skipped".to_owned(),
            Err(error) => {
                assert_eq!(error.code.as_u16(), 403);
                error.message
            }
        };
        assert_eq!(outcome, expected, "{expressions:?}");
    }
}

#[tokio::test]
async fn a_webhook_sees_and_patches_the_version_it_asked_for() {
    let hooks =
        Hooks::start(|_, _| patch(&json!([{"op": "add", "path": "/spec/x", "value": 1}]))).await;
    let mut webhook = hooks.webhook("h.x.y", "/");
    webhook["rules"] = json!([{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1beta1"], "resources": ["deployments"]}]);
    let (result, _) = Given::create()
        .mutate(&one("Mutating", &webhook), &Cluster::new())
        .await;
    let object = result.unwrap().object.unwrap();
    assert_eq!(
        (&object["apiVersion"], &object["spec"]["x"]),
        (&json!("apps/v1"), &json!(1))
    );
    let request = hooks.seen()[0].body["request"].clone();
    assert_eq!(request["object"]["apiVersion"], json!("apps/v1beta1"));
    assert_eq!(request["kind"]["version"], json!("v1beta1"));
    assert_eq!(request["requestKind"]["version"], json!("v1"));
    assert_eq!(request["resource"]["version"], json!("v1beta1"));
    assert_eq!(request["requestResource"]["version"], json!("v1"));
}

#[tokio::test]
async fn some_kinds_are_never_shown() {
    let hooks = Hooks::start(|_, _| deny(&json!(null))).await;
    let mut webhook = hooks.webhook("h.x.y", "/");
    webhook["rules"] = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let both = configs(&[
        configuration("Mutating", "c", std::slice::from_ref(&webhook)),
        configuration("Validating", "c", std::slice::from_ref(&webhook)),
    ]);
    let exempt = [
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
        ),
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
        ),
        ("authentication.k8s.io", "TokenReview", "tokenreviews"),
        (
            "authentication.k8s.io",
            "SelfSubjectReview",
            "selfsubjectreviews",
        ),
        (
            "authorization.k8s.io",
            "SubjectAccessReview",
            "subjectaccessreviews",
        ),
        (
            "authorization.k8s.io",
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
        ),
    ];
    for (group, kind, resource) in exempt {
        let mut given = Given::create();
        given.kind = GroupVersionKind::new(group, "v1", kind);
        given.resource = GroupVersionResource::new(group, "v1", resource);
        given.namespace = "";
        given.mutate(&both, &Cluster::new()).await.0.unwrap();
        given.validate(&both, &Cluster::new()).await.0.unwrap();
    }
    assert!(hooks.seen().is_empty());
    assert!(
        Given::create()
            .validate(&both, &Cluster::new())
            .await
            .0
            .is_err()
    );
}
