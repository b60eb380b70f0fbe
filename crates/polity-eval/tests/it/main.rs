//! The evaluation pipeline with real guests: every outcome, groups, host calls, our own policies.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "helpers of tests fail as tests do"
)]

mod groups;
mod hosts;
mod outcomes;
mod policies;
mod support;
