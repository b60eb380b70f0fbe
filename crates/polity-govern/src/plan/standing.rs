//! Where one cluster stands in a rollout, and what the hub notes about it.

use std::collections::BTreeMap;

use crate::objects::PolicyStatus;
use jiff::{SignedDuration, Timestamp};
use polity_core::ClusterName;
use polity_core::governance::Compliance;
use polity_core::rollout_strategy::{RolloutStatus, RolloutStrategy};
use polity_rollout::ClusterState;

use super::{Effective, Rollout, Turn};
use crate::mark::{Mark, Phase, Version};

/// What the hub is about to do with a cluster.
pub(super) enum Course {
    /// Its replica cannot be written; other clusters do not wait for it.
    Unwritable { why: String },
    /// Its replica has another version, or there is none.
    FirstPass,
    /// Has the inform copy of this version.
    Waiting,
    /// Is handed out now.
    HandedOut,
    /// Has the policy as it is defined.
    Running,
}

pub(super) struct Standing {
    pub(super) course: Course,
    /// As it should be written; none when nothing can be.
    pub(super) mark: Option<Mark>,
    pub(super) verdict: Verdict,
}

/// How far a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Waiting,
    Open,
    Failed,
    Done,
}

/// What a cluster says about the copy it has, as far as the hub believes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    outcome: Outcome,
    /// When the cluster reported it, by its own clock; only where nothing else distinguishes new reports from old ones.
    reported_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    None,
    Succeeded,
    Failed,
}

impl Verdict {
    pub(super) fn none() -> Self {
        Self {
            outcome: Outcome::None,
            reported_at: None,
        }
    }

    /// Reads a report. One about another step is stale: it counts neither for nor against.
    pub(super) fn of(mark: &Mark, status: &PolicyStatus, clock_is_off: bool) -> Self {
        let Some(step) = &status.rollout_step else {
            return Self::by_time(mark, status, clock_is_off);
        };
        let outcome = match status.rollout_status {
            Some(RolloutStatus::Succeeded) => Outcome::Succeeded,
            Some(RolloutStatus::Failed) => Outcome::Failed,
            _ => Outcome::None,
        };
        Self {
            outcome: if *step == mark.step.to_string() {
                outcome
            } else {
                Outcome::None
            },
            reported_at: None,
        }
    }

    /// A managed side that knows no rollouts says nothing about steps: its compliance counts when it is newer than the
    /// step. Once it has counted, it goes on counting.
    fn by_time(mark: &Mark, status: &PolicyStatus, clock_is_off: bool) -> Self {
        let reported_at = status.newest_report();
        let is_new =
            mark.phase == Phase::Succeeded || reported_at.is_some_and(|at| at > mark.since);
        let outcome = match status.compliant {
            _ if clock_is_off || !is_new => Outcome::None,
            Some(Compliance::Compliant) => Outcome::Succeeded,
            Some(Compliance::NonCompliant) => Outcome::Failed,
            Some(Compliance::Pending) | None => Outcome::None,
        };
        Self {
            outcome,
            reported_at,
        }
    }

    pub(super) fn status(self) -> RolloutStatus {
        match self.outcome {
            Outcome::None => RolloutStatus::Progressing,
            Outcome::Succeeded => RolloutStatus::Succeeded,
            Outcome::Failed => RolloutStatus::Failed,
        }
    }
}

/// Whether drifts are recorded: while any cluster waits or soaks. Afterwards the writes to every cluster of a fleet
/// would have no use.
pub(super) fn keeps_books(
    standings: &BTreeMap<ClusterName, Standing>,
    effective: &Effective,
    now: Timestamp,
) -> bool {
    effective.is_progressive()
        && standings.values().any(|standing| match standing.course {
            Course::Unwritable { .. } | Course::FirstPass | Course::Waiting | Course::HandedOut => {
                true
            }
            Course::Running => {
                standing.verdict.outcome == Outcome::Succeeded && {
                    let begun = standing
                        .mark
                        .as_ref()
                        .filter(|mark| mark.phase == Phase::Succeeded);
                    let since = begun.map_or(now, |mark| mark.since);
                    later(since, effective.soak()) > now
                }
            }
        })
}

/// Failed clusters hold every slot, and nothing will ever free one.
pub(super) fn stands_still(effective: &Effective, rollout: &Rollout) -> bool {
    let turns = || rollout.clusters.values().map(|cluster| &cluster.turn);
    let moves = |turn: &Turn| {
        matches!(
            turn,
            Turn::FirstPass | Turn::HandedOut | Turn::Running { .. } | Turn::Soaking { .. }
        )
    };
    matches!(effective.strategy, RolloutStrategy::Progressive(_))
        && effective.deadline().is_none()
        && rollout.refused.is_none()
        && !rollout.breach
        && turns().any(|turn| *turn == Turn::Waiting)
        && turns().any(|turn| *turn == Turn::Failed)
        && !turns().any(moves)
}

impl Standing {
    /// Notes what has changed: a cluster that succeeded, drifted, ran out of time, or was given more of it.
    pub(super) fn keep_books(&mut self, notes_drift: bool, effective: &Effective, now: Timestamp) {
        let (Course::Running, Some(mark)) = (&self.course, &mut self.mark) else {
            return;
        };
        // A clock that was set back, or that of another hub: from here on by ours.
        mark.since = mark.since.min(now);
        if !effective.is_progressive() {
            return;
        }
        if self.verdict.outcome == Outcome::Succeeded {
            if mark.phase != Phase::Succeeded {
                mark.phase = Phase::Succeeded;
                mark.since = now;
            }
            return;
        }
        if mark.phase == Phase::Succeeded {
            if !notes_drift {
                return;
            }
            mark.phase = Phase::Progressing;
            // Just before the report of the drift, so that it stays a new one.
            let reported = self
                .verdict
                .reported_at
                .map(|at| later(at, SignedDuration::from_nanos(-1)));
            mark.since = reported.map_or(now, |at| at.min(now));
        }
        mark.phase = if has_passed(mark.since, effective.deadline(), now) {
            Phase::TimeOut
        } else {
            Phase::Progressing
        };
    }

    pub(super) fn hand_out(&mut self, version: &Version, now: Timestamp) {
        self.course = Course::HandedOut;
        self.mark = Some(Mark::running(version, now));
    }

    /// The status for the rollout engine: none for waiting clusters, and the reported one instead of a timeout for others.
    pub(super) fn for_engine(&self, now: Timestamp) -> Option<ClusterState> {
        let (Course::Running, Some(mark)) = (&self.course, &self.mark) else {
            return None;
        };
        let has_drifted =
            mark.phase == Phase::Succeeded && self.verdict.outcome != Outcome::Succeeded;
        Some(ClusterState {
            status: self.verdict.status(),
            since: Some(if has_drifted { now } else { mark.since }),
        })
    }

    /// Where the cluster is on its way through its group.
    pub(super) fn progress(&self, effective: &Effective, now: Timestamp) -> Progress {
        match self.turn(effective, now) {
            Turn::FirstPass | Turn::Unwritable { .. } | Turn::Waiting => Progress::Waiting,
            Turn::HandedOut | Turn::Running { .. } | Turn::Soaking { .. } => Progress::Open,
            Turn::Failed | Turn::TimedOut { .. } => Progress::Failed,
            Turn::Done => Progress::Done,
        }
    }

    /// The status that people see.
    pub(super) fn shown(&self, effective: &Effective, now: Timestamp) -> RolloutStatus {
        match self.course {
            Course::Unwritable { .. } | Course::FirstPass if effective.is_progressive() => {
                RolloutStatus::ToApply
            }
            Course::Unwritable { .. } | Course::FirstPass | Course::HandedOut => {
                RolloutStatus::Progressing
            }
            Course::Waiting => RolloutStatus::ToApply,
            Course::Running => match self.verdict.outcome {
                Outcome::None if self.timed_out_at(effective, now).is_some() => {
                    RolloutStatus::TimeOut
                }
                Outcome::None | Outcome::Succeeded | Outcome::Failed => self.verdict.status(),
            },
        }
    }

    pub(super) fn turn(&self, effective: &Effective, now: Timestamp) -> Turn {
        match &self.course {
            Course::Unwritable { why } => Turn::Unwritable { why: why.clone() },
            Course::FirstPass => Turn::FirstPass,
            Course::Waiting => Turn::Waiting,
            Course::HandedOut => Turn::HandedOut,
            Course::Running => match self.verdict.outcome {
                Outcome::Succeeded => match self.soaks_until(effective, now) {
                    Some(until) => Turn::Soaking { until },
                    None => Turn::Done,
                },
                Outcome::Failed => Turn::Failed,
                Outcome::None => match self.timed_out_at(effective, now) {
                    Some(at) => Turn::TimedOut { at },
                    None => Turn::Running {
                        deadline: self.deadline_at(effective),
                    },
                },
            },
        }
    }

    /// When something about this cluster changes by itself.
    pub(super) fn next_look(&self, effective: &Effective, now: Timestamp) -> Option<Timestamp> {
        match self.course {
            Course::HandedOut => self.deadline_at(effective),
            Course::Running => match self.verdict.outcome {
                Outcome::Succeeded => self.soaks_until(effective, now),
                Outcome::None | Outcome::Failed => {
                    self.deadline_at(effective).filter(|at| *at > now)
                }
            },
            Course::Unwritable { .. } | Course::FirstPass | Course::Waiting => None,
        }
    }

    fn soaks_until(&self, effective: &Effective, now: Timestamp) -> Option<Timestamp> {
        let mark = self
            .mark
            .as_ref()
            .filter(|mark| mark.phase == Phase::Succeeded)?;
        Some(later(mark.since, effective.soak()))
            .filter(|until| effective.is_progressive() && *until > now)
    }

    /// When the time of this cluster is, or was, up. A finished cluster that drifts has all the time.
    fn deadline_at(&self, effective: &Effective) -> Option<Timestamp> {
        let mark = self
            .mark
            .as_ref()
            .filter(|mark| mark.phase != Phase::Succeeded)?;
        Some(later(mark.since, effective.deadline()?))
    }

    fn timed_out_at(&self, effective: &Effective, now: Timestamp) -> Option<Timestamp> {
        self.deadline_at(effective).filter(|at| *at <= now)
    }
}

fn has_passed(since: Timestamp, deadline: Option<SignedDuration>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| later(since, deadline) <= now)
}

/// A time so much later, or the end of time.
fn later(since: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    since.checked_add(by).unwrap_or(end)
}
