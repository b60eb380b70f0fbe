//! The worked cases of section 6, one test each, in the order of the contract.

mod levels;
mod targets;
mod values;
