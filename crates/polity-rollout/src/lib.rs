//! Which clusters a placement chooses, in which groups, and who gets something new next.
//!
//! Two engines, both plain functions of values: what is observed and the time go in, what to do and when to look again
//! come out. Nothing is kept in between, so a restart needs no recovery. Neither knows what is rolled out.
//!
//! - [`schedule()`] chooses clusters for a placement and divides them into decision groups; [`explain()`] says the same
//!   with the fate of every cluster.
//! - [`plan()`] plans one step of a rollout over such groups.

mod groups;
pub mod placement;
pub mod plan;

pub use groups::{DecisionGroup, DecisionGroups};
pub use placement::{Explanation, Fleet, FleetParts, Schedule, explain, schedule};
pub use plan::{ClusterState, Entry, Observed, Plan, plan};
