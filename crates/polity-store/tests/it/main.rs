//! The public API of the store, as the API server uses it.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod basics;
mod concurrency;
mod crash;
mod damage;
mod failures;
mod model;
mod support;
