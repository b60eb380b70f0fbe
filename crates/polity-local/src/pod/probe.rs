//! Probes: which one is due, and what their answers amount to.
//!
//! As a kubelet has it: nothing else is asked before the startup probe succeeded; readiness begins as "no" and
//! liveness as "yes"; an answer counts once it came as often in a row as the threshold says. Only at the beginning it
//! is less patient: a process that is about to be ready is asked again soon, not a whole period later.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};

use super::{later, seconds};

/// How often readiness is asked for at first, and for how long.
const EAGER_PERIOD: Duration = Duration::from_millis(250);
const EAGER_FOR: Duration = Duration::from_secs(30);

/// What a probe decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// The probe of this kind that a container has.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// The answer of one probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure,
}

/// The thresholds and times of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    period: Duration,
    success_threshold: i32,
    failure_threshold: i32,
    /// What the process has to end, where the probe says so itself.
    pub(super) grace: Option<i64>,
}

impl Check {
    fn of(probe: &Probe) -> Self {
        let at_least_one = |number: Option<i32>, default: i32| number.unwrap_or(default).max(1);
        Self {
            period: seconds(at_least_one(probe.period_seconds, 10).into()),
            success_threshold: at_least_one(probe.success_threshold, 1),
            failure_threshold: at_least_one(probe.failure_threshold, 3),
            grace: probe.termination_grace_period_seconds,
        }
    }
}

/// One probe over the life of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    check: Check,
    next_at: Timestamp,
    /// Until when a "no" is asked about again soon.
    eager_until: Option<Timestamp>,
    in_flight: bool,
    last: Option<Verdict>,
    in_a_row: i32,
    /// What the thresholds made of the answers so far.
    result: Option<Verdict>,
}

impl Asked {
    fn new(kind: Kind, probe: &Probe, started: Timestamp) -> Self {
        let delay = seconds(probe.initial_delay_seconds.unwrap_or(0).into());
        let next_at = later(started, delay);
        Self {
            check: Check::of(probe),
            next_at,
            eager_until: (kind == Kind::Readiness).then(|| later(next_at, EAGER_FOR)),
            in_flight: false,
            last: None,
            in_a_row: 0,
            result: None,
        }
    }

    fn answered(&mut self, verdict: Verdict, now: Timestamp) {
        self.in_flight = false;
        let is_eager = self.eager_until.is_some_and(|until| now < until);
        self.next_at = match verdict {
            Verdict::Failure if is_eager => later(now, EAGER_PERIOD.min(self.check.period)),
            Verdict::Success | Verdict::Failure => later(now, self.check.period),
        };
        if verdict == Verdict::Success {
            self.eager_until = None;
        }
        self.in_a_row = match self.last == Some(verdict) {
            true => self.in_a_row.saturating_add(1),
            false => 1,
        };
        self.last = Some(verdict);
        let threshold = match verdict {
            Verdict::Success => self.check.success_threshold,
            Verdict::Failure => self.check.failure_threshold,
        };
        if self.in_a_row >= threshold {
            self.result = Some(verdict);
        }
    }
}

/// The probes of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probes(BTreeMap<Kind, Asked>);

impl Probes {
    pub(super) fn new(container: Option<&Container>, started: Timestamp) -> Self {
        let asked = |kind: Kind| Some((kind, Asked::new(kind, kind.of(container?)?, started)));
        let kinds = [Kind::Startup, Kind::Liveness, Kind::Readiness];
        Self(kinds.into_iter().filter_map(asked).collect())
    }

    /// Whether the startup probe, if there is one, has succeeded.
    pub(super) fn has_started(&self) -> bool {
        self.agrees(Kind::Startup)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_started() && self.agrees(Kind::Readiness)
    }

    /// The probe that condemned the process.
    pub(super) fn failed(&self) -> Option<&Check> {
        [Kind::Startup, Kind::Liveness]
            .into_iter()
            .filter_map(|kind| self.0.get(&kind))
            .find(|asked| asked.result == Some(Verdict::Failure))
            .map(|asked| &asked.check)
    }

    /// The probes to ask now; each is asked once until its answer is there.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Kind> {
        let has_started = self.has_started();
        let mut due = Vec::new();
        for (kind, asked) in &mut self.0 {
            if is_active(*kind, has_started) && !asked.in_flight && asked.next_at <= now {
                asked.in_flight = true;
                due.push(*kind);
            }
        }
        due
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let has_started = self.has_started();
        self.0
            .iter()
            .filter(|(kind, asked)| is_active(**kind, has_started) && !asked.in_flight)
            .map(|(_, asked)| asked.next_at)
            .min()
    }

    pub(super) fn answered(&mut self, kind: Kind, verdict: Verdict, now: Timestamp) {
        if let Some(asked) = self.0.get_mut(&kind) {
            asked.answered(verdict, now);
        }
    }

    fn agrees(&self, kind: Kind) -> bool {
        let asked = self.0.get(&kind);
        asked.is_none_or(|asked| asked.result == Some(Verdict::Success))
    }
}

/// The startup probe is asked alone, and never again once it has succeeded.
fn is_active(kind: Kind, has_started: bool) -> bool {
    (kind == Kind::Startup) != has_started
}
