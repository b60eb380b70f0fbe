//! Every outcome of a request, over HTTP, on `/validate`, `/audit` and `/validate_raw` (docs/spec/admission.md#8-4).

use std::time::Duration;

use base64::Engine as _;
use http::Method;
use serde_json::json;

use crate::support::{Running, Server, answering, exiting, request, review, wapc};

const ROUTES: [&str; 3] = ["/validate/p", "/audit/p", "/validate_raw/p"];

/// A server whose policy `p` is one guest, with more fields of its entry.
fn one(guest: &str, fields: &str) -> Running {
    Server::new(&format!("p: {{module: m, {fields}}}"), &[("m", guest)]).start()
}

/// What all three routes answer.
async fn check(server: &Running, expected: &str) {
    for route in ROUTES {
        assert_eq!(server.judge(route).await, expected, "{route}");
    }
}

/// What `/validate` and `/validate_raw` answer, and what `/audit` does.
async fn check_apart(server: &Running, validate: &str, audit: &str) {
    assert_eq!(server.judge("/validate/p").await, validate);
    assert_eq!(server.judge("/validate_raw/p").await, validate);
    assert_eq!(server.judge("/audit/p").await, audit);
}

/// A refusal with code 500.
fn error(message: &str) -> String {
    json!({"allowed":false,"status":{"code":500,"message":message},"uid":"u-1"}).to_string()
}

#[tokio::test]
async fn accepted() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    check(&server, r#"{"allowed":true,"uid":"u-1"}"#).await;
}

#[tokio::test]
async fn response_bodies_have_the_fields_of_an_admission_review() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    let answer = server.post("/validate/p", review("")).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(
        answer.text,
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u-1","allowed":true,"auditAnnotations":null,"warnings":null}}"#
    );
    let answer = server.post("/validate_raw/p", r#"{"request":[1]}"#).await;
    assert_eq!(
        answer.text,
        r#"{"response":{"uid":"","allowed":true,"auditAnnotations":null,"warnings":null}}"#
    );
}

#[tokio::test]
async fn rejected_by_the_policy() {
    let server = one(
        &answering(r#"{"accepted":false,"message":"no","code":418}"#),
        "",
    );
    check(
        &server,
        r#"{"allowed":false,"status":{"code":418,"message":"no"},"uid":"u-1"}"#,
    )
    .await;
}

#[tokio::test]
async fn accepted_with_a_message_or_code() {
    let server = one(
        &answering(r#"{"accepted":true,"message":"but","code":201}"#),
        "",
    );
    check(
        &server,
        r#"{"allowed":true,"status":{"code":201,"message":"but"},"uid":"u-1"}"#,
    )
    .await;
}

#[tokio::test]
async fn unknown_policy_id_or_generation_not_served() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    for (path, id) in [
        ("/validate/x", "x"),
        ("/audit/x", "x"),
        ("/validate/p%2Fm", "p/m"),
        ("/validate/p/1", "p"),
        ("/audit/p/1", "p"),
    ] {
        let answer = server.post(path, review("")).await;
        let expected = json!({"message": format!("unknown policy: {id}"), "status": 404});
        assert_eq!((answer.status, answer.json()), (404, expected), "{path}");
    }
    let answer = server.post("/validate_raw/x", r#"{"request":{}}"#).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn policy_failed_to_initialise() {
    let refusing = r#"(module
        (import "wapc" "__guest_response" (func $response (param i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "{\"valid\":false,\"message\":\"too loud\"}")
        (func (export "__guest_call") (param i32 i32) (result i32)
          (call $response (i32.const 0) (i32.const 36)) (i32.const 1)))"#;
    let server = one(refusing, "");
    check(&server, &error("Policy settings are invalid: too loud")).await;
    let server = Server::new("p: {module: elsewhere}", &[]).start();
    check(
        &server,
        &error("Error while downloading policy 'p' from elsewhere: it is not there"),
    )
    .await;
}

#[tokio::test]
async fn a_group_with_a_member_that_failed_has_failed() {
    let file = "g: {expression: 'm()', message: refused, policies: {m: {module: elsewhere}}}";
    let server = Server::new(file, &[]).start();
    let expected = error("g/m: Error while downloading policy 'm' from elsewhere: it is not there");
    assert_eq!(server.judge("/validate/g").await, expected);
    assert_eq!(server.judge("/validate/g%2Fm").await, expected);
}

#[tokio::test]
async fn guest_ran_out_of_time() {
    let expected =
        error("Policy execution interrupted because it exceeded the allowed execution time");
    let mut server = Server::new(
        "p: {module: m}",
        &[("m", &wapc("(func $validate (loop $l (br $l)))"))],
    );
    server.environment.default_timeout = Some(Duration::from_millis(30));
    check(&server.start(), &expected).await;
}

#[tokio::test]
async fn a_request_that_must_be_quick_cuts_its_guest_short() {
    let server = one(&wapc("(func $validate (loop $l (br $l)))"), "");
    let answer = server.post("/validate/p?timeout=0.05s", review("")).await;
    let expected =
        error("Policy execution interrupted because it exceeded the allowed execution time");
    assert_eq!(answer.response(), expected);
}

/// A guest that reports an error itself.
const FAILING: &str = r#"(module
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (import "wapc" "__guest_error" (func $error (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\"valid\":true}oh dear")
  (func (export "__guest_call") (param $op i32) (param i32) (result i32)
    (if (result i32) (i32.eq (local.get $op) (i32.const 8))
      (then (call $error (i32.const 14) (i32.const 7)) (i32.const 0))
      (else (call $response (i32.const 0) (i32.const 14)) (i32.const 1)))))"#;

#[tokio::test]
async fn guest_trapped_returned_an_error_or_malformed_json() {
    for (guest, detail) in [
        (
            wapc("(func $validate unreachable)"),
            "guest trapped: wasm trap: wasm `unreachable` instruction executed",
        ),
        (
            answering(r#"{"accepted""#),
            "Cannot deserialize policy validation response: EOF while parsing an object at line 1 column 11",
        ),
        (FAILING.to_owned(), "guest call failed: oh dear"),
    ] {
        check(
            &one(&guest, ""),
            &error(&format!("internal server error: {detail}")),
        )
        .await;
    }
}

#[tokio::test]
async fn wasi_guest_exits_non_zero() {
    check(&one(&exiting(" no way ", 3), ""), &error("no way")).await;
}

/// A guest that adds a label, and what it leads from; raw requests are changed as a whole.
const MUTATING: &str = r#"{"accepted":true,"mutated_object":{"uid":"u-1","more":1}}"#;

#[tokio::test]
async fn guest_mutates_and_may() {
    let server = one(&answering(MUTATING), "allowedToMutate: true");
    let answer = server
        .post("/validate_raw/p", r#"{"request":{"uid":"u-1"}}"#)
        .await;
    let response = &answer.json()["response"];
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    assert_eq!(
        String::from_utf8(patch).unwrap(),
        r#"[{"op":"add","path":"/more","value":1}]"#
    );
}

#[tokio::test]
async fn guest_mutates_not_allowed() {
    let server = one(&answering(MUTATING), "");
    let refused = json!({"allowed":false,"status":{"message":"Request rejected by policy p. The policy attempted to mutate the request, but it is currently configured to not allow mutations."},"uid":"u-1"});
    assert_eq!(server.judge("/validate/p").await, refused.to_string());
    assert_eq!(server.judge("/validate_raw/p").await, refused.to_string());
    // Whoever audits learns what the guest wanted.
    let audit = server.judge("/audit/p").await;
    assert!(
        audit.contains(r#""allowed":true"#) && audit.contains("JSONPatch"),
        "{audit}"
    );
}

#[tokio::test]
async fn guest_mutates_request_has_no_object() {
    let server = one(&answering(MUTATING), "allowedToMutate: true");
    let body = review("").replace(
        r#""object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#,
        r#""object":null"#,
    );
    for route in ["/validate/p", "/audit/p"] {
        let answer = server.post(route, body.clone()).await;
        let expected = json!({"allowed":false,"status":{"message":"Request rejected by policy p. The policy attempted to mutate the request, but its object is null: mutation is impossible."},"uid":"u-1"});
        assert_eq!(answer.response(), expected.to_string(), "{route}");
    }
}

#[tokio::test]
async fn monitor_mode() {
    let answer = r#"{"accepted":false,"message":"no","code":400,"warnings":["w"],"audit_annotations":{"a":"b"}}"#;
    let server = one(&answering(answer), "policyMode: monitor");
    check_apart(
        &server,
        r#"{"allowed":true,"auditAnnotations":{"a":"b"},"uid":"u-1","warnings":["w"]}"#,
        r#"{"allowed":false,"auditAnnotations":{"a":"b"},"status":{"code":400,"message":"no"},"uid":"u-1","warnings":["w"]}"#,
    )
    .await;
}

#[tokio::test]
async fn a_message_of_the_policy_replaces_that_of_the_guest() {
    let server = one(
        &answering(r#"{"accepted":false,"message":"no","code":400}"#),
        "message: ask the platform team",
    );
    check_apart(
        &server,
        r#"{"allowed":false,"status":{"code":400,"details":{"causes":[{"field":null,"message":"no","reason":null}]},"message":"ask the platform team"},"uid":"u-1"}"#,
        r#"{"allowed":false,"status":{"code":400,"message":"no"},"uid":"u-1"}"#,
    )
    .await;
}

#[tokio::test]
async fn always_accept_namespace() {
    let mut server = Server::new(
        "p: {module: m}\nbroken: {module: elsewhere}",
        &[("m", &answering(r#"{"accepted":false}"#))],
    );
    server.environment.always_accept_namespace = Some("default".to_owned());
    let server = server.start();
    let accepted = r#"{"allowed":true,"uid":"u-1"}"#;
    for route in ["/validate/p", "/audit/p", "/validate/broken"] {
        assert_eq!(server.judge(route).await, accepted, "{route}");
    }
    let elsewhere = review("").replace("\"namespace\":\"default\"", "\"namespace\":\"other\"");
    let answer = server.post("/validate/p", elsewhere).await;
    assert_eq!(answer.response(), r#"{"allowed":false,"uid":"u-1"}"#);
    assert_eq!(server.post("/validate/x", review("")).await.status, 404);
}

#[tokio::test]
async fn group_rejected() {
    let file = "g:
  expression: content() && (opposed() || mutates())
  message: not like this
  policies: {content: {module: content}, opposed: {module: opposed}, mutates: {module: mutates}}";
    let guests = [
        ("content", answering(r#"{"accepted":true}"#)),
        (
            "opposed",
            answering(r#"{"accepted":false,"message":"because","code":400}"#),
        ),
        ("mutates", answering(MUTATING)),
    ];
    let guests: Vec<(&str, &str)> = guests
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let server = Server::new(file, &guests).start();
    let rejected = json!({"allowed":false,"status":{"details":{"causes":[
        {"field":"spec.policies.mutates","message":"mutation is not allowed inside of policy group","reason":null},
        {"field":"spec.policies.opposed","message":"because","reason":null}]},"message":"not like this"},"uid":"u-1"});
    for route in ["/validate/g", "/audit/g", "/validate_raw/g"] {
        assert_eq!(server.judge(route).await, rejected.to_string(), "{route}");
    }
    // A member alone, with its slash encoded.
    let alone = r#"{"allowed":false,"status":{"code":400,"message":"because"},"uid":"u-1"}"#;
    assert_eq!(server.judge("/validate/g%2Fopposed").await, alone);
}

#[tokio::test]
async fn any_other_internal_error() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    let expected = json!({"message":"Something went wrong","status":500});
    for (path, body) in [
        ("/validate/a%2Fb%2Fc", review("")),
        ("/audit/a%2Fb%2Fc", review("")),
        ("/validate_raw/a%2Fb%2Fc", r#"{"request":1}"#.to_owned()),
    ] {
        let answer = server.post(path, body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (500, expected.clone()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn json_syntax_error_and_wrong_shape() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    for route in ROUTES {
        for (body, status) in [
            ("", 400),
            ("{", 400),
            ("nonsense", 400),
            ("{}", 422),
            ("[]", 422),
            ("3", 422),
        ] {
            let answer = server.post(route, body).await;
            assert_eq!(answer.status, status, "{route} {body}");
            let json = answer.json();
            assert_eq!(json["status"], status);
            assert!(json["message"].is_string());
        }
    }
    let answer = server.post("/validate/p", r#"{"request":{}}"#).await;
    assert_eq!(answer.status, 422);
}

#[tokio::test]
async fn no_content_type_of_json() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    for route in ROUTES {
        for (media_type, status) in [
            (None, 415),
            (Some("text/plain"), 415),
            (Some("application/yaml"), 415),
            (Some("application/jsonp"), 415),
            (Some("json"), 415),
            (Some("application/json"), 200),
            (Some("application/json; charset=utf-8"), 200),
            (Some("Application/JSON"), 200),
            (Some("application/vnd.x+json"), 200),
        ] {
            let mut request = request(Method::POST, route, crate::support::body_for(route));
            request.headers_mut().remove("content-type");
            if let Some(media_type) = media_type {
                let value = media_type.parse().unwrap();
                request.headers_mut().insert("content-type", value);
            }
            let answer = server.send(request).await;
            assert_eq!(answer.status, status, "{route} {media_type:?}");
            if status == 415 {
                assert_eq!(answer.json()["status"], 415);
            }
        }
    }
}

#[tokio::test]
async fn body_larger_than_the_limit() {
    let mut server = Server::new(
        "p: {module: m}",
        &[("m", &answering(r#"{"accepted":true}"#))],
    );
    server.limits.body = 1000;
    let server = server.start();
    for route in ROUTES {
        let answer = server.post(route, " ".repeat(1001)).await;
        assert_eq!(
            (answer.status, answer.json()["status"].as_u64()),
            (413, Some(413)),
            "{route}"
        );
    }
}

#[tokio::test]
async fn other_method_and_unknown_path() {
    let server = one(&answering(r#"{"accepted":true}"#), "");
    for (method, path, status) in [
        (Method::GET, "/validate/p", 405),
        (Method::PUT, "/audit/p", 405),
        (Method::DELETE, "/validate_raw/p", 405),
        (Method::POST, "/", 404),
        (Method::POST, "/validate", 404),
        (Method::POST, "/validate/", 404),
        (Method::POST, "/validate/g/m", 404),
        (Method::GET, "/metrics", 404),
        (Method::GET, "/debug/pprof/cpu", 404),
    ] {
        let answer = server.send(request(method.clone(), path, "")).await;
        assert_eq!(
            (answer.status, answer.text.as_str()),
            (status, ""),
            "{method} {path}"
        );
    }
}
