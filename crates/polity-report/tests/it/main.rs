//! The report engine as a whole: patches, folds, splits and plans, and histories of all of them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod folds;
mod histories;
mod patches;
mod plans;
mod splits;
mod world;
