//! Guests with configurable responses, and policies that use them.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use polity_eval::{
    AdmissionReview, Deadline, Engine, EngineOptions, Environment, Evaluation, ExecutionMode,
    InitError, Module, NoServices, Origin, Policy, RawReview, Services, parse_policies,
};

pub(crate) static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(&EngineOptions::default()).unwrap());

pub(crate) const POD: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[]}}"#;

/// An admission review of a CREATE of `object`.
pub(crate) fn review(kind: &str, object: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-1",
        "kind":{{"group":"","version":"v1","kind":"{kind}"}},"resource":{{"group":"","version":"v1","resource":"x"}},
        "name":"p","namespace":"default","operation":"CREATE","userInfo":{{"username":"ann"}},"object":{object}}}}}"#
    )
}

/// A waPC guest that accepts its settings and always returns the same response.
pub(crate) fn answering(answer: &str) -> Module {
    wapc(&format!(
        r#"(data (i32.const 0) "{}")
        (func $validate (call $response (i32.const 0) (i32.const {})))"#,
        escaped(answer),
        answer.len()
    ))
}

/// A waPC guest with this `$validate` function. It accepts all settings.
pub(crate) fn wapc(functions: &str) -> Module {
    let text = format!(
        r#"(module
  (import "wapc" "__guest_request" (func $request (param i32 i32)))
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (import "wapc" "__guest_error" (func $error (param i32 i32)))
  (import "wapc" "__host_call" (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wapc" "__host_response_len" (func $host_response_len (result i32)))
  (import "wapc" "__host_response" (func $host_response (param i32)))
  (import "wapc" "__host_error_len" (func $host_error_len (result i32)))
  (import "wapc" "__host_error" (func $host_error (param i32)))
  (memory (export "memory") 4)
  (data (i32.const 65000) "{{\"valid\":true}}")
  (func (export "__guest_call") (param $op i32) (param i32) (result i32)
    ;; "validate" has eight letters, "validate_settings" more.
    (if (i32.eq (local.get $op) (i32.const 8))
      (then (call $validate))
      (else (call $response (i32.const 65000) (i32.const 14))))
    (i32.const 1))
  {functions})"#
    );
    compile(&text, ExecutionMode::Wapc)
}

/// A WASI guest that prints one response, or to standard error, and exits with a code.
pub(crate) fn command(stdout: &str, stderr: &str, code: i32) -> Module {
    let text = format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 1000) "{{\"valid\":true}}")
  (data (i32.const 2000) "{}")
  (data (i32.const 3000) "{}")
  (func $print (param $fd i32) (param $ptr i32) (param $len i32)
    (i32.store (i32.const 0) (local.get $ptr))
    (i32.store (i32.const 4) (local.get $len))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $args_sizes (i32.const 16) (i32.const 20)))
    ;; "policy.wasm validate" is shorter than "policy.wasm validate-settings".
    (if (i32.gt_u (i32.load (i32.const 20)) (i32.const 21))
      (then (call $print (i32.const 1) (i32.const 1000) (i32.const 14)) (return)))
    (call $print (i32.const 1) (i32.const 2000) (i32.const {}))
    (call $print (i32.const 2) (i32.const 3000) (i32.const {}))
    (call $exit (i32.const {code}))))"#,
        escaped(stdout),
        escaped(stderr),
        stdout.len(),
        stderr.len()
    );
    compile(&text, ExecutionMode::Wasi)
}

pub(crate) fn compile(text: &str, mode: ExecutionMode) -> Module {
    ENGINE
        .compile(&wat::parse_str(text).unwrap(), Some(mode))
        .unwrap()
}

pub(crate) fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("\\{byte:02x}")).collect()
}

/// A policy `p` of one module, with more fields of its entry.
pub(crate) fn policy(module: &Module, fields: &str) -> Policy {
    try_policy(module, fields).unwrap()
}

pub(crate) fn try_policy(module: &Module, fields: &str) -> Result<Policy, InitError> {
    let text = format!("p: {{module: m, {fields}}}");
    let config = parse_policies(&text).unwrap().remove("p").unwrap();
    Policy::prepare("p", &config, &environment(), |_, _| Ok(module.clone()))
}

pub(crate) fn environment() -> Environment {
    with_services(NoServices)
}

pub(crate) fn with_services(services: impl Services + 'static) -> Environment {
    Environment::new(Arc::new(services))
}

pub(crate) fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

pub(crate) fn validate(policy: &Policy, body: &str) -> Evaluation {
    evaluate(policy, &environment(), body, Origin::Validate)
}

pub(crate) fn audit(policy: &Policy, body: &str) -> Evaluation {
    evaluate(policy, &environment(), body, Origin::Audit)
}

pub(crate) fn evaluate(
    policy: &Policy,
    environment: &Environment,
    body: &str,
    origin: Origin,
) -> Evaluation {
    let review = AdmissionReview::parse(body.as_bytes()).unwrap();
    policy.evaluate(environment, &review.request, origin, deadline())
}

pub(crate) fn validate_raw(policy: &Policy, request: &str) -> Evaluation {
    let body = format!("{{\"request\":{request}}}");
    policy.evaluate_raw(
        &environment(),
        &RawReview::parse(body.as_bytes()).unwrap(),
        deadline(),
    )
}

/// The response as JSON without null members.
pub(crate) fn shown(evaluation: &Evaluation) -> String {
    let mut value = serde_json::to_value(&evaluation.response).unwrap();
    value
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    value.to_string()
}
