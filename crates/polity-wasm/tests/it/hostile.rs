//! Guests that mean no good: each is stopped, told apart, and hurts nobody else.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use polity_wasm::{Deadline, Engine, EngineOptions, ExecutionMode, Module, RunError};

use crate::support::{ENGINE, options, run, run_within, wapc, wapc_text, wasi};

const GUEST_CALL: &str = r#"func (export "__guest_call") (param i32 i32) (result i32)"#;

fn hostile(body: &str) -> Module {
    wapc(&format!("({GUEST_CALL} {body})"))
}

fn good() -> Module {
    wapc(&format!(
        r#"(data (i32.const 0) "fine")
        ({GUEST_CALL} (call $response (i32.const 0) (i32.const 4)) (i32.const 1))"#
    ))
}

fn outcome(module: &Module) -> Result<String, RunError> {
    run(module, "").0
}

const SOON: Duration = Duration::from_millis(50);

/// One subscription of all zeros waits on the clock; its timeout is an hour.
const SLEEP_FOR_AN_HOUR: &str = "(i64.store (i32.const 24) (i64.const 3600000000000))
    (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))
    (i32.const 1)";

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    for module in [
        hostile("(loop $l (br $l)) (i32.const 1)"),
        wapc(&format!(
            r#"(func (export "wapc_init") (loop $l (br $l))) ({GUEST_CALL} (i32.const 1))"#
        )),
        wapc(&format!(
            "(func $s (loop $l (br $l))) (start $s) ({GUEST_CALL} (i32.const 1))"
        )),
        wasi(r#"(func (export "_start") (loop $l (br $l)))"#),
    ] {
        let outcome = run_within(&module, "", Deadline::after(SOON)).0;
        assert_eq!(outcome, Err(RunError::Deadline { limit: SOON }));
    }
}

#[test]
fn a_sleeper_wakes_at_the_deadline() {
    let outcome = run_within(&hostile(SLEEP_FOR_AN_HOUR), "", Deadline::after(SOON)).0;
    assert_eq!(outcome, Err(RunError::Deadline { limit: SOON }));
}

/// Twenty milliseconds pass before it does, then twice as long and so on: a host is told, not pestered.
#[test]
fn a_host_hears_of_a_guest_that_takes_long() {
    let limit = Duration::from_millis(500);
    for module in [
        hostile("(loop $l (br $l)) (i32.const 1)"),
        hostile(SLEEP_FOR_AN_HOUR),
    ] {
        let (outcome, heard) = run_within(&module, "", Deadline::after(limit));
        assert_eq!(outcome, Err(RunError::Deadline { limit }));
        assert!(
            (1..20).contains(&heard.n_still_running),
            "{}",
            heard.n_still_running
        );
    }
}

#[test]
fn a_deadline_that_is_past_stops_at_once() {
    let module = hostile("(loop $l (br $l)) (i32.const 1)");
    let outcome = run_within(&module, "", Deadline::after(Duration::ZERO)).0;
    assert!(matches!(outcome, Err(RunError::Deadline { .. })));
}

#[test]
fn a_memory_bomb_gets_no_more_than_its_limit() {
    let bomb = hostile(
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
    );
    assert_eq!(outcome(&bomb), Err(RunError::Memory { limit: 16 << 20 }));
    let polite = wapc(&format!(
        r#"(data (i32.const 0) "fine")
        ({GUEST_CALL} (drop (memory.grow (i32.const 60000))) (call $response (i32.const 0) (i32.const 4)) (i32.const 1))"#
    ));
    assert_eq!(
        outcome(&polite).as_deref(),
        Ok("fine"),
        "growing fails in the guest"
    );
}

#[test]
fn a_table_bomb_gets_no_more_than_its_limit() {
    let bomb = wapc(&format!(
        "(table $t 1 funcref) ({GUEST_CALL}
          (if (i32.eq (table.grow $t (ref.null func) (i32.const 100000000)) (i32.const -1)) (then unreachable))
          (i32.const 1))"
    ));
    assert!(matches!(outcome(&bomb), Err(RunError::Table { .. })));
}

#[test]
fn deep_recursion_exhausts_its_own_stack() {
    let module = wapc(&format!(
        "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))
        ({GUEST_CALL} (call $deep (i32.const 0)))"
    ));
    assert_eq!(outcome(&module), Err(RunError::Stack { limit: 256 << 10 }));
}

#[test]
fn traps_say_what_happened() {
    for (body, what) in [
        ("unreachable", "wasm `unreachable` instruction executed"),
        ("(i32.load (i32.const -4))", "out of bounds memory access"),
        (
            "(i32.div_s (i32.const 1) (i32.const 0))",
            "integer divide by zero",
        ),
    ] {
        match outcome(&hostile(body)) {
            Err(RunError::Trap { what: found, .. }) => assert!(found.contains(what), "{found}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_panic_message_is_part_of_the_error() {
    let module = wapc(&format!(
        r#"(data (i32.const 100) "thread panicked: oh no\n")
        (data (i32.const 200) "\64\00\00\00\17\00\00\00")
        ({GUEST_CALL}
          (drop (call $fd_write (i32.const 2) (i32.const 200) (i32.const 1) (i32.const 300)))
          unreachable)"#
    ));
    let message = outcome(&module).unwrap_err().to_string();
    assert!(message.ends_with(": thread panicked: oh no"), "{message}");
}

#[test]
fn huge_answers_are_refused() {
    let module = hostile("(call $response (i32.const 0) (i32.const 70000)) (i32.const 1)");
    assert_eq!(outcome(&module), Err(RunError::Output { limit: 64 << 10 }));
    let chatty = wasi(
        r#"(data (i32.const 200) "\00\00\00\00\00\10\00\00")
        (func (export "_start") (loop $l
          (drop (call $fd_write (i32.const 1) (i32.const 200) (i32.const 1) (i32.const 300)))
          (br $l)))"#,
    );
    assert_eq!(outcome(&chatty), Err(RunError::Output { limit: 64 << 10 }));
}

#[test]
fn addresses_outside_memory_are_refused() {
    for body in [
        "(call $response (i32.const -1) (i32.const 10)) (i32.const 1)",
        "(call $response (i32.const 0) (i32.const -1)) (i32.const 1)",
        "(call $error (i32.const 131072) (i32.const 1)) (i32.const 0)",
        "(call $log (i32.const 131072) (i32.const 1)) (i32.const 1)",
        "(call $request (i32.const 131072) (i32.const 131072)) (i32.const 1)",
        "(call $host_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 131071) (i32.const 2))",
    ] {
        let outcome = outcome(&hostile(body));
        assert!(
            matches!(outcome, Err(RunError::BadPointer { .. })),
            "{body}: {outcome:?}"
        );
    }
    // WASI has an error number for it.
    let module = hostile("(call $random (i32.const 131071) (i32.const 2))");
    assert_eq!(outcome(&module).as_deref(), Ok(""));
}

#[test]
fn host_calls_are_counted_and_weighed() {
    let flood = hostile(
        "(loop $l (drop (call $host_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)
            (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1))) (br $l)) (i32.const 1)",
    );
    let (result, heard) = run(&flood, "");
    assert_eq!(result, Err(RunError::HostCalls { limit: 100 }));
    assert_eq!(heard.calls.len(), 100);
    let heavy = hostile(
        "(call $host_call (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)
            (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 70000))",
    );
    assert_eq!(
        outcome(&heavy),
        Err(RunError::HostPayload { limit: 64 << 10 })
    );
}

#[test]
fn a_log_flood_is_cut_and_dropped() {
    let flood = hostile(
        "(local $i i32) (loop $l
            (call $log (i32.const 0) (i32.const 4096))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 10000)))) (i32.const 1)",
    );
    let (result, heard) = run(&flood, "");
    assert_eq!(result.as_deref(), Ok(""), "no reason to refuse the request");
    let total: usize = heard.printed.iter().map(|(_, text)| text.len()).sum();
    assert_eq!((heard.printed.len(), total), (8, 8 << 10));

    let stderr = hostile(
        "(local $i i32) (i32.store (i32.const 4) (i32.const 4096)) (i32.store8 (i32.const 2) (i32.const 65)) (loop $l
            (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8192)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 10000)))) (i32.const 1)",
    );
    let (result, heard) = run(&stderr, "");
    assert_eq!(result.as_deref(), Ok(""));
    let total: usize = heard.printed.iter().map(|(_, text)| text.len()).sum();
    assert!(total <= 8 << 10, "{total}");
}

#[test]
fn more_runs_than_slots_are_refused_not_queued() {
    let engine = Engine::new(&EngineOptions {
        instances: 2,
        ..options()
    })
    .unwrap();
    let endless = format!("({GUEST_CALL} (loop $l (br $l)) (i32.const 1))");
    let wasm = wat::parse_str(wapc_text(&endless)).unwrap();
    let parked = engine.compile(&wasm, Some(ExecutionMode::Wapc)).unwrap();
    let results: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..6)
            .map(|_| {
                let deadline = Deadline::after(Duration::from_millis(300));
                let parked = &parked;
                scope.spawn(move || run_within(parked, "", deadline).0)
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let count = |wanted: fn(&RunError) -> bool| {
        results
            .iter()
            .filter(|result| result.as_ref().is_err_and(wanted))
            .count()
    };
    let n_busy = count(|error| matches!(error, RunError::Busy { limit: 2 }));
    let n_deadline = count(|error| matches!(error, RunError::Deadline { .. }));
    assert_eq!(n_busy + n_deadline, 6, "{results:?}");
    assert!(n_deadline >= 2, "{results:?}");
}

#[test]
fn nobody_else_is_hurt() {
    let bad = [
        hostile("(loop $l (br $l)) (i32.const 1)"),
        hostile(
            "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
        ),
        hostile("unreachable"),
    ];
    let good = good();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for module in &bad {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert!(run_within(module, "", Deadline::after(SOON)).0.is_err());
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(outcome(&good).as_deref(), Ok("fine"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(ENGINE.is_pooled());
}
