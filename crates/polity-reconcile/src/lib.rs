//! The controller kit: everything of a controller but its plan.
//!
//! - [`Watch`]: which objects to watch. Deletions during a disconnect are noticed, objects that cannot be decoded are
//!   skipped, and failures are retried with back-off, logged and counted.
//! - [`Cache`], [`SharedCache`]: what is needed of the watched objects, with indexes.
//! - [`Queue`]: keys with delays, each once, with a back-off per key.
//! - [`Controller`]: watches, queue and workers as one task. A reconcile returns when to [`Requeue`] its key.
//! - [`LeaderElection`], [`Term`]: election once per process, and the period in which its controllers may write.
//! - [`Writer`]: writes under one field manager, only on change, of the version or object that was read.
//! - [`ObjectEvent`]: Events that are counted when they repeat.
//!
//! The kit knows no kind and takes no decision.

mod cache;
mod controller;
mod event;
mod hash;
mod metrics;
mod queue;
mod requeue;
mod term;
mod watch;
mod write;

pub use cache::{Cache, Change, SharedCache, resource_version};
pub use controller::{Controller, Seen};
pub use event::{ObjectEvent, publish_event};
pub use hash::name_hash;
pub use metrics::ControllerMetrics;
pub use queue::Queue;
pub use requeue::{FailureBackoff, Requeue};
pub use term::{LeaderElection, Term};
pub use watch::Watch;
pub use write::{Deletion, FieldConflict, WriteError, WriteOutcome, Writer};
