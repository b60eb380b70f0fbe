//! The kinds of admission policies, how one policy is identified, and the names that follow from that.
//!
//! Policy servers, webhooks, revisions and reports all refer to a policy by a name that is derived here, so that no two
//! services disagree about it.

mod key;
mod kind;
mod reporting;

pub use key::{PolicyKey, PolicyKeyError, dotted_name, unique_name};
pub use kind::PolicyKind;
pub use reporting::ReportingKind;
