//! waPC guests: their host functions, and an instance of its own for each request (docs/spec/admission.md#11).

use polity_wasm::{Operation, RunError, Stream};

use crate::support::{Echo, run, wapc};

/// Answers with its own request.
const MIRROR: &str = r#"(func (export "__guest_call") (param $op i32) (param $payload i32) (result i32)
    (call $request (i32.const 0) (i32.const 100))
    (call $response (i32.const 100) (local.get $payload))
    (i32.const 1))"#;

#[test]
fn a_request_goes_in_and_an_answer_comes_out() {
    let (outcome, heard) = run(&wapc(MIRROR), r#"{"request":1}"#);
    assert_eq!(outcome.as_deref(), Ok(r#"{"request":1}"#));
    assert!(heard.calls.is_empty());
}

#[test]
fn operations_have_their_names() {
    let module = wapc(
        r#"(func (export "__guest_call") (param $op i32) (param $payload i32) (result i32)
        (call $request (i32.const 0) (i32.const 100))
        (call $response (i32.const 0) (local.get $op))
        (i32.const 1))"#,
    );
    for (operation, name) in [
        (Operation::Validate, "validate"),
        (Operation::ValidateSettings, "validate_settings"),
        (Operation::ProtocolVersion, "protocol_version"),
    ] {
        let answer = module
            .run(
                operation,
                Vec::new(),
                polity_wasm::Deadline::NEVER,
                Box::new(Echo::default()),
            )
            .unwrap();
        assert_eq!(answer, name.as_bytes());
    }
}

#[test]
fn errors_of_the_guest_are_passed_on() {
    let with_text = wapc(
        r#"(data (i32.const 0) "went wrong")
        (func (export "__guest_call") (param i32 i32) (result i32)
          (call $error (i32.const 0) (i32.const 10)) (i32.const 0))"#,
    );
    assert_eq!(
        run(&with_text, "").0,
        Err(RunError::Guest("went wrong".to_owned()))
    );
    let silent =
        wapc(r#"(func (export "__guest_call") (param i32 i32) (result i32) (i32.const 0))"#);
    assert_eq!(
        run(&silent, "").0,
        Err(RunError::Guest("no reason given".to_owned()))
    );
}

#[test]
fn host_calls_answer_or_refuse() {
    let guest = |operation: &str| {
        wapc(&format!(
            r#"(data (i32.const 0) "kubewarden")
            (data (i32.const 16) "ns")
            (data (i32.const 32) "{operation}")
            (data (i32.const 64) "payload")
            (func (export "__guest_call") (param i32 i32) (result i32)
              (if (call $host_call (i32.const 0) (i32.const 10) (i32.const 16) (i32.const 2)
                    (i32.const 32) (i32.const {}) (i32.const 64) (i32.const 7))
                (then (call $host_response (i32.const 100))
                      (call $response (i32.const 100) (call $host_response_len)))
                (else (call $host_error (i32.const 100))
                      (call $response (i32.const 100) (call $host_error_len))))
              (i32.const 1))"#,
            operation.len()
        ))
    };
    let (outcome, heard) = run(&guest("echo"), "");
    assert_eq!(outcome.as_deref(), Ok("payload"));
    assert_eq!(heard.calls, ["kubewarden/ns/echo"]);
    let (outcome, _) = run(&guest("other"), "");
    assert_eq!(outcome.as_deref(), Ok("no other here"));
}

#[test]
fn nothing_survives_from_one_request_to_the_next() {
    let counter = wapc(
        r#"(global $n (mut i32) (i32.const 0))
        (table $t 1 10 funcref)
        (func (export "__guest_call") (param i32 i32) (result i32)
          (global.set $n (i32.add (global.get $n) (i32.const 1)))
          (i32.store (i32.const 5000) (i32.add (i32.load (i32.const 5000)) (global.get $n)))
          (drop (memory.grow (i32.const 1)))
          (drop (table.grow $t (ref.null func) (i32.const 1)))
          (i32.store8 (i32.const 0) (i32.add (i32.const 48) (i32.load (i32.const 5000))))
          (i32.store8 (i32.const 1) (i32.add (i32.const 48) (memory.size)))
          (i32.store8 (i32.const 2) (i32.add (i32.const 48) (table.size $t)))
          (call $response (i32.const 0) (i32.const 3))
          (i32.const 1))"#,
    );
    for _ in 0..20 {
        assert_eq!(run(&counter, "").0.as_deref(), Ok("132"));
    }
}

#[test]
fn start_functions_are_called_in_order() {
    let module = wapc(
        r#"(global $at (mut i32) (i32.const 0))
        (func $note (param i32)
          (i32.store8 (global.get $at) (local.get 0))
          (global.set $at (i32.add (global.get $at) (i32.const 1))))
        (func (export "wapc_init") (call $note (i32.const 99)))
        (func (export "_start") (call $note (i32.const 98)) (call $exit (i32.const 0)))
        (func (export "_initialize") (call $note (i32.const 97)))
        (func (export "__guest_call") (param i32 i32) (result i32)
          (call $response (i32.const 0) (global.get $at)) (i32.const 1))"#,
    );
    assert_eq!(run(&module, "").0.as_deref(), Ok("abc"));
}

#[test]
fn a_start_that_fails_is_reported() {
    let module = wapc(
        r#"(func (export "_start") (call $exit (i32.const 3)))
        (func (export "__guest_call") (param i32 i32) (result i32) (i32.const 1))"#,
    );
    assert!(matches!(
        run(&module, "").0,
        Err(RunError::Exit { code: 3, .. })
    ));
}

#[test]
fn what_is_printed_reaches_the_host() {
    let module = wapc(
        r#"(data (i32.const 0) "from console")
        (data (i32.const 100) "to stderr\n")
        (data (i32.const 200) "\64\00\00\00\0a\00\00\00")
        (func (export "__guest_call") (param i32 i32) (result i32)
          (call $log (i32.const 0) (i32.const 12))
          (drop (call $fd_write (i32.const 2) (i32.const 200) (i32.const 1) (i32.const 300)))
          (drop (call $fd_write (i32.const 1) (i32.const 200) (i32.const 1) (i32.const 300)))
          (i32.const 1))"#,
    );
    let (outcome, heard) = run(&module, "");
    assert_eq!(outcome.as_deref(), Ok(""));
    assert_eq!(
        heard.printed,
        [
            (Stream::Console, "from console".to_owned()),
            (Stream::Stdout, "to stderr".to_owned()),
            (Stream::Stderr, "to stderr".to_owned())
        ]
    );
}
