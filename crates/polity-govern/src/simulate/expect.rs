//! Whether a simulation goes as it should.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_core::governance::Compliance;
use polity_core::rollout_strategy::{GroupKey, RolloutStatus};
use polity_core::{ClusterName, ObjectKey};

use super::clock;
use super::run::SimulationError;
use super::scenario::{Expectation, Never, State};
use super::timeline::{Broken, ClusterChange, Moment};

/// A root policy and its clusters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) exists: bool,
    pub(super) rollout_status: Option<RolloutStatus>,
    pub(super) compliant: Option<Compliance>,
    pub(super) breach: bool,
    pub(super) clusters: BTreeMap<ClusterName, Seen>,
}

/// A policy on a cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) placement: String,
    pub(super) group: GroupKey,
    pub(super) status: RolloutStatus,
    pub(super) enforcing: bool,
    pub(super) soaking: bool,
}

impl Seen {
    pub(super) fn change(
        &self,
        policy: &ObjectKey,
        cluster: &ClusterName,
        is_gone: bool,
    ) -> ClusterChange {
        ClusterChange {
            policy: policy.to_string(),
            cluster: cluster.clone(),
            placement: self.placement.clone(),
            group_index: self.group.index,
            group_name: self.group.name.to_string(),
            status: (!is_gone).then(|| self.status.to_string()),
            enforcing: self.enforcing && !is_gone,
            soaking: self.soaking && !is_gone,
        }
    }

    /// Handed out, and no success yet.
    fn is_in_flight(&self) -> bool {
        self.enforcing
            && matches!(
                self.status,
                RolloutStatus::Progressing | RolloutStatus::Failed
            )
    }
}

type Policies = BTreeMap<ObjectKey, Snapshot>;

/// The expectations of a scenario, and the first that did not hold.
pub(super) struct Checks<'a> {
    timed: Vec<(Timestamp, usize, &'a State)>,
    never: Vec<(usize, &'a Never)>,
    end: Vec<(usize, &'a State)>,
    broken: Option<Broken>,
}

impl<'a> Checks<'a> {
    pub(super) fn of(
        expectations: &'a [Expectation],
        start: Timestamp,
    ) -> Result<Self, SimulationError> {
        let mut checks = Self {
            timed: Vec::new(),
            never: Vec::new(),
            end: Vec::new(),
            broken: None,
        };
        for (index, expectation) in expectations.iter().enumerate() {
            let wrong = |message: String| SimulationError::Expectation { index, message };
            let Expectation { at, is, never, end } = expectation;
            match (at, is, never, end) {
                (Some(at), Some(state), None, None) => {
                    let at = clock::parse(at, start).map_err(|error| wrong(error.to_string()))?;
                    if at < start {
                        return Err(wrong("is before the start".to_owned()));
                    }
                    check_words(&state.clusters, state.root.as_deref()).map_err(wrong)?;
                    checks.timed.push((at, index, state));
                }
                (None, None, Some(never), None) => {
                    check_words(&never.clusters, never.root.as_deref()).map_err(wrong)?;
                    checks.never.push((index, never));
                }
                (None, None, None, Some(state)) => {
                    check_words(&state.clusters, state.root.as_deref()).map_err(wrong)?;
                    checks.end.push((index, state));
                }
                _ => {
                    return Err(wrong(
                        "write either `at` with `is`, or `never`, or `end`".to_owned(),
                    ));
                }
            }
        }
        checks.timed.sort_by_key(|(at, index, _)| (*at, *index));
        Ok(checks)
    }

    /// Looks at a moment; everything at it has happened.
    pub(super) fn look(&mut self, now: Timestamp, policies: &Policies, moment: &Moment) {
        if self.broken.is_some() {
            return;
        }
        for (at, index, state) in &self.timed {
            if *at == now
                && let Err(message) = holds(state, policies)
            {
                self.broken = Some(broken(now, *index, message));
                return;
            }
        }
        // Nothing that is never so can have begun without a change.
        if moment.is_empty() {
            return;
        }
        for (index, never) in &self.never {
            if let Err(message) = happens(never, policies) {
                self.broken = Some(broken(now, *index, message));
                return;
            }
        }
    }

    /// The next time that an expectation is about.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.timed.iter().map(|(at, ..)| *at).find(|at| *at > now)
    }

    pub(super) fn finish(self, end: Timestamp, policies: &Policies) -> Option<Broken> {
        self.broken.or_else(|| {
            let mut states = self.end.iter();
            states
                .find_map(|(index, state)| Some(broken(end, *index, holds(state, policies).err()?)))
        })
    }
}

fn broken(at: Timestamp, index: usize, message: String) -> Broken {
    Broken { at, index, message }
}

fn check_words(clusters: &BTreeMap<String, String>, root: Option<&str>) -> Result<(), String> {
    let is_state = |word: &str| {
        matches!(word, "enforcing" | "informing" | "absent") || RolloutStatus::parse(word).is_some()
    };
    if let Some(word) = clusters.values().find(|word| !is_state(word)) {
        return Err(format!(
            "{word:?} is no state of a cluster: enforcing, informing, absent, ToApply, Progressing, Succeeded, Failed, TimeOut"
        ));
    }
    match root {
        Some(word) if word != "None" && RolloutStatus::parse(word).is_none() => Err(format!(
            "{word:?} is no rollout status: Progressing, Succeeded, Failed or None"
        )),
        _ => Ok(()),
    }
}

fn find<'p>(named: Option<&str>, policies: &'p Policies) -> Result<&'p Snapshot, String> {
    let mut found = policies
        .iter()
        .filter(|(key, _)| named.is_none_or(|name| key.name == name || key.to_string() == name));
    match (found.next(), found.next(), named) {
        (Some((_, snapshot)), None, _) => Ok(snapshot),
        (None, _, Some(name)) => Err(format!("there is no policy {name}")),
        (None, _, None) => Err("there is no policy".to_owned()),
        (Some(_), Some(_), _) => {
            Err("there are several policies: say which one by `policy`".to_owned())
        }
    }
}

/// Whether a cluster is as a word says; if not, what it is.
fn is(word: &str, seen: Option<&Seen>) -> Result<(), String> {
    let found = match seen {
        None => "absent".to_owned(),
        Some(seen) => {
            let action = if seen.enforcing {
                "enforcing"
            } else {
                "informing"
            };
            format!("{action}, {}", seen.status)
        }
    };
    let holds = match (word, seen) {
        ("absent", None) => true,
        (_, None) | ("absent", Some(_)) => false,
        ("enforcing", Some(seen)) => seen.enforcing,
        ("informing", Some(seen)) => !seen.enforcing,
        (status, Some(seen)) => seen.status.as_str() == status,
    };
    if holds { Ok(()) } else { Err(found) }
}

fn holds(state: &State, policies: &Policies) -> Result<(), String> {
    let snapshot = find(state.policy.as_deref(), policies)?;
    let root = snapshot
        .rollout_status
        .map_or("None".to_owned(), |status| status.to_string());
    if let Some(wanted) = state.root.as_ref().filter(|wanted| **wanted != root) {
        return Err(format!("expected the rollout to be {wanted}, found {root}"));
    }
    let compliant = snapshot
        .compliant
        .map_or("None".to_owned(), |compliance| compliance.to_string());
    if let Some(wanted) = state
        .compliant
        .as_ref()
        .filter(|wanted| **wanted != compliant)
    {
        return Err(format!(
            "expected the policy to be {wanted}, found {compliant}"
        ));
    }
    for (name, word) in &state.clusters {
        if name == "*" {
            for (name, seen) in &snapshot.clusters {
                is(word, Some(seen))
                    .map_err(|found| format!("expected {name} to be {word}, found {found}"))?;
            }
        } else {
            is(word, snapshot.clusters.get(name.as_str()))
                .map_err(|found| format!("expected {name} to be {word}, found {found}"))?;
        }
    }
    Ok(())
}

/// `Err` when what must never be so is so.
fn happens(never: &Never, policies: &Policies) -> Result<(), String> {
    let Ok(snapshot) = find(never.policy.as_deref(), policies) else {
        return Ok(());
    };
    let in_flight: Vec<&str> = snapshot
        .clusters
        .iter()
        .filter(|(_, seen)| seen.is_in_flight())
        .map(|(name, _)| name.as_str())
        .collect();
    if let Some(most) = never
        .more_in_flight_than
        .filter(|most| in_flight.len() > *most)
    {
        let found = in_flight.len();
        return Err(format!(
            "never more than {most} in flight, found {found}: {}",
            in_flight.join(", ")
        ));
    }
    let root = snapshot
        .rollout_status
        .map_or("None", RolloutStatus::as_str);
    if never.root.as_deref() == Some(root) {
        return Err(format!("the rollout must never be {root}"));
    }
    for (name, word) in &never.clusters {
        let all = snapshot
            .clusters
            .iter()
            .filter(|(found, _)| name == "*" || name == found.as_str());
        for (found, seen) in all {
            if is(word, Some(seen)).is_ok() {
                return Err(format!("{found} must never be {word}"));
            }
        }
    }
    Ok(())
}
