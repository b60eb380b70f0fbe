//! The lifecycle of a policy as its owner sees it: where it stands, what it can return to, and how to get there.
//!
//! Everything is read from the policy and from the Events about it. Whoever owns a policy may read those; PolicyRevisions
//! and Pods, where the same could be found, are for administrators, and nothing here asks for them.

mod events;
mod find;
mod follow;
mod goal;
mod history;
mod kind;
mod policy;
mod preflight;
mod rollback;
mod screen;
mod status;
mod table;
mod target;
mod view;
mod wait;

pub(super) use history::HistoryArgs;
pub(crate) use kind::PolicyKind;
pub(crate) use policy::Policy;
pub(super) use rollback::RollbackArgs;
pub(super) use status::StatusArgs;
pub(super) use wait::WaitArgs;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod output_tests;
#[cfg(test)]
mod tests;
