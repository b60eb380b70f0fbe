//! A revisioned, durable object store with snapshots and watch history.
//!
//! - Every committed write gets the next [`Revision`]. The whole store has one counter, which never goes back, not
//!   even after a crash.
//! - All live objects are in memory, in persistent maps. A reader takes a [`Snapshot`] in constant time without a
//!   lock, and may keep it.
//! - A write is on disk (fsync) before [`Store::commit`] resolves. Concurrent writes share one transaction.
//! - The recent history is kept as events. [`Store::watch`] returns each of them once and in order. [`Store::at`] uses
//!   them to show an earlier revision exactly.
//! - The store does not depend on Kubernetes: an object is bytes under a [`Key`]. Values that a caller needs from each
//!   version without parsing it again (labels, owners) are derived once, by its [`Index`].
//!
//! **Invariant:** only the module `engine` depends on the storage engine.

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
