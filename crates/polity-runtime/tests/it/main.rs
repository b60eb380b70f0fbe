//! The server and its TLS on real sockets of 127.0.0.1.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod bounds;
mod drain;
mod peer;
mod reload;
mod support;
