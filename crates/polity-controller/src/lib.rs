//! The controller of one cluster: what becomes of policies and the servers that run them.
//!
//! Decisions are pure functions of what was read and the time: [`lifecycle`] says what to write next for one policy
//! and when to look again, [`objects`] what a policy server is made of, [`certificates`] which are due, [`validation`]
//! what may be stored, [`defaults`] what becomes of recommended policies, [`cleanup`] what goes before an uninstall,
//! [`install`] what an installation is made of. Nothing is kept in between, so a restart needs no recovery.
//! [`policies`] and [`servers`] are the shells that read and write; [`Controller`] runs both while it leads.

pub mod certificates;
pub mod cleanup;
mod controller;
pub mod defaults;
pub mod install;
mod kinds;
pub mod lifecycle;
mod metrics;
pub mod names;
pub mod objects;
pub mod policies;
pub mod servers;
mod shell;
pub mod validation;
pub mod webhooks;

pub use controller::{Controller, ControllerError};
pub use kinds::{OwnedKey, OwnedKind};
pub use metrics::PolicyMetrics;
