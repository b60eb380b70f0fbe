//! The local runtime against an API server in the test's own process, with real child processes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cluster;
mod lifetimes;
mod permits;
mod pods;
mod restarts;
