//! The controller against the in-process API server: the test plays policy server, pods and users.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cleanup;
mod cluster;
mod crashes;
mod defaults;
mod deletion;
mod lifecycle;
mod owners;
mod restores;
mod rollbacks;
mod servers;
mod webhooks;
mod whole;
