//! `polity policy`: the real binary with our own policies, a real registry and an API server.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod cluster;
mod registry;
mod run;
mod support;
