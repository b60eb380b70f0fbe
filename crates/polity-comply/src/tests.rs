//! Whole evaluations over a cluster in memory, and the properties that hold for all of them.

mod cases;
mod properties;
mod world;
