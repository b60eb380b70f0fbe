//! Governance over many clusters: the controllers of the hub and the agent of a managed cluster.
//!
//! Every decision is made by the engines `polity-govern`, `polity-rollout`, `polity-comply` and `polity-template`. This
//! crate watches objects, calls the engines, and writes what they decide. Nothing is kept between two reconciles, so a
//! restart needs no recovery.

pub mod agent;
mod cluster_report;
pub mod hub;
pub mod names;

pub use cluster_report::ClusterReport;
