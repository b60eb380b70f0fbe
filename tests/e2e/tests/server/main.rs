//! `polity server` as a process: guest types over HTTPS, changes under load, malicious guests, shutdown.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "helpers of tests fail as tests do"
)]

mod changes;
mod client;
mod cluster;
mod ends;
mod guests;
mod hostile;
mod server;
mod telemetry;
