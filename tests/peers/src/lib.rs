//! The programs that tests hold Polity against: the real Kubernetes, older kubectls, the Python client, client-go,
//! a registry, Go's templates.
//!
//! None of them is part of Polity and none is needed to use it. [`Tool::find`] says where one is or how to get it; a
//! test that needs a missing one calls [`Tool::or_leave_out`] and returns. `Cluster` (feature `cluster`) starts a real API server that
//! never outlives the process that started it.

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
