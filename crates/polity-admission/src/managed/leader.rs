//! What the leading replica does next: which revisions it initialises, when it tries again, and when it gives up.
//!
//! Decided from the revisions, what this leader remembers of its own tries, and the time. A new leader remembers
//! nothing and needs nothing: what counts is in the status.

use std::collections::BTreeMap;

use polity_api::policies::v1::{ConditionStatus, ConditionType, InitializedReason};
use polity_runtime::Moment;

use super::retry;
use super::revision::{Revision, Revisions, Uid};
use super::status::{Build, Failure};

/// How many revisions are initialised at once: one that hangs must not keep the others.
pub(crate) const AT_ONCE: usize = 4;
/// How many attempts may end without a result: then the module is what ends them.
const ATTEMPTS: i32 = 3;

/// What this leader remembers of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It works on it; so many times in a row it failed before.
    Working { n: u32 },
    /// It failed so many times in a row, and may try again then.
    Failed { n: u32, again: Moment },
}

/// What this leader remembers.
pub(crate) type Memory = BTreeMap<Uid, Tried>;

/// One revision to initialise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) uid: Uid,
    /// Counts attempts since the last result.
    pub(crate) attempt: i32,
    /// Whether nobody took it yet: then this is written before anything else. Later attempts are written when the
    /// module is there and its compilation begins, which is what may end a process.
    pub(crate) is_first: bool,
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Initialise these.
    pub(crate) begin: Vec<Job>,
    /// Write that these failed for good.
    pub(crate) condemn: Vec<(Uid, Failure)>,
    /// Look again then, if nothing happens before.
    pub(crate) look_again: Option<Moment>,
}

/// What one revision needs.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing, or nothing any more.
    Nothing,
    /// To be initialised, not before then.
    Initialize { not_before: Option<Moment> },
    /// To be given up.
    Condemn { attempts: i32 },
}

impl Plan {
    /// Plans for all revisions.
    pub(crate) fn of(revisions: &Revisions, memory: &Memory, build: &Build, now: Moment) -> Self {
        let mut plan = Self::default();
        let mut due: Vec<&Revision> = Vec::new();
        for (uid, revision) in revisions {
            match next(revision, memory.get(uid), build) {
                Next::Nothing => {}
                Next::Condemn { attempts } => {
                    plan.condemn.push((uid.clone(), condemned(attempts)));
                }
                Next::Initialize {
                    not_before: Some(moment),
                } if now < moment => {
                    let earliest = plan.look_again.map_or(moment, |other| other.min(moment));
                    plan.look_again = Some(earliest);
                }
                Next::Initialize { .. } => due.push(revision),
            }
        }
        let n_working = memory
            .values()
            .filter(|tried| matches!(tried, Tried::Working { .. }))
            .count();
        due.sort_by_key(|revision| revision.urgency());
        due.truncate(AT_ONCE.saturating_sub(n_working));
        plan.begin = due.into_iter().map(Job::of).collect();
        plan
    }
}

impl Job {
    fn of(revision: &Revision) -> Self {
        Self {
            uid: revision.uid.clone(),
            attempt: attempts(revision) + 1,
            is_first: !is_scheduled(revision),
        }
    }
}

fn next(revision: &Revision, tried: Option<&Tried>, build: &Build) -> Next {
    let is_working = matches!(tried, Some(Tried::Working { .. }));
    if !revision.is_enabled || revision.is_initialized() || is_working {
        return Next::Nothing;
    }
    let attempts = attempts(revision);
    if attempts >= ATTEMPTS {
        return Next::Condemn { attempts };
    }
    match failed_for(revision) {
        // The same input has the same result, unless somebody else came to it.
        Some(reason) if retry::after(reason, 1, 0.0).is_none() && is_by(revision, build) => {
            Next::Nothing
        }
        _ => Next::Initialize {
            not_before: match tried {
                Some(Tried::Failed { again, .. }) => Some(*again),
                _ => None,
            },
        },
    }
}

fn is_scheduled(revision: &Revision) -> bool {
    revision
        .condition(ConditionType::Scheduled, None)
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Attempts without a result.
fn attempts(revision: &Revision) -> i32 {
    let initializer = revision
        .status()
        .and_then(|status| status.initializer.as_ref());
    initializer.map_or(0, |initializer| initializer.attempts)
}

/// The reason of the last failure. A word that only a newer server knows is like one of ours that passes.
fn failed_for(revision: &Revision) -> Option<InitializedReason> {
    let condition = revision.condition(ConditionType::Initialized, None)?;
    InitializedReason::parse(&condition.reason)
}

fn is_by(revision: &Revision, build: &Build) -> bool {
    let initializer = revision
        .status()
        .and_then(|status| status.initializer.as_ref());
    initializer.is_some_and(|by| {
        by.version.as_ref() == Some(&build.version)
            && by.config_hash.as_ref() == Some(&build.config_hash)
    })
}

fn condemned(attempts: i32) -> Failure {
    Failure {
        reason: InitializedReason::ModuleInvalid,
        message: format!(
            "The policy server ended {attempts} times while it compiled the module or checked the settings. It does \
             not try again by itself: change the policy to start over."
        ),
    }
}

#[cfg(test)]
mod tests;
