//! The attachment engine by its contract: the worked cases, the traps, hierarchies, what is published, bad input, real
//! Gateway API objects, and histories.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that finds nothing has failed"
)]

mod bad_input;
mod cases;
mod gateway_api;
mod hierarchies;
mod history;
mod kinds;
mod published;
mod traps;
mod work;
mod world;
