//! The tables of section 19 as tests, row by row, against a small simulation that keeps what was written.

mod contradictions;
mod crashes;
mod deletion;
mod messages;
mod phases;
mod rollbacks;
mod rows;
pub(super) mod simulation;

use simulation::Simulation;
