//! What can go wrong: when an engine is made, a module is loaded, a guest runs.

use std::time::Duration;

use crate::{ExecutionMode, MetadataError};

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The Wasm runtime does not accept this configuration on this machine.
    #[error("cannot set up the Wasm engine: {0}")]
    Setup(String),
    /// The thread that counts time could not be started.
    #[error("cannot start the thread that interrupts guests")]
    Ticker(#[source] std::io::Error),
}

/// Why a module cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is larger than allowed.
    #[error("module has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Not a Wasm module, or a broken one.
    #[error("not a valid Wasm module: {0}")]
    Malformed(String),
    /// A Wasm component, which is no policy.
    #[error("a Wasm component, not a module: policies are core modules")]
    Component,
    /// The module's own description cannot be read.
    #[error("cannot read the policy metadata")]
    Metadata(#[from] MetadataError),
    /// A waPC module that does not say which protocol it speaks.
    #[error("missing protocol version")]
    NoProtocolVersion,
    /// A waPC module that speaks another protocol.
    #[error("unknown protocol version")]
    UnknownProtocolVersion,
    /// A kind of guest that is not there yet.
    #[error(
        "policies with execution mode {mode} are not supported yet: only kubewarden-wapc and wasi are"
    )]
    UnsupportedMode {
        /// What it asked for.
        mode: ExecutionMode,
    },
    /// The module wants a newer server.
    #[error("Policy required Kubewarden version {required} but is running on {running}")]
    TooNew {
        /// What it asked for.
        required: semver::Version,
        /// What we are compatible with.
        running: semver::Version,
    },
    /// The module imports a function that the host does not provide.
    #[error("module imports unknown function {module}.{name}")]
    UnknownImport {
        /// The import's module.
        module: String,
        /// The import's name.
        name: String,
    },
    /// The module lacks what its kind of guest must export.
    #[error("module does not export {name}")]
    MissingExport {
        /// The export's name.
        name: &'static str,
    },
    /// Too many of something.
    #[error("module has {n} {what}, more than the limit of {limit}")]
    Shape {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        n: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Compilation or linking failed.
    #[error("cannot compile the module: {0}")]
    Compile(String),
    /// Compiled by another version or with other settings: compile it again.
    #[error("compiled code does not fit this engine: {0}")]
    Incompatible(String),
}

/// Why a run gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Time is up.
    #[error("guest code interrupted, execution deadline of {limit:?} exceeded")]
    Deadline {
        /// The limit.
        limit: Duration,
    },
    /// The guest wanted more memory than it may have, and gave up.
    #[error("guest ran out of memory: limit of {limit} bytes")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// The guest wanted more table elements than it may have, and gave up.
    #[error("guest ran out of table space: limit of {limit} elements")]
    Table {
        /// The limit.
        limit: usize,
    },
    /// Endless or very deep recursion.
    #[error("guest exhausted its call stack of {limit} bytes")]
    Stack {
        /// The limit.
        limit: usize,
    },
    /// The guest crashed.
    #[error("guest trapped: {what}{}", after_colon(.stderr))]
    Trap {
        /// The trap in words.
        what: String,
        /// What it said on standard error or as its error: for Rust guests the panic message.
        stderr: String,
    },
    /// The guest handed over an address outside its memory.
    #[error("guest passed an address outside its memory to {function}")]
    BadPointer {
        /// The host function.
        function: &'static str,
    },
    /// The guest reported an error itself.
    #[error("guest call failed: {0}")]
    Guest(String),
    /// The answer is too long.
    #[error("guest answered with more than {limit} bytes")]
    Output {
        /// The limit.
        limit: usize,
    },
    /// A host call's payload is too long.
    #[error("guest made a host call with more than {limit} bytes")]
    HostPayload {
        /// The limit.
        limit: usize,
    },
    /// Too many host calls.
    #[error("guest made more than {limit} host calls")]
    HostCalls {
        /// The limit.
        limit: u32,
    },
    /// A WASI command ended with a code other than zero.
    #[error("guest exited with code {code}{}", after_colon(.stderr))]
    Exit {
        /// The code.
        code: i32,
        /// What it printed on standard error, trimmed.
        stderr: String,
    },
    /// The guest kind does not know this operation.
    #[error("{mode} guests do not have the operation {operation}")]
    NoSuchOperation {
        /// The guest kind.
        mode: ExecutionMode,
        /// The operation.
        operation: &'static str,
    },
    /// Every instance slot is taken: the caller runs more at once than the engine was made for.
    #[error("all {limit} instances are in use")]
    Busy {
        /// How many there are.
        limit: u32,
    },
    /// The host could not run the guest at all.
    #[error("cannot run the guest: {0}")]
    Host(String),
}

fn after_colon(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}
