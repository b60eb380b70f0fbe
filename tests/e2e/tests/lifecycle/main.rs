//! The life of admission policies, on the embedded API server and on the real one: reference sections 19 and 24.
//!
//! Every scenario is a function of a [`scene::Scene`], and is played on one stage of each kind that all of them share;
//! each has a namespace of its own, and its policies look at nothing else.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod caches;
mod changes;
mod deletions;
mod ends;
mod examples;
mod failures;
mod first;
mod kinds;
mod manifests;
mod many;
mod modules;
mod owner;
mod poison;
mod registry;
mod rights;
mod scene;
mod servers;
mod trials;
