//! Plans the next step of the leader: which revisions it initialises, when it retries, and when it gives up.
//!
//! The plan is a function of the revisions, of this leader's own attempts, and of the time. A new leader starts
//! without attempts: the status has everything that counts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_api::policies::v1::{ConditionStatus, ConditionType, InitializedReason, Initializer};
use polity_runtime::{Clock, Moment};

use crate::managed::leader::attempts::Crashes;
use crate::managed::retry;
use crate::managed::revision::{Revision, Revisions, Uid};
use crate::managed::status::{Build, Crashed};

/// How many revisions without a crash are initialised at once: one that hangs must not delay the others.
pub(crate) const AT_ONCE: usize = 4;
/// How many of them may be policies of namespaces: the modules of tenants, which may come from slow registries, must not
/// delay the policies of the cluster.
const AT_ONCE_NAMESPACED: usize = AT_ONCE - 1;
/// How many of them may be policies of one namespace, so that no namespace delays another one.
const AT_ONCE_PER_NAMESPACE: usize = 2;

/// The last attempt of this leader on a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// An attempt is running, after `n` failures in a row.
    Working { n: u32 },
    /// It failed `n` times in a row, and may be retried at `again`.
    Failed { n: u32, again: Moment },
}

/// The attempts of this leader, by revision.
pub(crate) type Memory = BTreeMap<Uid, Tried>;

/// The time, on both clocks: retries of this process are measured, those in a status are dated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) moment: Moment,
    pub(crate) date: Timestamp,
}

impl Now {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self {
            moment: clock.moment(),
            date: clock.now(),
        }
    }

    /// When a date is reached. Clocks of machines differ, so nothing is delayed longer than the longest back-off.
    fn moment_of(self, date: Timestamp) -> Moment {
        let wait = date
            .duration_since(self.date)
            .try_into()
            .unwrap_or_default();
        self.moment + retry::after_crashes(i32::MAX).min(wait)
    }
}

/// One revision to initialise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) uid: Uid,
    /// Counts attempts since the last result.
    pub(crate) attempt: i32,
    /// Attempts in the status that turned out to be no crashes.
    pub(crate) withdrawn: Vec<String>,
    /// Whether no leader took the revision yet: then the attempt is written before anything else. Later attempts are
    /// written when the module is there and its compilation begins, which is what may crash.
    pub(crate) is_first: bool,
}

/// The next step of the leader.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The revisions to initialise.
    pub(crate) begin: Vec<Job>,
    /// The revisions to write as failed, because they crashed the policy server too often.
    pub(crate) give_up: Vec<(Uid, Crashed)>,
    /// When to plan again, if nothing changes before.
    pub(crate) look_again: Option<Moment>,
}

/// What one revision needs.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// To be initialised, not before then.
    Initialize {
        not_before: Option<Moment>,
    },
    /// To be given up for a while.
    GiveUp {
        n_crashes: i32,
    },
}

/// Everything a plan depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) revisions: &'a Revisions,
    pub(crate) memory: &'a Memory,
    pub(crate) crashes: &'a Crashes,
    pub(crate) build: &'a Build,
    pub(crate) now: Now,
}

impl Plan {
    /// Plans for all revisions.
    pub(crate) fn of(view: View<'_>) -> Self {
        let mut plan = Self::default();
        let mut due: Vec<&Revision> = Vec::new();
        for (uid, revision) in view.revisions {
            match next(revision, view) {
                Next::Nothing => {}
                Next::GiveUp { n_crashes } => {
                    let next = view.now.date + retry::after_crashes(n_crashes);
                    plan.give_up
                        .push((uid.clone(), Crashed { n_crashes, next }));
                }
                Next::Initialize {
                    not_before: Some(moment),
                } if view.now.moment < moment => {
                    let earliest = plan.look_again.map_or(moment, |other| other.min(moment));
                    plan.look_again = Some(earliest);
                }
                Next::Initialize { .. } => due.push(revision),
            }
        }
        due.sort_by_key(|revision| revision.urgency());
        plan.begin = view
            .chosen(due)
            .into_iter()
            .map(|revision| Job::of(revision, view.crashes))
            .collect();
        plan
    }
}

impl View<'_> {
    /// Which of the revisions that are due begin now.
    ///
    /// A crash counts against every revision that is being initialised at that time. So a revision with a crash is
    /// initialised alone, after all others: only its first crash can be caused by another one, which is less than the
    /// limit.
    fn chosen<'r>(&self, due: Vec<&'r Revision>) -> Vec<&'r Revision> {
        let working = self.memory.iter();
        let working: Vec<&Uid> = working
            .filter(|(_, tried)| matches!(tried, Tried::Working { .. }))
            .map(|(uid, _)| uid)
            .collect();
        let running = working.iter().filter_map(|uid| self.revisions.get(*uid));
        let running: Vec<&Revision> = running.map(|revision| &**revision).collect();
        if running.iter().any(|revision| self.n_crashes(revision) > 0) {
            return Vec::new();
        }
        let (crashed, others): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|revision| self.n_crashes(revision) > 0);
        let mut chosen = shared_out(&running, working.len(), self.in_turn(others));
        if chosen.is_empty() && working.is_empty() {
            chosen.extend(crashed.first());
        }
        chosen
    }

    /// The revisions of namespaces with fewer attempts that failed or are running come first. Otherwise a few namespaces
    /// with many modules in slow registries would take every place that becomes free.
    fn in_turn<'r>(&self, mut due: Vec<&'r Revision>) -> Vec<&'r Revision> {
        let mut n_tried: BTreeMap<&str, usize> = BTreeMap::new();
        let tried = self.memory.keys().filter_map(|uid| self.revisions.get(uid));
        for namespace in tried.filter_map(|revision| revision.namespace()) {
            *n_tried.entry(namespace).or_default() += 1;
        }
        let of = |revision: &Revision| {
            revision
                .namespace()
                .and_then(|name| n_tried.get(name).copied())
        };
        due.sort_by_key(|revision| of(revision).unwrap_or_default());
        due
    }

    /// How many crashes count against a revision, those before it was last given up included.
    fn n_crashes(&self, revision: &Revision) -> i32 {
        let earlier = initializer(revision).map_or(0, |by| by.crashes);
        self.crashes.n_counted(revision).saturating_add(earlier)
    }
}

/// The revisions that fit beside those that are being initialised, in the order in which they are due. Those of a
/// namespace that has its share wait, and others go first.
fn shared_out<'r>(
    running: &[&Revision],
    n_working: usize,
    due: Vec<&'r Revision>,
) -> Vec<&'r Revision> {
    let mut by_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for namespace in running.iter().filter_map(|revision| revision.namespace()) {
        *by_namespace.entry(namespace).or_default() += 1;
    }
    let mut n_namespaced: usize = by_namespace.values().sum();
    let mut chosen = Vec::new();
    for revision in due {
        if n_working + chosen.len() >= AT_ONCE {
            break;
        }
        if let Some(namespace) = revision.namespace() {
            let n_of_namespace = by_namespace.entry(namespace).or_default();
            if *n_of_namespace >= AT_ONCE_PER_NAMESPACE || n_namespaced >= AT_ONCE_NAMESPACED {
                continue;
            }
            *n_of_namespace += 1;
            n_namespaced += 1;
        }
        chosen.push(revision);
    }
    chosen
}

impl Job {
    fn of(revision: &Revision, crashes: &Crashes) -> Self {
        Self {
            uid: revision.uid.clone(),
            attempt: crashes.n_counted(revision) + 1,
            withdrawn: crashes.stale(revision),
            is_first: !is_scheduled(revision),
        }
    }
}

fn next(revision: &Revision, view: View<'_>) -> Next {
    let tried = view.memory.get(&revision.uid);
    let is_working = matches!(tried, Some(Tried::Working { .. }));
    if !revision.is_enabled || revision.is_initialized() || is_working {
        return Next::Nothing;
    }
    let n_new = view.crashes.n_counted(revision);
    let n_crashes = view.n_crashes(revision);
    if n_new > 0 && n_crashes >= retry::CRASHES {
        return Next::GiveUp { n_crashes };
    }
    let not_before = match tried {
        Some(Tried::Failed { again, .. }) => Some(*again),
        _ => None,
    };
    match failed_for(revision) {
        // The same input has the same result, except with another build, or after crashes.
        Some(reason) if retry::after(reason, 1, 0.0).is_none() && is_by(revision, view.build) => {
            let next = initializer(revision).and_then(|by| by.next_attempt.as_ref());
            next.map_or(Next::Nothing, |next| Next::Initialize {
                not_before: not_before.max(Some(view.now.moment_of(next.0))),
            })
        }
        _ => Next::Initialize { not_before },
    }
}

fn is_scheduled(revision: &Revision) -> bool {
    revision
        .condition(ConditionType::Scheduled, None)
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

fn initializer(revision: &Revision) -> Option<&Initializer> {
    revision.status()?.initializer.as_ref()
}

/// The reason of the last failure. A reason that only a newer server knows is retried.
fn failed_for(revision: &Revision) -> Option<InitializedReason> {
    let condition = revision.condition(ConditionType::Initialized, None)?;
    InitializedReason::parse(&condition.reason)
}

fn is_by(revision: &Revision, build: &Build) -> bool {
    initializer(revision).is_some_and(|by| {
        by.version.as_ref() == Some(&build.version)
            && by.config_hash.as_ref() == Some(&build.config_hash)
    })
}

#[cfg(test)]
mod tests;
