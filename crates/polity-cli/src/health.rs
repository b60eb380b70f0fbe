//! The checks of `polity doctor` and `polity status`: what is wrong, where, and how to fix it.
//!
//! [`cluster::findings`] decides over values; [`observe`] reads those values from a cluster and asks the replicas of
//! policy servers for a response.

pub(crate) mod cluster;
mod finding;
pub(crate) mod observe;
mod probe;
mod reach;
mod target;

pub(crate) use finding::{Finding, Severity, exit, table};
pub(crate) use reach::{ReachedCluster, reachable, unreachable};
pub(crate) use target::Target;

#[cfg(test)]
mod cluster_tests;
