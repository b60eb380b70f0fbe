//! Polity's wire types, seen from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod audit;
mod clusters;
mod manifests;
mod real;
mod reports;
mod rules;
mod samples;
mod schema;
