//! A revisioned, durable object store with snapshots and watch history.
