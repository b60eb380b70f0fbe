//! A revisioned, durable object store with snapshots and watch history.
//!
//! Every committed write gets the next [`Revision`] of one counter that belongs to the whole store
//! and never goes back, not even over a crash. All live objects are in memory, in persistent maps:
//! a reader takes a [`Snapshot`] in constant time, without a lock, and keeps it as long as it
//! likes. A write is on disk (fsync) before [`Store::commit`] resolves; writes that wait at the
//! same time share one transaction.
//!
//! The recent past is kept as events: [`Store::watch`] hands them out in order, none missing and
//! none twice, and [`Store::at`] takes them back to show an earlier revision exactly.
//!
//! The store knows nothing about Kubernetes: an object is bytes under a [`Key`]. What a caller
//! wants to know about each stored version without parsing it again (labels, owners) is derived
//! once, by its [`Index`].
//!
//! **Invariant:** nothing outside `engine` knows which storage engine keeps the bytes.

mod engine;
mod error;
mod history;
mod object;
mod options;
mod record;
mod snapshot;
mod state;
mod store;
mod watch;
mod writer;

pub use error::{CommitError, HealthError, HistoryError, OpenError, WatchEnd};
pub use history::Event;
pub use object::{
    Change, Expect, Index, Key, Object, ParseRevisionError, Payload, Revision, Write,
};
pub use options::{Clock, HistoryLimits, Location, Options, SizeLimits};
pub use snapshot::Snapshot;
pub use store::Store;
pub use watch::Watch;
