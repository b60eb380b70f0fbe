//! The vocabulary of Polity: names, object keys, selectors, field errors, quantities, durations, group
//! expressions; kinds and keys of policies; clusters, placements and rollout strategies.
//!
//! Everything here parses or prints; nothing behaves over time, reads a clock or does I/O.

pub mod capability;
pub mod causes;
pub mod cluster;
pub mod duration;
pub mod expression;
pub mod field;
pub mod findings;
pub mod go_text;
pub mod governance;
pub mod gvk;
pub mod name;
pub mod placement;
pub mod policy;
pub mod quantity;
pub mod rollout_strategy;
pub mod selector;
pub mod yaml_out;

pub use cluster::{ClusterName, ManagedCluster};
pub use expression::{ExpressionError, GroupExpression};
pub use field::{FieldError, FieldErrorKind, FieldErrors, FieldPath};
pub use findings::Findings;
pub use gvk::{GroupKind, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey};
pub use policy::{PolicyKey, PolicyKind};
