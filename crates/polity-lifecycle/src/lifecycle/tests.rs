//! The tables of section 19 as tests, row by row, against a small world that keeps what was written.

mod contradictions;
mod crashes;
mod deletion;
mod messages;
mod phases;
mod rollbacks;
mod rows;
pub(super) mod world;

use world::World;
