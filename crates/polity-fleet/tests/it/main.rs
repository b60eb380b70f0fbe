//! The hub and agents against in-process API servers.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod agents;
mod clusters;
mod hub;
mod propagation;
mod rollouts;
