//! Which modules are taken and which are not, with the reason; and compiled code that is kept.

use polity_wasm::{CompiledCode, Engine, EngineOptions, ExecutionMode, Limits, LoadError, inspect};

use crate::support::{ENGINE, run, wapc_text};

const CALL: &str = r#"(func (export "__guest_call") (param i32 i32) (result i32) (i32.const 1))"#;

/// A waPC guest with the given metadata.
fn with_metadata(metadata: &str) -> Vec<u8> {
    let section = format!(
        "(@custom \"io.kubewarden.metadata\" \"{}\")",
        metadata.replace('"', "\\\"")
    );
    wat::parse_str(wapc_text(&format!("{CALL} {section}"))).unwrap()
}

fn refused(wasm: &[u8], mode: Option<ExecutionMode>) -> String {
    ENGINE.compile(wasm, mode).unwrap_err().to_string()
}

#[test]
fn metadata_decides() {
    let good = with_metadata(r#"{"protocolVersion":"v1","rules":[],"mutating":false}"#);
    let module = ENGINE.compile(&good, None).unwrap();
    assert_eq!(module.execution_mode(), ExecutionMode::Wapc);
    assert!(!module.metadata().unwrap().mutating);
    assert_eq!(module.digest().len(), 64);

    for (metadata, message) in [
        (
            r#"{"rules":[],"mutating":false}"#,
            "missing protocol version",
        ),
        (
            r#"{"protocolVersion":"Unknown","rules":[],"mutating":false}"#,
            "unknown protocol version",
        ),
        (
            r#"{"protocolVersion":"v1","rules":[],"mutating":false,"executionMode":"opa"}"#,
            "policies with execution mode opa are not supported yet: only kubewarden-wapc and wasi are",
        ),
        (
            r#"{"rules":[],"mutating":false,"executionMode":"ferricel"}"#,
            "policies with execution mode ferricel are not supported yet: only kubewarden-wapc and wasi are",
        ),
        (
            r#"{"protocolVersion":"v1","rules":[],"mutating":false,"minimumKubewardenVersion":"1.40.0"}"#,
            "Policy required Kubewarden version 1.40.0 but is running on 1.39.0",
        ),
        ("{}", "cannot read the policy metadata"),
    ] {
        assert_eq!(
            refused(&with_metadata(metadata), None),
            message,
            "{metadata}"
        );
    }
    let same_minor = r#"{"protocolVersion":"v1","rules":[],"mutating":false,"minimumKubewardenVersion":"1.39.7"}"#;
    assert!(ENGINE.compile(&with_metadata(same_minor), None).is_ok());
}

#[test]
fn the_first_metadata_section_counts() {
    let first = r#"(@custom "io.kubewarden.metadata" "{\"rules\":[],\"mutating\":true}")"#;
    let second = r#"(@custom "io.kubewarden.metadata" "nonsense")"#;
    let wasm = wat::parse_str(wapc_text(&format!("{CALL} {first} {second}"))).unwrap();
    assert!(
        inspect(&wasm, &Limits::default())
            .unwrap()
            .metadata
            .unwrap()
            .mutating
    );
}

#[test]
fn modules_without_metadata_need_a_mode_by_hand() {
    let wasm = wat::parse_str(wapc_text(CALL)).unwrap();
    assert_eq!(refused(&wasm, None), "missing protocol version");
    assert!(ENGINE.compile(&wasm, Some(ExecutionMode::Wapc)).is_ok());
    let rego = wat::parse_str(r#"(module (func (export "opa_eval")))"#).unwrap();
    assert!(refused(&rego, None).contains("execution mode opa"));
}

#[test]
fn shapes_that_are_refused() {
    for (text, message) in [
        (
            r#"(module (import "env" "abort" (func)) (memory (export "memory") 1))"#,
            "module imports unknown function env.abort",
        ),
        (
            r#"(module (import "wasi_snapshot_preview1" "fd_dance" (func)) (memory (export "memory") 1))"#,
            "module imports unknown function wasi_snapshot_preview1.fd_dance",
        ),
        (
            r#"(module (func (export "__guest_call")))"#,
            "module does not export memory",
        ),
        (
            r#"(module (memory (export "memory") 1))"#,
            "module does not export __guest_call",
        ),
        (
            r#"(module (memory (export "memory") 300))"#,
            "module has 19660800 bytes of initial memory, more than the limit of 16777216",
        ),
        (
            "(module (memory 1) (memory 1))",
            "module has 2 memories, more than the limit of 1",
        ),
        (
            "(module (table 300000 funcref))",
            "module has 300000 table elements, more than the limit of 200000",
        ),
    ] {
        let wasm = wat::parse_str(text).unwrap();
        assert_eq!(refused(&wasm, Some(ExecutionMode::Wapc)), message, "{text}");
    }
    let command = wat::parse_str(r#"(module (memory (export "memory") 1))"#).unwrap();
    assert_eq!(
        refused(&command, Some(ExecutionMode::Wasi)),
        "module does not export _start"
    );
}

#[test]
fn garbage_is_no_module() {
    let good = wat::parse_str(wapc_text(CALL)).unwrap();
    let mode = Some(ExecutionMode::Wapc);
    for bytes in [
        &b""[..],
        b"\0asm",
        b"#!/bin/sh",
        &good[..good.len() / 2],
        &good[..good.len() - 1],
    ] {
        assert!(
            matches!(ENGINE.compile(bytes, mode), Err(LoadError::Malformed(_))),
            "{} bytes",
            bytes.len()
        );
    }
    let component = b"\0asm\x0d\0\x01\0";
    assert!(matches!(
        ENGINE.compile(component, mode),
        Err(LoadError::Component)
    ));
    let invalid = wat::parse_str(wapc_text(
        r#"(func (export "__guest_call") (param i32 i32) (result i32) (i64.const 1))"#,
    ))
    .unwrap();
    assert!(matches!(
        ENGINE.compile(&invalid, mode),
        Err(LoadError::Compile(_))
    ));
    let wrong_signature = wat::parse_str(
        r#"(module (import "wapc" "__guest_request" (func (param i64))) (memory (export "memory") 1)
            (func (export "__guest_call")))"#,
    )
    .unwrap();
    assert!(matches!(
        ENGINE.compile(&wrong_signature, mode),
        Err(LoadError::Compile(_))
    ));
}

#[test]
fn files_have_a_limit() {
    let limits = Limits {
        module_size: 10,
        ..Limits::default()
    };
    let error = inspect(&[0; 11], &limits).unwrap_err();
    assert!(matches!(
        error,
        LoadError::TooLarge {
            size: 11,
            limit: 10
        }
    ));
}

#[test]
fn compiled_code_is_taken_up_again() {
    let wasm = with_metadata(r#"{"protocolVersion":"v1","rules":[],"mutating":true}"#);
    let module = ENGINE.compile(&wasm, None).unwrap();
    let kept = module.compiled_code().unwrap().as_bytes().to_vec();
    let again = ENGINE.load(&CompiledCode::vouched_for(kept)).unwrap();
    assert_eq!(again.inspection(), module.inspection());
    assert!(run(&again, "").0.is_ok());
}

#[test]
fn compiled_code_of_another_engine_is_refused() {
    let wasm = with_metadata(r#"{"protocolVersion":"v1","rules":[],"mutating":true}"#);
    let kept = ENGINE
        .compile(&wasm, None)
        .unwrap()
        .compiled_code()
        .unwrap()
        .as_bytes()
        .to_vec();
    let text = String::from_utf8_lossy(&kept[..100]).into_owned();
    assert!(text.contains(ENGINE.compatibility()), "{text}");
    let mut other = kept.clone();
    let at = text.find(ENGINE.compatibility()).unwrap();
    other[at] = if other[at] == b'0' { b'1' } else { b'0' };
    for bytes in [other, Vec::new(), b"{}\n".to_vec(), kept[..200].to_vec()] {
        let error = ENGINE.load(&CompiledCode::vouched_for(bytes)).unwrap_err();
        assert!(matches!(error, LoadError::Incompatible(_)), "{error}");
    }
}

#[test]
fn engines_with_the_same_settings_share_code() {
    let roomy = Engine::new(&EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    })
    .unwrap();
    let wasm = with_metadata(r#"{"protocolVersion":"v1","rules":[],"mutating":true}"#);
    let code = ENGINE
        .compile(&wasm, None)
        .unwrap()
        .compiled_code()
        .unwrap();
    assert_eq!(
        roomy.compatibility(),
        ENGINE.compatibility(),
        "limits are no part of the code"
    );
    assert!(roomy.load(&code).is_ok());
}
