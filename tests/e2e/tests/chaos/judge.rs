//! The judge: was a request answered as it should have been, and if not, was anybody to blame?
//!
//! Pure, over what was recorded. An excuse needs a recorded trouble that overlaps the request in time and names
//! whoever was asked; everything else that is not right is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::door::{Answer, is_cut_off};
use e2e::subjects::generation_in;
use jiff::Timestamp;

/// A stretch of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Span {
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.from <= other.until && other.from <= self.until
    }
}

/// Who was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The API server, which asks the generation that the webhook names.
    ApiServer,
    /// A replica, for the generation that the webhook named just then.
    Replica { pod: String, generation: i64 },
    /// A replica, for a generation that must not be there: a broken one, or one that was disabled.
    Ghost { pod: String, generation: i64 },
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) policy: &'static str,
    pub(crate) asked: Asked,
    /// Every generation refuses the guilty and lets the innocent pass.
    pub(crate) is_guilty: bool,
    pub(crate) span: Span,
    pub(crate) answer: Answer,
}

/// The moment from which a webhook named a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) generation: i64,
    pub(crate) at: Timestamp,
}

/// Whom something happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Victim {
    ApiServer,
    Replica(String),
    EveryReplica,
}

/// Somebody who was brought down by force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) victim: Victim,
    /// From just before the signal to the moment when the process was gone.
    pub(crate) death: Span,
    /// From the same moment to the first sign of life.
    pub(crate) absence: Span,
}

/// What is known to have happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// How long a generation answers on after a switch.
    pub(crate) drain: Duration,
    /// By policy, in order.
    pub(crate) switches: BTreeMap<&'static str, Vec<Switch>>,
    pub(crate) outages: Vec<Outage>,
}

/// What the judge says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Fine,
    Excused(Excuse),
    Wrong(Wrong),
}

/// Why a request that was not answered well is nobody's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Excuse {
    /// It was being answered when the replica was killed.
    OnKilledReplica,
    /// A replica was asked that had been killed before.
    DeadReplica,
    /// The API server was down.
    ApiServerDown,
    /// No replica was alive, so `failurePolicy` decided.
    NobodyAlive,
    /// A replica was asked for a generation whose drain ended before the answer.
    AskedTooLate,
}

/// What must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// The guilty passed, or the innocent did not.
    Verdict,
    /// Answered by a generation that should not answer.
    Generation,
    /// 404.
    NotFound,
    /// 5xx, and every other answer that is none.
    Refused,
    /// No answer, and nobody was down.
    Lost,
}

impl History {
    /// Judges one request.
    pub(crate) fn judge(&self, request: &Request) -> Finding {
        match &request.answer {
            Answer::Allowed => self.judge_verdict(request, None),
            Answer::Denied(words) => self.judge_verdict(request, Some(words)),
            Answer::Refused { code, text } => self.judge_refusal(request, *code, text),
            Answer::Lost(_) => self.judge_loss(request),
        }
    }

    fn judge_verdict(&self, request: &Request, words: Option<&str>) -> Finding {
        let Request {
            policy,
            asked,
            is_guilty,
            span,
            ..
        } = request;
        if matches!(asked, Asked::Ghost { .. }) {
            return Finding::Wrong(Wrong::Generation);
        }
        if *is_guilty != words.is_some() {
            return Finding::Wrong(Wrong::Verdict);
        }
        let Some(words) = words else {
            return Finding::Fine;
        };
        let Some(said) = generation_in(policy, words) else {
            return Finding::Wrong(Wrong::Verdict);
        };
        let may_answer = self.may_answer(policy, said, *span);
        match asked {
            Asked::Replica { generation, .. } if *generation != said => {
                Finding::Wrong(Wrong::Generation)
            }
            Asked::Replica { .. } if !may_answer => Finding::Excused(Excuse::AskedTooLate),
            Asked::ApiServer if !may_answer => Finding::Wrong(Wrong::Generation),
            Asked::ApiServer | Asked::Replica { .. } | Asked::Ghost { .. } => Finding::Fine,
        }
    }

    fn judge_refusal(&self, request: &Request, code: u16, text: &str) -> Finding {
        let Request {
            policy,
            asked,
            span,
            ..
        } = request;
        match asked {
            Asked::Ghost { .. } if code == 404 => return Finding::Fine,
            Asked::Replica { generation, .. }
                if code == 404 && !self.must_answer(policy, *generation, *span) =>
            {
                return Finding::Excused(Excuse::AskedTooLate);
            }
            // What became of the webhook's call is in the text.
            Asked::ApiServer if text.contains("failed calling webhook") => {
                if self.absent(*span, |victim| *victim == Victim::EveryReplica) {
                    return Finding::Excused(Excuse::NobodyAlive);
                }
                if is_cut_off(text) && self.died(*span, is_replica) {
                    return Finding::Excused(Excuse::OnKilledReplica);
                }
            }
            Asked::ApiServer | Asked::Replica { .. } | Asked::Ghost { .. } => {}
        }
        let is_missing = code == 404 || text.contains("could not find the requested resource");
        Finding::Wrong(if is_missing {
            Wrong::NotFound
        } else {
            Wrong::Refused
        })
    }

    fn judge_loss(&self, request: &Request) -> Finding {
        let span = request.span;
        match &request.asked {
            Asked::ApiServer if self.absent(span, |victim| *victim == Victim::ApiServer) => {
                Finding::Excused(Excuse::ApiServerDown)
            }
            Asked::ApiServer => Finding::Wrong(Wrong::Lost),
            Asked::Replica { pod, .. } | Asked::Ghost { pod, .. } => {
                let is_it =
                    |victim: &Victim| matches!(victim, Victim::Replica(name) if name == pod);
                if self.died(span, is_it) {
                    Finding::Excused(Excuse::OnKilledReplica)
                } else if self.absent(span, is_it) {
                    Finding::Excused(Excuse::DeadReplica)
                } else {
                    Finding::Wrong(Wrong::Lost)
                }
            }
        }
    }

    /// Whether somebody was being killed meanwhile.
    fn died(&self, span: Span, is_it: impl Fn(&Victim) -> bool) -> bool {
        let mut outages = self.outages.iter();
        outages.any(|outage| is_it(&outage.victim) && outage.death.overlaps(span))
    }

    /// Whether somebody was away meanwhile.
    fn absent(&self, span: Span, is_it: impl Fn(&Victim) -> bool) -> bool {
        let mut outages = self.outages.iter();
        outages.any(|outage| is_it(&outage.victim) && outage.absence.overlaps(span))
    }

    /// Whether a generation may answer at some moment of a span: it serves, or drains.
    fn may_answer(&self, policy: &str, generation: i64, span: Span) -> bool {
        self.windows(policy, generation)
            .any(|window| window.overlaps(span))
    }

    /// Whether a generation has to answer at every moment of a span.
    fn must_answer(&self, policy: &str, generation: i64, span: Span) -> bool {
        self.windows(policy, generation)
            .any(|window| window.from <= span.from && span.until <= window.until)
    }

    /// When a generation serves and drains. A switch during a drain begins the drain of all older ones again.
    fn windows(&self, policy: &str, generation: i64) -> impl Iterator<Item = Span> {
        let switches = self.switches.get(policy).map_or(&[][..], Vec::as_slice);
        let drained = |since: Timestamp| {
            since
                .saturating_add(self.drain)
                .expect("a drain fits into the calendar")
        };
        let serves = switches.iter().enumerate();
        serves
            .filter(move |(_, switch)| switch.generation == generation)
            .map(move |(n, switch)| {
                let mut until = None;
                for later in &switches[n + 1..] {
                    if until.is_none_or(|until| later.at <= until) {
                        until = Some(drained(later.at));
                    }
                }
                Span {
                    from: switch.at,
                    until: until.unwrap_or(Timestamp::MAX),
                }
            })
    }
}

fn is_replica(victim: &Victim) -> bool {
    matches!(victim, Victim::Replica(_))
}

#[cfg(test)]
mod tests;
