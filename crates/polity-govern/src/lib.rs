//! Policies over clusters: where a policy goes, when it enforces where, what its templates wait for, and what to say
//! about all of it.
//!
//! Every decision is a function of what is observed and of the time. Nothing is kept in between: a rollout lives in
//! the annotations of its replicas, so a hub that is restarted, or another one, goes on with the same answer.
//!
//! - [`plan()`]: a root policy with its bindings, decisions and replicas → replicas and status to write.
//! - [`sets`]: the status of policy sets.
//! - [`dependency`], [`sync`]: on a managed cluster, which templates may be applied and what that means.
//! - [`validate`]: what is refused at the door.
//! - [`simulate`]: all of it through simulated days.

pub mod canonical;
pub mod dependency;
#[cfg(test)]
mod fixtures;
pub mod hub;
pub mod mark;
pub mod place;
pub mod plan;
pub mod replica;
pub mod report;
pub mod role;
pub mod sets;
pub mod simulate;
pub mod sync;
pub mod validate;

pub use plan::{Observed, Plan, plan};
