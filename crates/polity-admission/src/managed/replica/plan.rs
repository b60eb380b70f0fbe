//! What a replica does next: what it loads and lets go, what it says about each revision, whether it is ready.
//!
//! Decided from the revisions, from what the replica itself has, and from the time. Whatever it has stays loaded as long
//! as it is enabled: a failure takes nothing away.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use polity_api::policies::v1::{ConditionStatus, ConditionType, ReadyReason};
use polity_runtime::Moment;

use crate::managed::retry::{self, backoff};
use crate::managed::revision::{Revision, Revisions, Uid};
use crate::managed::status::Says;

/// What a replica has of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Local {
    /// It is being loaded; so many times in a row it failed before.
    Loading { n_failures: u32 },
    /// It is served.
    Loaded,
    /// It could not be loaded.
    Failed {
        why: LoadFailure,
        n_failures: u32,
        again: Again,
    },
}

/// Why a revision could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadFailure {
    pub(crate) reason: ReadyReason,
    pub(crate) message: String,
}

/// When it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Then.
    At(Moment),
    /// A while after everything else is served, since it may crash the process.
    OnceReady,
}

/// What a replica has of all revisions.
pub(crate) type Locals = BTreeMap<Uid, Local>;

/// Everything a decision depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The revisions of this server, as of a complete list at least.
    pub(crate) revisions: &'a Revisions,
    pub(crate) locals: &'a Locals,
    /// Our number.
    pub(crate) replica: i32,
    /// When we became ready for the first time.
    pub(crate) ready_since: Option<Moment>,
    pub(crate) now: Moment,
}

impl View<'_> {
    /// Whether the replica is not ready without a revision: it serves, or takes over at a start.
    fn is_held_up_by(&self, revision: &Revision) -> bool {
        revision.is_serving || (revision.is_takeover && self.ready_since.is_none())
    }
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Load these, in this order.
    pub(crate) load: Vec<Uid>,
    /// Let go of these.
    pub(crate) unload: Vec<Uid>,
    /// Say this, since the status says something else.
    pub(crate) say: Vec<(Uid, Says)>,
    /// These serve and are not loaded: while there are any, the replica is not ready.
    pub(crate) missing: Vec<Uid>,
    /// Starting makes no sense without these: say so, and end.
    pub(crate) give_up: Vec<Uid>,
    /// Look again then, if nothing happens before.
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

    /// Plans for one revision that is enabled.
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
        if view.is_held_up_by(revision)
            && revision.is_initialized()
            && local != Some(&Local::Loaded)
        {
            self.missing.push(revision.uid.clone());
        }
        if let Some(says) = says(revision, local, view) {
            self.say.push((revision.uid.clone(), says));
        }
    }

    /// A start fails when all that serves has been tried, so that everything that is wrong is said.
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
            again, n_failures, ..
        }) => match (again, view.ready_since) {
            (Again::At(moment), _) => *moment,
            (Again::OnceReady, Some(ready)) => ready + once_ready(*n_failures),
            (Again::OnceReady, None) => return Due::Never,
        },
    };
    if moment <= view.now {
        Due::Now
    } else {
        Due::At(moment)
    }
}

/// What the replica has to say, if the status does not say so yet.
fn says(revision: &Revision, local: Option<&Local>, view: View<'_>) -> Option<Says> {
    let said = revision.condition(ConditionType::Ready, Some(view.replica));
    let says = match local {
        Some(Local::Loaded) => Says::Ready,
        Some(Local::Failed { why, .. }) => Says::NotReady {
            reason: why.reason,
            message: why.message.clone(),
        },
        // On its way. Only what is no longer true has to be taken back; not by a start that waits for it, since that
        // takes no requests before it is true again.
        Some(Local::Loading { .. }) | None => {
            let is_stale = said.is_some_and(|said| said.status == ConditionStatus::True);
            let is_waited_for = view.ready_since.is_none() && view.is_held_up_by(revision);
            return (is_stale && !is_waited_for).then_some(Says::Pending);
        }
    };
    let is_said = said.is_some_and(|said| says.is_said_by(said));
    (!is_said).then_some(says)
}

/// Revisions whose place another one took: the same generation of a policy that was created again.
fn replaced(revisions: &Revisions) -> Vec<Uid> {
    let mut newest: HashMap<(&str, u64), &Revision> = HashMap::new();
    let mut replaced = Vec::new();
    for revision in revisions.values().filter(|revision| revision.is_enabled) {
        let place = (&*revision.id, revision.generation);
        let age = |revision: &Revision| (revision.created, revision.uid.clone());
        match newest.get(&place) {
            Some(other) if age(other) > age(revision) => replaced.push(revision.uid.clone()),
            Some(other) => {
                replaced.push(other.uid.clone());
                newest.insert(place, revision);
            }
            None => {
                newest.insert(place, revision);
            }
        }
    }
    replaced
}

/// What a replica begins with for a revision during whose loading earlier processes crashed. A revision that serves is
/// tried all the same: there is no start without it.
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
        again: Again::OnceReady,
    })
}

/// How long a replica serves the other revisions before it loads one that crashed it so often.
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
