//! The controller of one cluster: it reconciles policies and the policy servers that run them.
//!
//! Decisions are pure functions of the observed objects and the time:
//!
//! - [`lifecycle`]: the next writes for one policy, and when to look again;
//! - [`objects`]: the objects of a policy server;
//! - [`certificates`]: the certificates that are due;
//! - [`validation`]: whether an object of ours may be stored;
//! - [`defaults`]: the recommended policies;
//! - [`cleanup`]: what is deleted before an uninstall;
//! - [`install`]: the manifests of an installation.
//!
//! Nothing is kept between two reconciles, so a restart needs no recovery. [`policies`], [`servers`] and [`defaults`] read and write;
//! [`LifecycleController`] runs them during the terms of a process.

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
pub mod validation;
pub mod webhooks;

pub use controller::{CONTROLLER_LEASE, LifecycleController};
pub use kinds::{OwnedKey, OwnedKind};
pub use metrics::PolicyMetrics;
