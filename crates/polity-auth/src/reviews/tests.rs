//! The virtual kinds: access reviews, rules reviews, token reviews.

use std::sync::Arc;

use polity_core::field::MAX_ERRORS;
use polity_core::findings::MAX_FINDINGS;
use polity_pki::TokenKey;

use super::*;
use crate::token::{BoundKind, TokenIssuer, TokenRequest, issue_token};
use crate::{AUTHENTICATED, AuthorizationMode, Roles, Secret, StaticToken};

const US: &str = "https://us";

fn objects(kind: BoundKind, _: &str, _: &str) -> Option<Arc<Value>> {
    (kind == BoundKind::ServiceAccount).then(|| Arc::new(json!({"metadata": {"uid": "u"}})))
}

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn authenticator() -> Authenticator {
    let issuer = TokenIssuer::new(US, &[US.to_owned()], &TokenKey::generate().unwrap()).unwrap();
    let user = UserInfo {
        username: "admin".into(),
        ..UserInfo::default()
    };
    Authenticator::new(
        vec![StaticToken {
            token: Secret::new("hunter2"),
            user,
        }],
        issuer,
    )
}

fn roles() -> Roles {
    Roles::from_objects(&[
        json!({"kind": "ClusterRole", "metadata": {"name": "pods"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
        ]}),
        json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "pods"},
            "roleRef": {"kind": "ClusterRole", "name": "pods"},
            "subjects": [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "team"}],
        }),
        json!({
            "kind": "RoleBinding", "metadata": {"name": "broken", "namespace": "ns"},
            "roleRef": {"kind": "Role", "name": "gone"}, "subjects": [{"kind": "User", "name": "alice"}],
        }),
    ])
}

/// Sends a review as Alice.
fn ask_in(namespace: &str, resource: &str, body: &Value) -> Result<Value, ApiError> {
    let user = UserInfo {
        username: "alice".into(),
        uid: "7".into(),
        groups: vec![AUTHENTICATED.into()],
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
    };
    let (roles, authenticator) = (roles(), authenticator());
    answer(
        resource,
        body,
        &ReviewContext {
            user: &user,
            namespace,
            authorizer: Authorizer {
                mode: AuthorizationMode::Rbac,
                roles: &roles,
            },
            authenticator: &authenticator,
            objects: &objects,
            now: now(),
        },
    )
}

fn ask(resource: &str, body: &Value) -> Result<Value, ApiError> {
    ask_in("", resource, body)
}

fn get(resource: &str, namespace: &str) -> Value {
    json!({"verb": "get", "resource": resource, "namespace": namespace})
}

#[test]
fn access_reviews() {
    let allowed = |to: &str| json!({"allowed": true, "reason": format!("RBAC: allowed by ClusterRoleBinding \"pods\" of ClusterRole \"pods\" to {to}")});
    let no = json!({"allowed": false});
    let broken = json!({"allowed": false, "reason": "rbac: RBAC: role.rbac.authorization.k8s.io \"gone\" not found"});
    for (resource, spec, expected) in [
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": get("pods", "x")}),
            allowed("User \"alice\""),
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": get("secrets", "x")}),
            no.clone(),
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": get("secrets", "ns")}),
            broken,
        ),
        (
            "selfsubjectaccessreviews",
            json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}),
            allowed("User \"alice\""),
        ),
        (
            "subjectaccessreviews",
            json!({"resourceAttributes": get("pods", "x"), "user": "bob", "groups": ["team"]}),
            allowed("Group \"team\""),
        ),
        (
            "subjectaccessreviews",
            json!({"resourceAttributes": get("pods", "x"), "user": "bob"}),
            no,
        ),
    ] {
        let body = json!({"metadata": {}, "spec": spec});
        let answer = ask(resource, &body).unwrap();
        assert_eq!(answer["status"], expected, "{resource} {spec}");
        assert_eq!(answer["spec"], spec, "the spec is echoed");
        assert_eq!(answer["apiVersion"], "authorization.k8s.io/v1");
    }
    let body = json!({"spec": {"resourceAttributes": get("pods", "ns"), "user": "alice"}});
    let answer = ask_in("ns", "localsubjectaccessreviews", &body).unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["metadata"], json!({"namespace": "ns"}));
}

#[test]
fn mistakes_in_access_reviews() {
    let exactly = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let path = json!({"path": "/x", "verb": "get"});
    for (resource, body, expected) in [
        ("selfsubjectaccessreviews", json!({"spec": {}}), format!("spec: Invalid value: null: {exactly}")),
        (
            "selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": path}}),
            format!("spec: Invalid value: {{\"Path\":\"/x\",\"Verb\":\"get\"}}: {exactly}"),
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": {}}}),
            "spec.user: Invalid value: \"\": at least one of user or group must be specified".to_owned(),
        ),
        (
            "selfsubjectaccessreviews",
            json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}}),
            "metadata: Invalid value: {\"name\":\"x\"}: must be empty".to_owned(),
        ),
        (
            "localsubjectaccessreviews",
            json!({"spec": {"user": "a", "resourceAttributes": {"namespace": "other"}}}),
            "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace".to_owned(),
        ),
        (
            "localsubjectaccessreviews",
            json!({"spec": {"user": "a", "nonResourceAttributes": path}}),
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of \
             request"
                .to_owned(),
        ),
        (
            "selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": {"labelSelector": {}}}}),
            "spec.resourceAttributes.labelSelector.requirements: Required value: when \
             spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"
                .to_owned(),
        ),
        (
            "selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [{"operator": "In"}]}}}}),
            "[spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified, \
             spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when \
             `operator` is 'In' or 'NotIn']"
                .to_owned(),
        ),
    ] {
        let error = ask_in("ns", resource, &body).unwrap_err();
        let expected = format!(".authorization.k8s.io \"\" is invalid: {expected}");
        assert_eq!((error.code.as_u16(), error.message), (422, expected), "{body}");
    }
    let error = ask("subjectaccessreviews", &json!({"spec": {"groups": 7}})).unwrap_err();
    assert_eq!(error.code.as_u16(), 400);
}

#[test]
fn invalid_selectors_are_reported() {
    let mut attributes = get("pods", "x");
    attributes["fieldSelector"] = json!({"rawSelector": "nonsense"});
    attributes["labelSelector"] = json!({"requirements": [
        {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Newer"},
    ]});
    let answer = ask(
        "selfsubjectaccessreviews",
        &json!({"spec": {"resourceAttributes": attributes}}),
    )
    .unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(
        answer["status"]["evaluationError"],
        "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector partially \
         ignored due to parse error"
    );
}

#[test]
fn rules_reviews() {
    let answer = ask(
        "selfsubjectrulesreviews",
        &json!({"spec": {"namespace": "ns"}}),
    )
    .unwrap();
    assert_eq!(
        answer["status"],
        json!({
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            "incomplete": false,
            "evaluationError": "role.rbac.authorization.k8s.io \"gone\" not found",
        })
    );
    let error = ask("selfsubjectrulesreviews", &json!({"spec": {}})).unwrap_err();
    assert_eq!(
        (error.code.as_u16(), error.message.as_str()),
        (400, "no namespace on request")
    );
}

#[test]
fn who_am_i() {
    let answer = ask("selfsubjectreviews", &json!({})).unwrap();
    assert_eq!(
        answer,
        json!({
            "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": "2026-11-15T12:00:00Z"},
            "status": {"userInfo": {
                "username": "alice", "uid": "7", "groups": ["system:authenticated"], "extra": {"k": ["v"]},
            }},
        })
    );
}

#[test]
fn token_reviews() {
    let authenticator = authenticator();
    let (roles, user, empty) = (roles(), UserInfo::default(), json!({}));
    let context = ReviewContext {
        user: &user,
        namespace: "",
        authorizer: Authorizer {
            mode: AuthorizationMode::Rbac,
            roles: &roles,
        },
        authenticator: &authenticator,
        objects: &objects,
        now: now(),
    };
    let request = TokenRequest {
        namespace: "ns",
        name: "robot",
        body: &empty,
        token_id: "1",
        now: now(),
    };
    let robot =
        issue_token(authenticator.issuer(), &objects, &request).unwrap()["status"]["token"].clone();
    for (spec, expected) in [
        (
            json!({"token": "hunter2"}),
            json!({
                "authenticated": true, "audiences": [US],
                "user": {"username": "admin", "groups": ["system:authenticated"]},
            }),
        ),
        (
            json!({"token": robot, "audiences": [US, "other"]}),
            json!({
                "authenticated": true, "audiences": [US],
                "user": {
                    "username": "system:serviceaccount:ns:robot", "uid": "u",
                    "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
                    "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
                },
            }),
        ),
        (
            json!({"token": "wrong"}),
            json!({"user": {}, "error": "invalid bearer token"}),
        ),
        (
            json!({"token": robot, "audiences": ["other"]}),
            json!({
                "user": {},
                "error": "[invalid bearer token, token audiences [\"https://us\"] is invalid for the target audiences [\"other\"]]",
            }),
        ),
    ] {
        let answer = answer("tokenreviews", &json!({"spec": spec}), &context).unwrap();
        assert_eq!(answer["status"], expected, "{spec}");
        assert_eq!(answer["spec"], spec);
    }
    let error = answer("tokenreviews", &json!({"spec": {}}), &context).unwrap_err();
    assert_eq!(
        error.message,
        "token is required for TokenReview in authentication"
    );
}

#[test]
fn a_review_with_very_many_mistakes_has_a_bounded_number_of_errors() {
    let requirements = vec![json!({"key": "-", "operator": "In"}); 5000];
    for selector in ["labelSelector", "fieldSelector"] {
        let body =
            json!({"spec": {"resourceAttributes": {selector: {"requirements": requirements}}}});
        let error = ask("selfsubjectaccessreviews", &body).unwrap_err();
        let n_hidden = MAX_ERRORS - MAX_FINDINGS;
        let end = format!(", and {n_hidden} more errors");
        assert!(
            error.message.ends_with(&end),
            "{selector}: {}",
            &error.message[error.message.len() - 40..]
        );
    }
}
