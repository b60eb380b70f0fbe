//! The store from outside: what it promises to the API server that stands on it.

mod basics;
mod concurrency;
mod crash;
mod failures;
mod model;
mod support;
