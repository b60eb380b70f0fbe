//! Guests as text, and a host that remembers what they said.

use std::{
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use polity_wasm::{
    Bounds, Deadline, Engine, EngineOptions, ExecutionMode, Host, HostCall, Limits, Module,
    Operation, RunError, Stream,
};

/// Small limits, so that tests that exceed them are quick.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        limits: Limits {
            memory: 16 << 20,
            output: 64 << 10,
            host_payload: 64 << 10,
            host_calls: 100,
            log_entry: 1 << 10,
            log_total: 8 << 10,
            stack: 256 << 10,
            ..Limits::default()
        },
        ..EngineOptions::default()
    }
}

/// One engine for all tests: guests must not get in each other's way.
pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(&options()).unwrap());

/// The imports of waPC, a page of memory, and the guest's own functions.
pub(crate) fn wapc_text(functions: &str) -> String {
    format!(
        r#"(module
  (import "wapc" "__guest_request" (func $request (param i32 i32)))
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (import "wapc" "__guest_error" (func $error (param i32 i32)))
  (import "wapc" "__host_call" (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wapc" "__host_response_len" (func $host_response_len (result i32)))
  (import "wapc" "__host_response" (func $host_response (param i32)))
  (import "wapc" "__host_error_len" (func $host_error_len (result i32)))
  (import "wapc" "__host_error" (func $host_error (param i32)))
  (import "wapc" "__console_log" (func $log (param i32 i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  {functions})"#
    )
}

/// The imports of a WASI command with host calls.
pub(crate) fn wasi_text(functions: &str) -> String {
    format!(
        r#"(module
  (import "host" "call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  {functions})"#
    )
}

pub(crate) fn wapc(functions: &str) -> Module {
    compile(&wapc_text(functions), ExecutionMode::Wapc)
}

pub(crate) fn wasi(functions: &str) -> Module {
    compile(&wasi_text(functions), ExecutionMode::Wasi)
}

pub(crate) fn compile(text: &str, mode: ExecutionMode) -> Module {
    ENGINE
        .compile(&wat::parse_str(text).unwrap(), Some(mode))
        .unwrap()
}

/// What a host heard.
#[derive(Debug, Default, Clone)]
pub(crate) struct Heard {
    pub(crate) calls: Vec<String>,
    pub(crate) printed: Vec<(Stream, String)>,
    /// How often it heard that the guest still runs.
    pub(crate) n_still_running: usize,
}

/// Answers calls to `echo` with their payload and refuses all others.
#[derive(Clone, Default)]
pub(crate) struct Echo(pub(crate) Arc<Mutex<Heard>>);

impl Host for Echo {
    fn call(&mut self, call: HostCall<'_>, _: &mut Bounds) -> Result<Vec<u8>, String> {
        let HostCall {
            binding,
            namespace,
            operation,
            payload,
        } = call;
        let mut heard = self.0.lock().unwrap();
        heard
            .calls
            .push(format!("{binding}/{namespace}/{operation}"));
        if operation == "echo" {
            Ok(payload.to_vec())
        } else {
            Err(format!("no {operation} here"))
        }
    }

    fn print(&mut self, stream: Stream, text: &str) {
        self.0
            .lock()
            .unwrap()
            .printed
            .push((stream, text.to_owned()));
    }

    fn still_running(&mut self) {
        self.0.lock().unwrap().n_still_running += 1;
    }
}

pub(crate) fn run(module: &Module, payload: &str) -> (Result<String, RunError>, Heard) {
    run_within(module, payload, Deadline::after(Duration::from_secs(20)))
}

pub(crate) fn run_within(
    module: &Module,
    payload: &str,
    deadline: Deadline,
) -> (Result<String, RunError>, Heard) {
    let host = Echo::default();
    let outcome = module
        .run(
            Operation::Validate,
            payload.as_bytes().to_vec(),
            deadline,
            Box::new(host.clone()),
        )
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let heard = host.0.lock().unwrap().clone();
    (outcome, heard)
}
