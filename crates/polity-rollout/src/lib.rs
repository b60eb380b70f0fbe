//! Which clusters a placement chooses, in which groups, and who gets something new next.
//!
//! Two engines, both plain functions of values: what is observed and the time go in, what to do and when to look again
//! come out. Nothing is kept in between, so a restart needs no recovery. Neither knows what is rolled out.
//!
//! - [`plan()`]: one step of a rollout over decision groups.

mod groups;
pub mod plan;

pub use groups::{DecisionGroup, DecisionGroups};
pub use plan::{ClusterState, Entry, Observed, Plan, plan};
