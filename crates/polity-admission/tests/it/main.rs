//! The server over its HTTP side, without a socket: routes, outcomes, overload, changes of the file; and in a cluster.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "helpers of tests fail as tests do"
)]

mod browser;
mod managed;
mod outcomes;
mod overload;
mod reload;
mod requests;
mod support;
