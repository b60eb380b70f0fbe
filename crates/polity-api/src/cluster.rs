//! The group `cluster.open-cluster-management.io`: managed clusters, sets of them, placements and their decisions.
//!
//! Each kind stands in the version in which it is stored; none of them has another that we serve.

mod lower;
pub mod v1;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;

pub use polity_core::cluster::names;
