//! What the engines read: manifests or a live cluster, as the values that the engines work on.
//!
//! Commands and services use the same loaders. Nothing here prints, exits, or knows about command lines: problems with
//! single documents are data, and each operation that can fail has an error type of its own.

pub mod attachment;
pub mod cluster;
pub mod cluster_expressions;
pub mod configuration_policies;
pub mod findings;
pub mod fleet;
pub mod governance;
mod keys;
pub mod lint;
pub mod lower;
pub mod manifests;
pub mod reports;
pub mod schemas;

pub use cluster_expressions::CelPredicates;
pub use fleet::FleetManifests;
pub use governance::HubManifests;
pub use lower::{HubLowering, LowerError, lower};
pub use manifests::{Document, Manifests, Origin, Problem};
