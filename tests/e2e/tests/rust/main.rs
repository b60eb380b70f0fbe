//! kube-rs on the embedded server and, where possible, on the real one.
//!
//! [`writers`] change objects and keep a history of their changes. An [`event_log`] records what a watcher saw. The
//! two must agree, also when the server is stopped or killed in between.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod chaos;
mod clients;
mod controller;
mod disk;
mod election;
mod event_log;
mod host;
mod informer;
mod many;
mod survival;
mod test_namespace;
mod workload;
mod writers;
