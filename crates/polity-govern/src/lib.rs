//! Plans the distribution of policies over clusters: which clusters get a policy, when each cluster enforces it, what
//! its templates depend on, and the status of all of that.
//!
//! Every plan is a function of observed objects and of the time. Nothing is kept between calls: the state of a rollout
//! is stored in annotations of its replicas, so that a restarted or another hub continues it.
//!
//! Entry points for a controller. All of them take objects that are lowered from `polity-api` ([`objects`]):
//!
//! - on the hub, for each root policy: [`plan()`] returns the replicas and the status to write, including the next
//!   step of a rollout; [`sets::status`] returns the status of a policy set; [`place::decide`] schedules placements;
//! - on a managed cluster, for each replica: [`sync::sync`] returns the template objects to write;
//!   [`dependency::check`] checks one dependency; [`report::compliance`] and [`report::rollout_status`] return the
//!   status to report;
//! - at admission: [`validate::policy`] and its neighbours refuse objects that no plan can use;
//! - [`role::role`] tells root policies, replicas and other policies apart;
//! - [`simulate`] runs all of this against a virtual clock.

pub mod canonical;
pub mod dependency;
#[cfg(test)]
mod fixtures;
pub mod hub;
pub mod mark;
pub mod objects;
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
