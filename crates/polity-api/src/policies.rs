//! The group `policies.kubewarden.io`: policies, policy groups, policy servers and revisions.
//!
//! `v1` is served and stored. `v1alpha2` is an older, smaller form of three of its kinds: same fields, fewer of them,
//! so an object of one version decodes as the other and no conversion webhook is needed.

pub mod names;
pub mod v1;
pub mod v1alpha2;

/// The API group of every kind in this module.
pub const GROUP: &str = "policies.kubewarden.io";
