//! The store from outside: what it promises to the API server that stands on it.

#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

mod basics;
mod concurrency;
mod crash;
mod damage;
mod failures;
mod model;
mod support;
