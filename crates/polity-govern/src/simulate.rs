//! A rollout through simulated days, in milliseconds: a scripted fleet, the same planner as the real hub, a timeline,
//! and whether it was as expected.
//!
//! The clusters are played: each takes its time, reports what its script says, goes offline, joins or leaves. The hub is
//! not: placements are scheduled, plans made and carried out by the functions that a real hub calls.

mod clock;
mod expect;
mod member;
mod run;
mod scenario;
mod timeline;

pub use clock::TimeError;
pub use run::{SimulationError, run};
pub use scenario::{
    ClusterScript, Deed, Edit, Expectation, Manifest, Names, Never, ObjectName, Outcome, Scenario,
    ScriptedEvent, State,
};
pub use timeline::{Broken, ClusterChange, Moment, RootChange, Timeline};

#[cfg(test)]
mod tests;
