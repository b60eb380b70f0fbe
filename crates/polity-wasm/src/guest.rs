//! The host's state of one running guest, and the errors of a failed run.

use std::time::Instant;

use wasmtime::{Memory, PoolConcurrencyLimitError, ResourceLimiter, Trap};

use crate::{
    Bounds, Deadline, Host, HostCall, Limits, LogBudget, RunError, Stream, clock, memory::slice,
};

/// How much of standard error goes into an error message.
const STDERR_IN_ERRORS: usize = 4 << 10;

/// The state of one run, which every host function can access.
pub(crate) struct Guest {
    pub(crate) host: Box<dyn Host>,
    pub(crate) bounds: Bounds,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    /// The exported memory, set after instantiation.
    pub(crate) memory: Option<Memory>,
    pub(crate) wapc: WapcState,
    pub(crate) wasi: WasiState,
    pub(crate) started: Instant,
    n_host_calls: u32,
}

/// One waPC call: its request, and its result so far.
#[derive(Default)]
pub(crate) struct WapcState {
    pub(crate) operation: &'static str,
    pub(crate) payload: Vec<u8>,
    pub(crate) response: Vec<u8>,
    pub(crate) error: Option<String>,
    pub(crate) host_response: Vec<u8>,
    pub(crate) host_error: Vec<u8>,
}

/// The WASI state of a guest.
#[derive(Default)]
pub(crate) struct WasiState {
    pub(crate) args: &'static [&'static str],
    pub(crate) stdin: Vec<u8>,
    /// How much of `stdin` was read.
    pub(crate) n_read: usize,
    /// Whether standard output is the result; else it is logged.
    pub(crate) stdout_is_answer: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Why a host function stopped the guest.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum Stop {
    #[error("execution deadline exceeded")]
    Deadline,
    #[error("address outside memory in {0}")]
    BadPointer(&'static str),
    #[error("answer too long")]
    Output,
    #[error("host call payload too long")]
    HostPayload,
    #[error("too many host calls")]
    HostCalls,
    #[error("exit with code {0}")]
    Exit(i32),
}

impl Guest {
    pub(crate) fn new(host: Box<dyn Host>, deadline: Deadline, limits: Limits) -> Self {
        Self {
            host,
            bounds: Bounds {
                deadline,
                log: LogBudget::new(&limits),
            },
            meter: Meter::new(&limits),
            limits,
            memory: None,
            wapc: WapcState::default(),
            wasi: WasiState::default(),
            started: clock::now(),
            n_host_calls: 0,
        }
    }

    /// Makes a host call from eight numbers: addresses and lengths of four texts in the guest's memory.
    pub(crate) fn host_call(
        &mut self,
        memory: &[u8],
        at: [(i32, i32); 4],
        function: &'static str,
    ) -> Result<Result<Vec<u8>, String>, Stop> {
        if self.n_host_calls >= self.limits.host_calls {
            return Err(Stop::HostCalls);
        }
        self.n_host_calls += 1;
        if self.bounds.deadline.is_past() {
            return Err(Stop::Deadline);
        }
        let [binding, namespace, operation, payload] =
            at.map(|(ptr, len)| slice(memory, ptr, len).ok_or(Stop::BadPointer(function)));
        let (binding, namespace, operation, payload) = (binding?, namespace?, operation?, payload?);
        // Names are as bounded as payloads: they end up in logs and errors.
        if payload
            .len()
            .max(binding.len())
            .max(namespace.len())
            .max(operation.len())
            > self.limits.host_payload
        {
            return Err(Stop::HostPayload);
        }
        let call = HostCall {
            binding: &String::from_utf8_lossy(binding),
            namespace: &String::from_utf8_lossy(namespace),
            operation: &String::from_utf8_lossy(operation),
            payload,
        };
        let answer = self.host.call(call, &mut self.bounds);
        if self.bounds.deadline.is_past() {
            return Err(Stop::Deadline);
        }
        Ok(answer.and_then(|answer| {
            if answer.len() > self.limits.host_payload {
                Err(format!(
                    "the answer has {} bytes, more than the limit of {}",
                    answer.len(),
                    self.limits.host_payload
                ))
            } else {
                Ok(answer)
            }
        }))
    }

    /// Logs a line, within the budget.
    pub(crate) fn print(&mut self, stream: Stream, text: &str) {
        if let Some(text) = self.bounds.log.admit(text) {
            self.host.print(stream, text);
        }
    }

    /// Passes the remaining output to the host at the end of the run.
    pub(crate) fn flush(&mut self) {
        if !self.wasi.stdout_is_answer {
            let stdout = std::mem::take(&mut self.wasi.stdout);
            self.print_trimmed(Stream::Stdout, &stdout);
        }
        let stderr = std::mem::take(&mut self.wasi.stderr);
        self.print_trimmed(Stream::Stderr, &stderr);
    }

    fn print_trimmed(&mut self, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if !text.trim().is_empty() {
            self.print(stream, text.trim());
        }
    }

    /// The last output of the guest: Rust guests print, AssemblyScript guests report an error.
    fn last_words(&self) -> String {
        let printed = String::from_utf8_lossy(&self.wasi.stderr);
        let text = match printed.trim() {
            "" => self.wapc.error.as_deref().unwrap_or_default().trim(),
            printed => printed,
        };
        text[..text.floor_char_boundary(STDERR_IN_ERRORS.min(text.len()))].to_owned()
    }

    /// The error of a guest whose call ended in `error`.
    pub(crate) fn explain(&self, error: &wasmtime::Error, instances: u32) -> RunError {
        let deadline = || RunError::Deadline {
            limit: self.bounds.deadline.limit().unwrap_or_default(),
        };
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return match *stop {
                Stop::Deadline => deadline(),
                Stop::BadPointer(function) => RunError::BadPointer { function },
                Stop::Output => RunError::Output {
                    limit: self.limits.output,
                },
                Stop::HostPayload => RunError::HostPayload {
                    limit: self.limits.host_payload,
                },
                Stop::HostCalls => RunError::HostCalls {
                    limit: self.limits.host_calls,
                },
                Stop::Exit(code) => RunError::Exit {
                    code,
                    stderr: self.last_words(),
                },
            };
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return RunError::Busy { limit: instances };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => RunError::Stack {
                limit: self.limits.stack,
            },
            Some(Trap::Interrupt) => deadline(),
            // A guest that gets no memory usually ends with `unreachable`.
            Some(_) if self.meter.memory_refused => RunError::Memory {
                limit: self.limits.memory,
            },
            Some(_) if self.meter.table_refused => RunError::Table {
                limit: self.limits.table_elements,
            },
            Some(trap) => RunError::Trap {
                what: trap.to_string(),
                stderr: self.last_words(),
            },
            None => RunError::Host(format!("{error:#}")),
        }
    }
}

/// Grants memory and table space, and records refusals.
pub(crate) struct Meter {
    memory: usize,
    table_elements: usize,
    memory_refused: bool,
    table_refused: bool,
}

impl Meter {
    fn new(limits: &Limits) -> Self {
        Self {
            memory: limits.memory,
            table_elements: limits.table_elements,
            memory_refused: false,
            table_refused: false,
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = desired <= self.memory;
        self.memory_refused |= !granted;
        Ok(granted)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = desired <= self.table_elements;
        self.table_refused |= !granted;
        Ok(granted)
    }
}
