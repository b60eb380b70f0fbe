//! Loads policy modules and runs one request at a time in them, under limits.
//!
//! - [`Engine`] compiles a module, or loads code that was compiled before, and links it once.
//! - [`Module::run`] creates an instance, passes it one request, takes its result and drops the
//!   instance. Nothing survives from one request to the next.
//! - [`Host`] is the host side of a guest: it gets its host calls and its output.
//!
//! Two kinds of guests are known: waPC functions and WASI commands. Whatever a guest does, the caller
//! gets a [`RunError`] that says what happened; no guest ends the process, outlives its [`Deadline`]
//! or takes more than the [`Limits`] say.
//!
//! [`Module::run`] blocks its thread. Where that is an async worker, [`Host::still_running`] is the moment to hand the
//! worker's other tasks over.

mod clock;
mod command;
mod engine;
mod error;
mod guest;
mod host;
mod inspect;
mod limits;
mod memory;
mod metadata;
mod module;
mod precompiled;
mod wapc;
mod wasi;

pub use clock::Deadline;
pub use engine::{Engine, EngineOptions};
pub use error::{EngineError, LoadError, RunError};
pub use host::{Bounds, Host, HostCall, LogBudget, NoHost, Stream};
pub use inspect::{Inspection, inspect};
pub use limits::Limits;
pub use metadata::{
    ExecutionMode, Metadata, MetadataError, PolicyType, ProtocolVersion, ResourceKind, Rule,
    SECTION,
};
pub use module::{Module, Operation};
pub use precompiled::CompiledCode;

/// The Kubewarden version that Polity is compatible with; modules may ask for a minimum.
pub const KUBEWARDEN_VERSION: semver::Version = semver::Version::new(1, 39, 0);
