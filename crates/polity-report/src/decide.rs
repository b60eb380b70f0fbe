//! Decides from cached metadata alone what a background pass has to do for one object. See docs/spec/reports.md#6-2.
//!
//! The object itself is fetched only where the decision says so, once, and every policy that is due runs on that copy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::ReportingKind;
use crate::read::Metadata;
use crate::resource_report::is_current;
use crate::source::ReportKey;

/// What is known about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceState {
    /// The hash of [`crate::hash::resource_hash`].
    pub hash: String,
    /// Whether the hash is that of a copy that was just fetched; a cache may lag behind what was admitted.
    pub is_confirmed: bool,
    pub is_deleting: bool,
    pub kind: KindState,
}

/// Whether objects of a kind are reported about at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindState {
    /// Some policy selects it, in the background or not; or it is related to a configuration policy.
    Selected,
    /// No policy selects it, or it is one of those that never are ([`crate::kinds`]).
    NotSelected,
    /// Its definition is gone.
    NotServed,
}

/// A policy of the cluster or of the object's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyState {
    pub policy: ReportKey,
    pub serving: Serving,
    /// Whether background processing is enabled and possible.
    pub is_background: bool,
    /// Whether it applies to this object ([`crate::applies`]).
    pub applies: bool,
    /// Whether it asks not to be reported about.
    pub is_disabled: bool,
}

/// Which revision of a policy answers requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// One of this version.
    Version(String),
    /// None any more, since then: its entries are kept for a while, without evaluation.
    Lost { since: Timestamp },
    /// None, and there never was one: it applies to nothing.
    Never,
}

/// When a pass happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    pub now: Timestamp,
    /// When the object was last looked at in full ([`crate::shard::presumed_last_pass`] after a start).
    pub last: Timestamp,
    pub times: Times,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Between two evaluations of what did not change.
    pub interval: Duration,
    /// A report without an owner may be this old.
    pub orphan_grace: Duration,
    /// Entries of a policy that lost its serving revision are kept this long.
    pub serving_grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            interval: Duration::from_hours(1),
            orphan_grace: Duration::from_mins(2),
            serving_grace: Duration::from_mins(5),
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Nothing,
    /// Delete the report.
    Delete,
    /// Fetch the object, evaluate these, create the report.
    Create {
        evaluate: BTreeSet<ReportKey>,
    },
    Update(Update),
}

/// What is to be done about an existing report: at most one fetch, one batch of evaluations and one write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Update {
    /// Evaluate these on one fetched copy.
    pub evaluate: BTreeMap<ReportKey, Why>,
    /// Remove what these say.
    pub remove: BTreeSet<ReportKey>,
    /// Fetch the object and decide again with its hash before anything of an older object is removed.
    pub confirm: bool,
}

impl Update {
    /// Whether the object must be fetched.
    pub fn needs_object(&self) -> bool {
        self.confirm || !self.evaluate.is_empty()
    }
}

/// Why a policy is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It applies, and never said anything.
    Missing,
    /// It said something as another version.
    Outdated,
    /// It said something about an older object.
    OldObject,
    /// What it said is fresh, but old: data from elsewhere may have changed. Written only if the verdict differs.
    Elapsed,
}

/// How the entry of a policy stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No label, and none is due.
    Absent,
    Missing,
    Outdated,
    OldObject,
    Extra,
    Fresh,
    Elapsed,
    /// No revision serves for the moment.
    Kept,
}

/// The decision about one object. Every input has an answer.
pub fn decide(
    resource: Option<&ResourceState>,
    report: Option<&Metadata>,
    policies: &[PolicyState],
    managed_by: &str,
    pass: &Pass,
) -> Decision {
    if let Some(report) = report {
        let is_ours = report
            .labels
            .get(crate::MANAGED_BY)
            .is_some_and(|by| by == managed_by);
        if !is_ours {
            return Decision::Nothing;
        }
        if is_orphan(report, pass) {
            return Decision::Delete;
        }
    }
    // Gone, or going: the collector takes the report with it.
    let Some(resource) = resource.filter(|resource| !resource.is_deleting) else {
        return Decision::Nothing;
    };
    match (report, resource.kind) {
        (Some(_), KindState::NotSelected | KindState::NotServed) => Decision::Delete,
        (None, KindState::NotSelected | KindState::NotServed) => Decision::Nothing,
        (None, KindState::Selected) => first_report(policies),
        (Some(report), KindState::Selected) => update(resource, report, policies, pass),
    }
}

/// Whether nothing will ever collect a report.
fn is_orphan(report: &Metadata, pass: &Pass) -> bool {
    report.owners.is_empty()
        && report
            .created
            .is_some_and(|created| has_passed(created, pass.times.orphan_grace, pass.now))
}

fn first_report(policies: &[PolicyState]) -> Decision {
    let evaluate: BTreeSet<_> = policies
        .iter()
        .filter(|policy| policy.is_background && policy.wanted_version().is_some())
        .map(|policy| policy.policy.clone())
        .collect();
    if evaluate.is_empty() {
        Decision::Nothing
    } else {
        Decision::Create { evaluate }
    }
}

fn update(
    resource: &ResourceState,
    report: &Metadata,
    policies: &[PolicyState],
    pass: &Pass,
) -> Decision {
    let mut update = Update::default();
    let mut known = BTreeSet::new();
    for policy in policies {
        known.insert(policy.policy.label_key());
        let key = policy.policy.clone();
        match (policy.state(resource, report, pass), policy.is_background) {
            (State::Absent | State::Fresh | State::Kept, _)
            | (State::Missing | State::Elapsed, false) => {}
            (State::Missing, true) => {
                update.evaluate.insert(key, Why::Missing);
            }
            (State::Outdated, true) => {
                update.evaluate.insert(key, Why::Outdated);
            }
            (State::OldObject, true) => {
                update.evaluate.insert(key, Why::OldObject);
            }
            (State::Elapsed, true) => {
                update.evaluate.insert(key, Why::Elapsed);
            }
            (State::OldObject, false) if !resource.is_confirmed => update.confirm = true,
            (State::Extra, _) | (State::Outdated | State::OldObject, false) => {
                update.remove.insert(key);
            }
        }
    }
    // Labels of policies that no longer exist.
    let annotation = |key: &str| report.annotations.get(key).map(String::as_str);
    let mut n_labels = 0;
    for label in report.labels.keys() {
        let Some(policy) = ReportKey::from_label(label, annotation) else {
            continue;
        };
        n_labels += 1;
        if !known.contains(label) {
            update.remove.insert(policy);
        }
    }
    let is_left_empty = n_labels == update.remove.len() && !update.needs_object();
    if is_left_empty {
        Decision::Delete
    } else if update == Update::default() {
        Decision::Nothing
    } else {
        Decision::Update(update)
    }
}

impl PolicyState {
    /// The version an entry should have, if there should be one.
    fn wanted_version(&self) -> Option<&str> {
        match &self.serving {
            Serving::Version(version) if self.applies && !self.is_disabled => Some(version),
            _ => None,
        }
    }

    fn state(&self, resource: &ResourceState, report: &Metadata, pass: &Pass) -> State {
        let label = report.labels.get(&self.policy.label_key());
        let Some(wanted) = self.wanted_version() else {
            return match (&self.serving, label) {
                (_, None) => State::Absent,
                (Serving::Lost { since }, Some(_))
                    if self.applies
                        && !self.is_disabled
                        && !has_passed(*since, pass.times.serving_grace, pass.now) =>
                {
                    State::Kept
                }
                (_, Some(_)) => State::Extra,
            };
        };
        let Some(label) = label else {
            return State::Missing;
        };
        if label != wanted {
            return State::Outdated;
        }
        // Entries taken from a status know neither the object's hash nor an interval.
        if self.policy.kind() == ReportingKind::Configuration {
            return State::Fresh;
        }
        let hash = report.annotations.get(&self.policy.hash_key());
        if !is_current(hash.map(String::as_str), &resource.hash) {
            return State::OldObject;
        }
        if has_passed(pass.last, pass.times.interval, pass.now) {
            State::Elapsed
        } else {
            State::Fresh
        }
    }
}

fn has_passed(since: Timestamp, limit: Duration, now: Timestamp) -> bool {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    now.duration_since(since) >= limit
}

#[cfg(test)]
mod tests;
