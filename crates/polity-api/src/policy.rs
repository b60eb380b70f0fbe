//! The group `policy.open-cluster-management.io`: policies over clusters and what binds them there.
//!
//! Manifests written for Open Cluster Management decode unchanged. [`lower`] turns them into the values that the
//! engines decide by; a document that cannot be turned says at which field it fails.

pub mod lower;
pub mod v1;
pub mod v1beta1;

pub use polity_core::governance::names;
