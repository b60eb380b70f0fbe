//! Service-account tokens: issued, checked, bound, expired.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use polity_kinds::status::ApiError;

const NOW: &str = "2026-11-15T12:00:00Z";
const US: &str = "https://127.0.0.1:6443";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn issuer(name: &str) -> TokenIssuer {
    TokenIssuer::new(name, &[US.to_owned()], &TokenKey::generate().unwrap()).unwrap()
}

/// Objects by kind, namespace and name.
#[derive(Default, Clone)]
struct ObjectTable(BTreeMap<(BoundKind, String, String), Arc<Value>>);

impl ObjectTable {
    fn new() -> Self {
        let mut objects = Self::default();
        objects.put(
            BoundKind::ServiceAccount,
            "ns",
            "robot",
            json!({"metadata": {"uid": "sa-1"}}),
        );
        let pod = json!({"metadata": {"uid": "pod-1"}, "spec": {"serviceAccountName": "robot", "nodeName": "n1"}});
        objects.put(BoundKind::Pod, "ns", "web", pod);
        let foreign =
            json!({"metadata": {"uid": "pod-2"}, "spec": {"serviceAccountName": "other"}});
        objects.put(BoundKind::Pod, "ns", "foreign", foreign);
        objects.put(
            BoundKind::Secret,
            "ns",
            "s",
            json!({"metadata": {"uid": "secret-1"}}),
        );
        objects.put(
            BoundKind::Node,
            "",
            "n1",
            json!({"metadata": {"uid": "node-1"}}),
        );
        objects
    }

    fn put(&mut self, kind: BoundKind, namespace: &str, name: &str, object: Value) {
        self.0.insert(
            (kind, namespace.to_owned(), name.to_owned()),
            Arc::new(object),
        );
    }

    fn without(&self, kind: BoundKind) -> Self {
        let mut objects = self.clone();
        objects.0.retain(|key, _| key.0 != kind);
        objects
    }

    fn with_metadata(&self, kind: BoundKind, name: &str, field: &str, value: &Value) -> Self {
        let mut objects = self.clone();
        for ((at, _, other), object) in &mut objects.0 {
            if *at == kind && other == name {
                Arc::make_mut(object)["metadata"][field] = value.clone();
            }
        }
        objects
    }
}

impl Objects for ObjectTable {
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0
            .get(&(kind, namespace.to_owned(), name.to_owned()))
            .cloned()
    }
}

fn ask(issuer: &TokenIssuer, objects: &ObjectTable, body: &Value) -> Result<Value, ApiError> {
    let request = TokenRequest {
        namespace: "ns",
        name: "robot",
        body,
        token_id: "id-1",
        now: now(),
    };
    issue_token(issuer, objects, &request)
}

fn token_for(issuer: &TokenIssuer, spec: &Value) -> String {
    let answer = ask(issuer, &ObjectTable::new(), &json!({"spec": spec})).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn pod_ref() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": "web"})
}

#[test]
fn a_token_contains_its_user_and_lifetime() {
    let issuer = issuer(US);
    let answer = ask(&issuer, &ObjectTable::new(), &json!({"spec": {}})).unwrap();
    assert_eq!(answer["metadata"]["name"], "robot");
    assert_eq!(answer["metadata"]["uid"], "sa-1");
    assert_eq!(answer["metadata"]["creationTimestamp"], NOW);
    assert_eq!(
        answer["spec"],
        json!({"audiences": [US], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-11-15T13:00:00Z"
    );

    let token = answer["status"]["token"].as_str().unwrap();
    let (user, audiences) = issuer
        .authenticate(token, &[US.to_owned()], &ObjectTable::new(), now())
        .unwrap();
    assert_eq!(
        json!(user),
        json!({
            "username": "system:serviceaccount:ns:robot",
            "uid": "sa-1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=id-1"]},
        })
    );
    assert_eq!(audiences, [US]);

    let (claims, _) = issuer.verify(token, &[US.to_owned()], now()).unwrap();
    assert_eq!(
        serde_json::to_value(claims).unwrap(),
        json!({
            "iss": US, "sub": "system:serviceaccount:ns:robot", "aud": [US], "jti": "id-1",
            "iat": now().as_second(), "nbf": now().as_second(), "exp": now().as_second() + 3600,
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "sa-1"}},
        })
    );
}

#[test]
fn mistakes_in_the_request() {
    let issuer = issuer(US);
    for (body, code, expected) in [
        (
            json!({"spec": {"expirationSeconds": 599}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not \
             specify a duration less than 10 minutes",
        ),
        (
            json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may \
             not specify a duration larger than 2^32 seconds",
        ),
        (
            json!({"spec": {"expirationSeconds": "1h"}}),
            400,
            "spec.expirationSeconds must be an integer",
        ),
        (
            json!({"spec": {"audiences": "x"}}),
            400,
            "spec.audiences must be a list of strings",
        ),
        (
            json!({"metadata": {"name": "other"}}),
            422,
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must match \
             the service account name if specified",
        ),
        (
            json!({"metadata": {"namespace": "other"}}),
            422,
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.namespace: Invalid value: \"other\": must \
             match the service account namespace if specified",
        ),
        (
            json!({"metadata": {"uid": "sa-0"}}),
            409,
            "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token request \
             (sa-0) does not match the UID of the service account (sa-1)",
        ),
        (
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "gone"}}}),
            404,
            "pods \"gone\" not found",
        ),
        (
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-0"}}}),
            409,
            "Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (pod-0) does not match the \
             UID in record. The object might have been deleted and then recreated",
        ),
        (
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "foreign"}}}),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        (
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ] {
        let error = ask(&issuer, &ObjectTable::new(), &body).unwrap_err();
        assert_eq!(
            (error.code.as_u16(), error.message.as_str()),
            (code, expected),
            "{body}"
        );
    }
    let nobody = ObjectTable::new().without(BoundKind::ServiceAccount);
    let error = ask(&issuer, &nobody, &json!({})).unwrap_err();
    assert_eq!(error.message, "serviceaccounts \"robot\" not found");
}

#[test]
fn a_bound_token_names_its_object_and_expires_with_it() {
    let issuer = issuer(US);
    let wanted = [US.to_owned()];
    let objects = ObjectTable::new();
    let pod = token_for(&issuer, &json!({"boundObjectRef": pod_ref()}));
    let secret = token_for(
        &issuer,
        &json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}),
    );
    let node = token_for(
        &issuer,
        &json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}),
    );

    let (user, _) = issuer.authenticate(&pod, &wanted, &objects, now()).unwrap();
    assert_eq!(
        json!(user.extra),
        json!({
            "authentication.kubernetes.io/credential-id": ["JTI=id-1"],
            "authentication.kubernetes.io/node-name": ["n1"],
            "authentication.kubernetes.io/node-uid": ["node-1"],
            "authentication.kubernetes.io/pod-name": ["web"],
            "authentication.kubernetes.io/pod-uid": ["pod-1"],
        })
    );

    let minutes_ago = |minutes: i64| json!(later(-60 * minutes).to_string());
    let deleted = |kind, name, minutes| {
        objects.with_metadata(kind, name, "deletionTimestamp", &minutes_ago(minutes))
    };
    let reborn = |kind, name| objects.with_metadata(kind, name, "uid", &json!("new"));
    for (case, token, objects, expected) in [
        ("all there", &pod, objects.clone(), None),
        (
            "pod gone",
            &pod,
            objects.without(BoundKind::Pod),
            Some("service account token has been invalidated"),
        ),
        (
            "pod reborn",
            &pod,
            reborn(BoundKind::Pod, "web"),
            Some("pod UID (new) does not match service account pod ref claim (pod-1)"),
        ),
        (
            "pod being deleted",
            &pod,
            deleted(BoundKind::Pod, "web", 0),
            None,
        ),
        (
            "pod deleted",
            &pod,
            deleted(BoundKind::Pod, "web", 2),
            Some("service account token has been invalidated"),
        ),
        (
            "node gone under a pod",
            &pod,
            objects.without(BoundKind::Node),
            None,
        ),
        (
            "node gone",
            &node,
            objects.without(BoundKind::Node),
            Some("service account token has been invalidated"),
        ),
        (
            "secret gone",
            &secret,
            objects.without(BoundKind::Secret),
            Some("service account token has been invalidated"),
        ),
        (
            "account gone",
            &pod,
            objects.without(BoundKind::ServiceAccount),
            Some("serviceaccounts \"robot\" not found"),
        ),
        (
            "account reborn",
            &pod,
            reborn(BoundKind::ServiceAccount, "robot"),
            Some("service account UID (new) does not match claim (sa-1)"),
        ),
        (
            "account deleted",
            &pod,
            deleted(BoundKind::ServiceAccount, "robot", 2),
            Some("service account ns/robot has been deleted"),
        ),
    ] {
        let result = issuer
            .authenticate(token, &wanted, &objects, now())
            .map(|_| ());
        assert_eq!(
            result.map_err(|error| error.to_string()).err().as_deref(),
            expected,
            "{case}"
        );
    }
}

#[test]
fn time_and_audience() {
    let issuer = issuer(US);
    let token = token_for(
        &issuer,
        &json!({"expirationSeconds": 600, "audiences": ["vault", US]}),
    );
    let wanted = |audiences: &[&str]| {
        audiences
            .iter()
            .map(|it| (*it).to_owned())
            .collect::<Vec<_>>()
    };
    for (audiences, at, expected) in [
        (wanted(&[US]), later(0), Ok(wanted(&[US]))),
        (wanted(&["vault", "x"]), later(0), Ok(wanted(&["vault"]))),
        (wanted(&[US]), later(659), Ok(wanted(&[US]))),
        (
            wanted(&[US]),
            later(661),
            Err("service account token has expired".to_owned()),
        ),
        (wanted(&[US]), later(-59), Ok(wanted(&[US]))),
        (
            wanted(&[US]),
            later(-61),
            Err("service account token is not valid yet".to_owned()),
        ),
        (
            wanted(&["x"]),
            later(0),
            Err(format!(
                "token audiences [\"vault\" \"{US}\"] is invalid for the target audiences [\"x\"]"
            )),
        ),
    ] {
        let result = issuer
            .verify(&token, &audiences, at)
            .map(|(_, audiences)| audiences);
        assert_eq!(
            result.map_err(|error| error.to_string()),
            expected,
            "{audiences:?} at {at}"
        );
    }
}

#[test]
fn tokens_of_the_kubelet_are_valid_longer_than_requested() {
    let issuer = issuer(US);
    let spec = json!({"expirationSeconds": 3607, "boundObjectRef": pod_ref()});
    let answer = ask(&issuer, &ObjectTable::new(), &json!({"spec": spec})).unwrap();
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-11-15T13:00:07Z"
    );
    let token = answer["status"]["token"].as_str().unwrap();
    let (claims, _) = issuer.verify(token, &[US.to_owned()], now()).unwrap();
    assert_eq!(claims.exp - claims.iat, 365 * 24 * 60 * 60);
    assert_eq!(claims.kubernetes.warnafter, Some(claims.iat + 3607));
}

#[test]
fn tokens_of_one_cluster_are_worth_nothing_in_another() {
    let (ours, other_issuer, other_key) = (
        issuer(US),
        issuer("https://127.0.0.1:6443/clusters/b"),
        issuer(US),
    );
    let token = token_for(&ours, &json!({}));
    let wanted = [US.to_owned()];
    assert_eq!(
        other_issuer.verify(&token, &wanted, now()),
        Err(TokenError::Unrecognized)
    );
    assert_eq!(
        other_key.verify(&token, &wanted, now()),
        Err(TokenError::UnknownKey)
    );
}

#[test]
fn forged_and_broken_tokens_are_refused() {
    let issuer = issuer(US);
    let wanted = [US.to_owned()];
    let token = token_for(&issuer, &json!({}));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    let mut claims: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    claims["sub"] = json!("system:serviceaccount:kube-system:root");
    let forged = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for (case, text, expected) in [
        (
            "other claims",
            format!("{header}.{forged}.{signature}"),
            TokenError::Signature,
        ),
        (
            "no signature",
            format!("{header}.{payload}."),
            TokenError::Signature,
        ),
        (
            "no algorithm",
            format!("{none}.{payload}.{signature}"),
            TokenError::Unrecognized,
        ),
        (
            "no header",
            format!(".{payload}.{signature}"),
            TokenError::Unrecognized,
        ),
        (
            "too many parts",
            format!("{token}.x"),
            TokenError::Unrecognized,
        ),
        ("no token", "é.é.é".to_owned(), TokenError::Unrecognized),
        ("nothing", String::new(), TokenError::Unrecognized),
    ] {
        assert_eq!(
            issuer.verify(&text, &wanted, now()),
            Err(expected),
            "{case}"
        );
    }
}

#[test]
fn the_public_key_is_published_and_the_private_one_is_not_shown() {
    let issuer = issuer(US);
    let key = &issuer.jwks()["keys"][0];
    for (field, expected) in [
        ("kty", "EC"),
        ("crv", "P-256"),
        ("alg", "ES256"),
        ("use", "sig"),
    ] {
        assert_eq!(key[field], expected, "{field}");
    }
    assert_eq!(key["kid"], issuer.key_id);
    assert!(key.get("d").is_none());
    let document = issuer.openid_configuration("https://x/openid/v1/jwks");
    assert_eq!(document["issuer"], US);
    assert_eq!(document["jwks_uri"], "https://x/openid/v1/jwks");
    let shown = format!("{issuer:?}");
    assert!(
        shown.starts_with("TokenIssuer { issuer") && !shown.contains("signing"),
        "{shown}"
    );
}
