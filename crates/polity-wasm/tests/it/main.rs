//! Guests of every kind, good and hostile, in a real engine.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod hostile;
mod load;
mod support;
mod wapc;
mod wasi;
