//! Label selectors and field selectors: which objects a request means.

pub mod field;
pub mod label;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError};
pub use label::{LabelOperator, LabelRequirement, LabelSelector, LabelSelectorError, Labels};
