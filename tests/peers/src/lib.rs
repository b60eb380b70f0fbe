//! The programs that tests compare Polity with: the real Kubernetes, older kubectl releases, the Python client,
//! client-go, a registry, Go templates.
//!
//! Polity does not need any of them. [`Tool::find`] returns the path of a tool or how to install it. A test that needs
//! a missing tool calls [`Tool::or_skip`] and returns. `Cluster` (feature `cluster`) starts a real API server that is
//! killed together with the process that started it.

pub mod modules;
pub mod stopwatch;
pub mod templates;
pub mod tools;

#[cfg(feature = "cluster")]
mod certificates;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
pub mod detached;
#[cfg(feature = "cluster")]
mod process;
#[cfg(feature = "cluster")]
pub mod registry;

#[cfg(feature = "cluster")]
pub use cluster::Cluster;
pub use tools::{Missing, Tool};
