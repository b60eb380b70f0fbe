//! WASI guests: commands with arguments, standard streams and host calls (docs/spec/admission.md#13).

use polity_wasm::{Deadline, Operation, RunError, Stream};

use crate::support::{Echo, run, wasi};

/// Copies standard input to standard output.
const CAT: &str = r#"(data (i32.const 0) "\00\01\00\00\00\04\00\00")
    (func $cat
      (block $done (loop $more
        (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
        (br_if $done (i32.eqz (i32.load (i32.const 16))))
        (i32.store (i32.const 8) (i32.const 256))
        (i32.store (i32.const 12) (i32.load (i32.const 16)))
        (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 20)))
        (br $more))))"#;

#[test]
fn input_and_output() {
    let module = wasi(&format!(r#"{CAT} (func (export "_start") (call $cat))"#));
    let payload = "x".repeat(5000);
    assert_eq!(run(&module, &payload).0.as_deref(), Ok(&*payload));
    let exits = wasi(&format!(
        r#"{CAT} (func (export "_start") (call $cat) (call $exit (i32.const 0)))"#
    ));
    assert_eq!(run(&exits, "ok").0.as_deref(), Ok("ok"));
}

#[test]
fn arguments() {
    let module = wasi(
        r#"(func (export "_start")
          (drop (call $args_sizes (i32.const 0) (i32.const 4)))
          (drop (call $args_get (i32.const 16) (i32.const 256)))
          (i32.store (i32.const 8) (i32.const 256))
          (i32.store (i32.const 12) (i32.load (i32.const 4)))
          (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 100))))"#,
    );
    for (operation, words) in [
        (Operation::Validate, "policy.wasm\0validate\0"),
        (
            Operation::ValidateSettings,
            "policy.wasm\0validate-settings\0",
        ),
    ] {
        let answer = module
            .run(
                operation,
                Vec::new(),
                Deadline::NEVER,
                Box::new(Echo::default()),
            )
            .unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), words);
    }
    let answer = module.run(
        Operation::ProtocolVersion,
        Vec::new(),
        Deadline::NEVER,
        Box::new(Echo::default()),
    );
    assert!(matches!(answer, Err(RunError::NoSuchOperation { .. })));
}

#[test]
fn a_code_other_than_zero_comes_with_stderr() {
    let module = wasi(
        r#"(data (i32.const 100) "  not today\n")
        (data (i32.const 200) "\64\00\00\00\0c\00\00\00")
        (func (export "_start")
          (drop (call $fd_write (i32.const 2) (i32.const 200) (i32.const 1) (i32.const 300)))
          (call $exit (i32.const 7)))"#,
    );
    let (outcome, heard) = run(&module, "");
    assert_eq!(
        outcome,
        Err(RunError::Exit {
            code: 7,
            stderr: "not today".to_owned()
        })
    );
    assert_eq!(heard.printed, [(Stream::Stderr, "not today".to_owned())]);
}

#[test]
fn host_calls_append_to_standard_input() {
    let guest = |operation: &str| {
        wasi(&format!(
            r#"{CAT}
            (data (i32.const 1000) "kubewarden")
            (data (i32.const 1016) "ns")
            (data (i32.const 1032) "{operation}")
            (data (i32.const 1064) "[payload]")
            (func (export "_start")
              (call $cat)
              (i32.store8 (i32.const 256) (i32.add (i32.const 48)
                (call $call (i32.const 1000) (i32.const 10) (i32.const 1016) (i32.const 2)
                  (i32.const 1032) (i32.const {}) (i32.const 1064) (i32.const 9))))
              (i32.store (i32.const 8) (i32.const 256))
              (i32.store (i32.const 12) (i32.const 1))
              (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 20)))
              (call $cat))"#,
            operation.len()
        ))
    };
    assert_eq!(run(&guest("echo"), "in:").0.as_deref(), Ok("in:0[payload]"));
    assert_eq!(
        run(&guest("other"), "in:").0.as_deref(),
        Ok("in:1no other here")
    );
}

#[test]
fn the_long_import_name_works_too() {
    let text = crate::support::wasi_text(r#"(func (export "_start"))"#)
        .replace("\"host\"", "\"kubewarden:javy/host\"");
    let module = crate::support::compile(&text, polity_wasm::ExecutionMode::Wasi);
    assert_eq!(run(&module, "").0.as_deref(), Ok(""));
}

#[test]
fn clocks_go_forward() {
    let module = wasi(
        r#"(func (export "_start")
          (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 0)))
          (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 8)))
          (loop $wait
            (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 16)))
            (br_if $wait (i64.eq (i64.load (i32.const 8)) (i64.load (i32.const 16)))))
          ;; After the year 2020.
          (if (i64.lt_u (i64.load (i32.const 0)) (i64.const 1577836800000000000)) (then unreachable))
          (if (i64.lt_u (i64.load (i32.const 16)) (i64.load (i32.const 8))) (then unreachable)))"#,
    );
    assert_eq!(run(&module, "").0.as_deref(), Ok(""));
}
