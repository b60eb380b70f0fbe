//! Configuration policies: does this object comply, and what would make it comply.
//!
//! [`evaluate()`] looks at a cluster through the trait [`Cluster`] and answers with findings and the writes that
//! would mend them; whoever carried the writes out hands their outcomes to [`Evaluation::conclude`] and gets
//! the new status. In between nothing is kept, and nothing here writes, waits or asks what time it is.
//!
//! Section numbers in comments are those of the governance reference.

pub mod cluster;
pub mod compare;
mod conclude;
pub mod custom_message;
mod decide;
pub mod diff;
mod equivalent;
pub mod evaluate;
pub mod event;
mod glob;
mod merge;
pub mod message;
pub mod namespaces;
pub mod policy;
mod printed;
pub mod prune;
pub mod related;
mod select;
pub mod status;
mod templates;
pub mod when;

pub use cluster::{Cluster, DryRun, Kind, ReadError, Resolved, TemplateContext, Templates};
pub use conclude::{Conclusion, Failure, Outcome};
pub use decide::{Finding, Write};
pub use evaluate::{Evaluation, Options, evaluate};
pub use policy::ConfigurationPolicy;
pub use status::{State, Status};
pub use templates::GoTemplates;

#[cfg(test)]
mod tests;
