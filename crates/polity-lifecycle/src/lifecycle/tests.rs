//! The lifecycle of a policy, event by event, against a small simulation that keeps what was written.

mod contradictions;
mod crashes;
mod deletion;
mod events;
mod messages;
mod phases;
mod rollbacks;
pub(super) mod simulation;

use simulation::Simulation;
