//! The group `policy.open-cluster-management.io`: policies over clusters and what binds them there.
//!
//! Manifests written for Open Cluster Management decode unchanged. An object that does not decode is an error that
//! names the field. `polity-govern` and `polity-comply` lower these types to the values that they work on.

pub mod v1;
pub mod v1beta1;

pub use polity_core::governance::names;
