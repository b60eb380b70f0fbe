//! The vocabulary of Polity: names, object keys, selectors, field errors, quantities, conditions.
//!
//! Everything here parses or prints; nothing behaves over time, reads a clock or does I/O.

pub mod field;
pub mod gvk;
pub mod kinds;
pub mod name;
pub mod quantity;
pub mod selector;
pub mod yaml_out;

pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use gvk::{GroupKind, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey};
