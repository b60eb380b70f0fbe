//! The controller of one cluster: what becomes of policies and the servers that run them.
//!
//! Decisions are pure functions of what was read and the time. Nothing is kept in between, so a restart needs no
//! recovery.

pub mod certificates;
pub mod lifecycle;
pub mod names;
pub mod objects;
pub mod policies;
pub mod servers;
mod shell;
pub mod validation;
pub mod webhooks;
