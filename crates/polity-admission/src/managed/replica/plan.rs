//! Plans the next step of a replica: which revisions it loads and unloads, what it reports about each of them, and whether
//! it is ready.
//!
//! The plan is a function of the revisions, of the state of this replica, and of the time. A loaded revision stays loaded
//! as long as it is enabled: a failure never unloads it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use polity_api::policies::v1::{ConditionStatus, ConditionType, ReadyReason};
use polity_runtime::Moment;

use crate::managed::retry::{self, backoff};
use crate::managed::revision::{Revision, Revisions, Uid};
use crate::managed::status::ReadyReport;

/// The state of a revision in this replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Local {
    /// It is being loaded, after `n_failures` failures in a row.
    Loading { n_failures: u32 },
    /// It is loaded and served.
    Loaded,
    /// The last attempt to load it failed.
    Failed {
        why: LoadFailure,
        n_failures: u32,
        retry: Retry,
    },
}

/// Why a revision could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadFailure {
    pub(crate) reason: ReadyReason,
    pub(crate) message: String,
}

/// When a failed load is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At this moment.
    At(Moment),
    /// A while after everything else is served, because it may crash the process.
    OnceReady,
}

/// The state of all revisions in this replica.
pub(crate) type Locals = BTreeMap<Uid, Local>;

/// Everything a plan depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The revisions of this server, as of a complete list at least.
    pub(crate) revisions: &'a Revisions,
    pub(crate) locals: &'a Locals,
    /// The ordinal of this replica.
    pub(crate) replica: i32,
    /// When this replica became ready for the first time.
    pub(crate) ready_since: Option<Moment>,
    pub(crate) now: Moment,
}

impl View<'_> {
    /// Whether readiness waits for a revision: it serves, or it takes over at a start.
    fn waits_for(&self, revision: &Revision) -> bool {
        revision.is_serving || (revision.is_takeover && self.ready_since.is_none())
    }
}

/// The next step of a replica.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The revisions to load, in this order.
    pub(crate) load: Vec<Uid>,
    /// The revisions to unload.
    pub(crate) unload: Vec<Uid>,
    /// The reports to write: those that the status does not have yet.
    pub(crate) reports: Vec<(Uid, ReadyReport)>,
    /// The revisions that serve and are not loaded. The replica is not ready while there are any.
    pub(crate) missing: Vec<Uid>,
    /// The revisions without which the replica cannot start: it reports them and ends.
    pub(crate) give_up: Vec<Uid>,
    /// When to plan again, if nothing changes before.
    pub(crate) look_again: Option<Moment>,
}

impl Plan {
    /// Plans for all revisions.
    pub(crate) fn of(view: View<'_>) -> Self {
        let mut plan = Self::default();
        let replaced = replaced(view.revisions);
        let mut revisions: Vec<&Revision> = view.revisions.values().map(|one| &**one).collect();
        revisions.sort_by_key(|revision| revision.urgency());
        for revision in revisions {
            if revision.is_enabled && !replaced.contains(&revision.uid) {
                plan.keep(revision, view);
            }
        }
        let is_kept = |uid: &Uid| {
            let revision = view.revisions.get(uid);
            revision.is_some_and(|revision| revision.is_enabled) && !replaced.contains(uid)
        };
        let gone = view.locals.keys().filter(|uid| !is_kept(uid));
        plan.unload = gone.cloned().collect();
        plan.settle(view);
        plan
    }

    /// Plans for one enabled revision.
    fn keep(&mut self, revision: &Revision, view: View<'_>) {
        let local = view.locals.get(&revision.uid);
        match due(local, view) {
            Due::Now if revision.is_initialized() => self.load.push(revision.uid.clone()),
            Due::At(moment) => {
                let earliest = self.look_again.map_or(moment, |other| other.min(moment));
                self.look_again = Some(earliest);
            }
            Due::Now | Due::Never => {}
        }
        if view.waits_for(revision) && revision.is_initialized() && local != Some(&Local::Loaded) {
            self.missing.push(revision.uid.clone());
        }
        if let Some(report) = report(revision, local, view) {
            self.reports.push((revision.uid.clone(), report));
        }
    }

    /// A start fails after every serving revision was tried, so that every failure is reported.
    fn settle(&mut self, view: View<'_>) {
        if view.ready_since.is_some() {
            return;
        }
        let serving = self.missing.iter().filter(|uid| {
            let revision = view.revisions.get(*uid);
            revision.is_some_and(|revision| revision.is_serving)
        });
        let (failed, trying): (Vec<&Uid>, Vec<&Uid>) =
            serving.partition(|uid| matches!(view.locals.get(*uid), Some(Local::Failed { .. })));
        if trying.is_empty() {
            self.give_up = failed.into_iter().cloned().collect();
        }
    }
}

enum Due {
    Now,
    At(Moment),
    Never,
}

/// When a revision is to be loaded.
fn due(local: Option<&Local>, view: View<'_>) -> Due {
    let moment = match local {
        None => return Due::Now,
        Some(Local::Loading { .. } | Local::Loaded) => return Due::Never,
        Some(Local::Failed {
            retry, n_failures, ..
        }) => match (retry, view.ready_since) {
            (Retry::At(moment), _) => *moment,
            (Retry::OnceReady, Some(ready)) => ready + once_ready(*n_failures),
            (Retry::OnceReady, None) => return Due::Never,
        },
    };
    if moment <= view.now {
        Due::Now
    } else {
        Due::At(moment)
    }
}

/// What the replica reports about a revision, if its status does not have that report yet.
fn report(revision: &Revision, local: Option<&Local>, view: View<'_>) -> Option<ReadyReport> {
    let written = revision.condition(ConditionType::Ready, Some(view.replica));
    let report = match local {
        Some(Local::Loaded) => ReadyReport::Ready,
        Some(Local::Failed { why, .. }) => ReadyReport::NotReady {
            reason: why.reason,
            message: why.message.clone(),
        },
        // Being loaded. A condition that is no longer true has to be withdrawn; but not at a start that waits for this
        // revision, since the replica takes no requests before the condition is true again.
        Some(Local::Loading { .. }) | None => {
            let is_stale = written.is_some_and(|written| written.status == ConditionStatus::True);
            let is_waited_for = view.ready_since.is_none() && view.waits_for(revision);
            return (is_stale && !is_waited_for).then_some(ReadyReport::Pending);
        }
    };
    let is_written = written.is_some_and(|written| report.matches(written));
    (!is_written).then_some(report)
}

/// Revisions that another one replaces: the same generation of a policy that was deleted and created again.
fn replaced(revisions: &Revisions) -> Vec<Uid> {
    let mut newest: HashMap<(&str, u64), &Revision> = HashMap::new();
    let mut replaced = Vec::new();
    for revision in revisions.values().filter(|revision| revision.is_enabled) {
        let key = (&*revision.id, revision.generation);
        let age = |revision: &Revision| (revision.created, revision.uid.clone());
        match newest.get(&key) {
            Some(other) if age(other) > age(revision) => replaced.push(revision.uid.clone()),
            Some(other) => {
                replaced.push(other.uid.clone());
                newest.insert(key, revision);
            }
            None => {
                newest.insert(key, revision);
            }
        }
    }
    replaced
}

/// The initial state of a revision whose loading crashed earlier processes. A revision that serves is loaded all the
/// same, because the replica cannot start without it.
pub(crate) fn after_crashes(revision: &Revision, n_crashes: u32) -> Option<Local> {
    if revision.is_serving || n_crashes == 0 {
        return None;
    }
    let times = match n_crashes {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let minutes = once_ready(n_crashes).as_secs() / 60;
    let next = match minutes {
        0 => String::new(),
        1 => " The next attempt is made 1 minute after the replica is ready.".to_owned(),
        n => format!(" The next attempt is made {n} minutes after the replica is ready."),
    };
    Some(Local::Failed {
        why: LoadFailure {
            reason: ReadyReason::LoadError,
            message: format!("The policy server ended {times} while it loaded the policy.{next}"),
        },
        n_failures: n_crashes,
        retry: Retry::OnceReady,
    })
}

/// How long a replica serves the other revisions before it loads one that crashed it `n_crashes` times.
fn once_ready(n_crashes: u32) -> Duration {
    let n = i32::try_from(n_crashes).unwrap_or(i32::MAX);
    if n < retry::CRASHES {
        backoff(n_crashes, 0.0)
    } else {
        retry::after_crashes(n)
    }
}

#[cfg(test)]
mod tests;
