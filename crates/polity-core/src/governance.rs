//! Policies over clusters as plain values: what is left of a manifest once it is decoded and checked for shape.
//!
//! The parts that an engine decides by are fields of their own; the rest stays JSON, because a replica is the root's
//! text and nothing of it may get lost on the way.

mod binding;
mod key;
pub mod names;
mod policy;

pub use binding::{
    Binding, Exclusion, PlacementKind, PlacementRef, PolicySet, Subject, SubjectKind,
};
pub use key::RootPolicyKey;
pub use policy::{
    Action, ClusterStatus, Compliance, Dependency, HistoryEntry, PlacementStatus, Policy,
    PolicySpec, PolicyStatus, PolicyTemplate, TemplateStatus,
};
