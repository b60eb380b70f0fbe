//! Vocabulary of policies over clusters: names, actions and compliance states.
//!
//! `polity_govern::objects` has the objects themselves.

mod compliance;
pub mod names;

pub use compliance::{Action, Compliance};
