//! kube-rs on the embedded server and, where it makes sense, on the real one: reference sections 21 and 22.
//!
//! [`writers`] make changes and keep a history of them, [`ledger`]s hold what watchers saw; the two must agree, whatever
//! happens to the server in between.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod chaos;
mod clients;
mod controller;
mod crew;
mod disk;
mod election;
mod host;
mod informer;
mod ledger;
mod many;
mod survival;
mod world;
mod writers;
