//! Every outcome of a request that is not about HTTP, on `/validate`, `/audit` and `/validate_raw`
//! (docs/spec/admission.md#8-4).

use polity_eval::{Environment, InitError, Origin};

use crate::support::{
    POD, answering, audit, command, environment, escaped, evaluate, policy, review, shown,
    try_policy, validate, validate_raw, wapc,
};

const OUT_OF_TIME: &str = r#"{"allowed":false,"status":{"code":500,"message":"Policy execution interrupted because it exceeded the allowed execution time"},"uid":"u-1"}"#;

/// The responses of the three routes. Raw requests have no uid here.
fn check(policy: &polity_eval::Policy, expected: &str) {
    let body = review("Pod", POD);
    assert_eq!(shown(&validate(policy, &body)), expected);
    assert_eq!(shown(&audit(policy, &body)), expected);
    let raw = validate_raw(policy, r#"{"uid":"u-1"}"#);
    assert_eq!(shown(&raw), expected);
}

#[test]
fn accepted() {
    let policy = policy(&answering(r#"{"accepted":true}"#), "");
    check(&policy, r#"{"allowed":true,"uid":"u-1"}"#);
    let evaluation = validate(&policy, &review("Pod", POD));
    assert!(evaluation.accepted && !evaluation.mutated && evaluation.error_code.is_none());
}

#[test]
fn rejected_by_the_policy() {
    let policy = policy(
        &answering(r#"{"accepted":false,"message":"no","code":418}"#),
        "",
    );
    check(
        &policy,
        r#"{"allowed":false,"status":{"code":418,"message":"no"},"uid":"u-1"}"#,
    );
    let evaluation = validate(&policy, &review("Pod", POD));
    assert!(!evaluation.accepted);
    assert_eq!(evaluation.error_code, Some(418));
}

#[test]
fn accepted_with_a_message_or_code() {
    let policy = policy(
        &answering(r#"{"accepted":true,"message":"but","code":201}"#),
        "",
    );
    check(
        &policy,
        r#"{"allowed":true,"status":{"code":201,"message":"but"},"uid":"u-1"}"#,
    );
}

#[test]
fn warnings_and_annotations_are_passed_on() {
    let answer = r#"{"accepted":true,"warnings":["w"],"audit_annotations":{"a":"b"}}"#;
    check(
        &policy(&answering(answer), ""),
        r#"{"allowed":true,"auditAnnotations":{"a":"b"},"uid":"u-1","warnings":["w"]}"#,
    );
}

#[test]
fn settings_refused() {
    let refusing = |message: &str| {
        let answer = format!(r#"{{"valid":false{message}}}"#);
        let text = format!(
            r#"(module
            (import "wapc" "__guest_response" (func $response (param i32 i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "{}")
            (func (export "__guest_call") (param i32 i32) (result i32)
              (call $response (i32.const 0) (i32.const {})) (i32.const 1)))"#,
            escaped(&answer),
            answer.len()
        );
        let module = crate::support::compile(&text, polity_eval::ExecutionMode::Wapc);
        try_policy(&module, "").unwrap_err().to_string()
    };
    assert_eq!(
        refusing(r#","message":"too loud""#),
        "Policy settings are invalid: too loud"
    );
    assert_eq!(refusing(""), "Policy settings are invalid: no message");
    assert_eq!(
        refusing(r#","message":null"#),
        "Policy settings are invalid: no message"
    );
}

#[test]
fn settings_that_cannot_be_checked() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "__guest_call") (param i32 i32) (result i32) unreachable))"#;
    let module = crate::support::compile(text, polity_eval::ExecutionMode::Wapc);
    let error = try_policy(&module, "").unwrap_err();
    assert!(matches!(error, InitError::Run(_)));
    assert!(
        error
            .to_string()
            .starts_with("cannot validate the settings: guest trapped"),
        "{error}"
    );
}

#[test]
fn a_command_refuses_settings_by_its_exit_code() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (data (i32.const 100) "too loud\n")
        (data (i32.const 0) "\64\00\00\00\09\00\00\00")
        (func (export "_start")
          (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
          (call $exit (i32.const 1))))"#;
    let module = crate::support::compile(text, polity_eval::ExecutionMode::Wasi);
    let error = try_policy(&module, "").unwrap_err();
    assert_eq!(error.to_string(), "Policy settings are invalid: too loud");
}

#[test]
fn out_of_time() {
    let endless = policy(
        &wapc("(func $validate (loop $l (br $l)))"),
        "timeoutEvalSeconds: 1",
    );
    let hurried = Environment {
        default_timeout: Some(std::time::Duration::from_millis(30)),
        ..environment()
    };
    let body = review("Pod", POD);
    assert_eq!(
        shown(&evaluate(&endless, &environment(), &body, Origin::Audit)),
        OUT_OF_TIME
    );
    let endless = policy(&wapc("(func $validate (loop $l (br $l)))"), "");
    assert_eq!(
        shown(&evaluate(&endless, &hurried, &body, Origin::Validate)),
        OUT_OF_TIME
    );
    let text = r#"(module
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 100) "{\"valid\":true}")
        (data (i32.const 0) "\64\00\00\00\0e\00\00\00")
        (func (export "_start")
          (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
          (drop (call $args_sizes (i32.const 16) (i32.const 20)))
          (if (i32.le_u (i32.load (i32.const 20)) (i32.const 21)) (then (loop $l (br $l))))))"#;
    let command = policy(
        &crate::support::compile(text, polity_eval::ExecutionMode::Wasi),
        "",
    );
    assert_eq!(
        shown(&evaluate(&command, &hurried, &body, Origin::Validate)),
        OUT_OF_TIME
    );
}

#[test]
fn trapped_errored_and_malformed() {
    for (module, detail) in [
        (
            wapc("(func $validate unreachable)"),
            "guest trapped: wasm trap: wasm `unreachable` instruction executed",
        ),
        (
            answering("what?"),
            "Cannot deserialize policy validation response: expected value at line 1 column 1",
        ),
        (
            answering(""),
            "Cannot deserialize policy validation response: EOF while parsing a value at line 1 column 0",
        ),
    ] {
        check(
            &policy(&module, ""),
            &format!(
                r#"{{"allowed":false,"status":{{"code":500,"message":"internal server error: {detail}"}},"uid":"u-1"}}"#
            ),
        );
    }
    let failing = crate::support::compile(
        r#"(module
        (import "wapc" "__guest_response" (func $response (param i32 i32)))
        (import "wapc" "__guest_error" (func $error (param i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "{\"valid\":true}")
        (data (i32.const 100) "cannot")
        (func (export "__guest_call") (param $op i32) (param i32) (result i32)
          (if (i32.ne (local.get $op) (i32.const 8))
            (then (call $response (i32.const 0) (i32.const 14)) (return (i32.const 1))))
          (call $error (i32.const 100) (i32.const 6)) (i32.const 0)))"#,
        polity_eval::ExecutionMode::Wapc,
    );
    check(
        &policy(&failing, ""),
        r#"{"allowed":false,"status":{"code":500,"message":"internal server error: guest call failed: cannot"},"uid":"u-1"}"#,
    );
}

#[test]
fn commands_accept_reject_and_fail() {
    check(
        &policy(&command(r#"{"accepted":true}"#, "", 0), ""),
        r#"{"allowed":true,"uid":"u-1"}"#,
    );
    check(
        &policy(&command("", "  out of ideas\n", 3), ""),
        r#"{"allowed":false,"status":{"code":500,"message":"out of ideas"},"uid":"u-1"}"#,
    );
    check(
        &policy(&command("", "", 3), ""),
        r#"{"allowed":false,"status":{"code":500,"message":"internal server error: guest exited with code 3"},"uid":"u-1"}"#,
    );
    check(
        &policy(&command("nonsense", "", 0), ""),
        r#"{"allowed":false,"status":{"code":500,"message":"internal server error: Cannot deserialize policy validation response: expected ident at line 1 column 2"},"uid":"u-1"}"#,
    );
}

const MUTATED: &str = r#"{"accepted":true,"warnings":["w"],"mutated_object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"containers":[]}}}"#;

#[test]
fn mutation_is_a_patch() {
    let policy = policy(&answering(MUTATED), "allowedToMutate: true");
    let evaluation = validate(&policy, &review("Pod", POD));
    // [{"op":"replace","path":"/metadata/name","value":"q"}]
    assert_eq!(
        shown(&evaluation),
        r#"{"allowed":true,"patch":"W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9tZXRhZGF0YS9uYW1lIiwidmFsdWUiOiJxIn1d","patchType":"JSONPatch","uid":"u-1","warnings":["w"]}"#
    );
    assert!(evaluation.accepted && evaluation.mutated);
}

#[test]
fn mutation_must_be_allowed() {
    let policy = policy(&answering(MUTATED), "");
    let evaluation = validate(&policy, &review("Pod", POD));
    assert_eq!(
        shown(&evaluation),
        r#"{"allowed":false,"status":{"message":"Request rejected by policy p. The policy attempted to mutate the request, but it is currently configured to not allow mutations."},"uid":"u-1","warnings":["w"]}"#
    );
    assert!(
        evaluation.accepted && evaluation.mutated,
        "the guest's verdict is counted"
    );
    assert!(
        audit(&policy, &review("Pod", POD)).response.patch.is_some(),
        "audit shows the raw result"
    );
}

#[test]
fn no_difference_is_no_patch() {
    let same = format!(r#"{{"accepted":true,"mutated_object":{POD}}}"#);
    let policy = policy(&answering(&same), "");
    assert_eq!(
        shown(&validate(&policy, &review("Pod", POD))),
        r#"{"allowed":true,"uid":"u-1"}"#
    );
}

#[test]
fn a_rejection_with_a_mutated_object_is_a_rejection() {
    let policy = policy(
        &answering(&MUTATED.replace("true", "false")),
        "allowedToMutate: true",
    );
    let evaluation = validate(&policy, &review("Pod", POD));
    assert!(
        !evaluation.response.allowed && evaluation.response.patch.is_none() && !evaluation.mutated
    );
}

#[test]
fn without_an_object_there_is_nothing_to_mutate() {
    let policy = policy(&answering(MUTATED), "allowedToMutate: true");
    let evaluation = validate(&policy, &review("Pod", "null"));
    assert_eq!(
        shown(&evaluation),
        r#"{"allowed":false,"status":{"message":"Request rejected by policy p. The policy attempted to mutate the request, but its object is null: mutation is impossible."},"uid":"u-1"}"#
    );
}

#[test]
fn raw_requests_are_mutated_as_a_whole() {
    let policy = policy(
        &answering(r#"{"accepted":true,"mutated_object":{"a":2}}"#),
        "allowedToMutate: true",
    );
    let evaluation = validate_raw(&policy, r#"{"a":1}"#);
    // [{"op":"replace","path":"/a","value":2}]
    assert_eq!(
        shown(&evaluation),
        r#"{"allowed":true,"patch":"W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9hIiwidmFsdWUiOjJ9XQ==","patchType":"JSONPatch","uid":""}"#
    );
}

#[test]
fn monitor_mode_lets_everything_pass() {
    let body = review("Pod", POD);
    let answer = r#"{"accepted":false,"message":"no","code":400,"warnings":["w"],"audit_annotations":{"a":"b"}}"#;
    let watched = policy(&answering(answer), "policyMode: monitor, message: custom");
    let evaluation = validate(&watched, &body);
    assert_eq!(
        shown(&evaluation),
        r#"{"allowed":true,"auditAnnotations":{"a":"b"},"uid":"u-1","warnings":["w"]}"#
    );
    assert!(!evaluation.accepted, "the true verdict is counted");
    assert!(!audit(&watched, &body).response.allowed, "audit shows it");
    let mutating = policy(&answering(MUTATED), "policyMode: monitor");
    assert_eq!(
        shown(&validate(&mutating, &body)),
        r#"{"allowed":true,"uid":"u-1","warnings":["w"]}"#
    );
}

#[test]
fn custom_messages_keep_the_original_as_a_cause() {
    let body = review("Pod", POD);
    let rejecting = policy(
        &answering(r#"{"accepted":false,"message":"no","code":418}"#),
        "message: not here",
    );
    assert_eq!(
        shown(&validate(&rejecting, &body)),
        r#"{"allowed":false,"status":{"code":418,"details":{"causes":[{"field":null,"message":"no","reason":null}]},"message":"not here"},"uid":"u-1"}"#
    );
    assert_eq!(audit(&rejecting, &body).response.message(), Some("no"));
    let silent = policy(&answering(r#"{"accepted":false}"#), "message: not here");
    assert_eq!(
        shown(&validate(&silent, &body)),
        r#"{"allowed":false,"status":{"message":"not here"},"uid":"u-1"}"#
    );
    let accepting = policy(
        &answering(r#"{"accepted":true,"message":"but"}"#),
        "message: not here",
    );
    assert_eq!(validate(&accepting, &body).response.message(), Some("but"));
    let mutating = policy(&answering(MUTATED), "message: not here");
    let evaluation = validate(&mutating, &body);
    assert_eq!(evaluation.response.message(), Some("not here"));
    let causes = evaluation.response.status.unwrap().details.unwrap().causes;
    assert!(
        causes[0]
            .message
            .as_deref()
            .unwrap()
            .starts_with("Request rejected by policy p.")
    );
}

#[test]
fn an_always_accepted_namespace_is_not_looked_at() {
    let rejecting = policy(&wapc("(func $validate unreachable)"), "");
    let lenient = Environment {
        always_accept_namespace: Some("default".to_owned()),
        ..environment()
    };
    let body = review("Pod", POD);
    for origin in [Origin::Validate, Origin::Audit] {
        assert_eq!(
            shown(&evaluate(&rejecting, &lenient, &body, origin)),
            r#"{"allowed":true,"uid":"u-1"}"#
        );
    }
    let elsewhere = body.replace("\"default\"", "\"other\"");
    assert!(
        !evaluate(&rejecting, &lenient, &elsewhere, Origin::Validate)
            .response
            .allowed
    );
}
