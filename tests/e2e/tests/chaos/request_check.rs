//! Decides whether a request had the correct outcome, and if not, whether a fault excuses it.
//!
//! The check is a pure function of the recorded history. An excuse requires a recorded fault that overlaps the request
//! in time and hit the destination of the request. Every other failure is a violation.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::replica_client::{AdmissionOutcome, is_cut_off};
use e2e::test_policies::denying_generation;
use jiff::Timestamp;

/// A time span, both ends included.
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

/// Where a request was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The API server, which calls the generation that the webhook names.
    ApiServer,
    /// A replica, for the generation that the webhook named when the request was sent.
    Replica { pod: String, generation: i64 },
    /// A replica, for a generation that it must not serve: a broken or a disabled one.
    AbsentGeneration { pod: String, generation: i64 },
}

/// A request with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) policy: &'static str,
    pub(crate) destination: Destination,
    /// Whether the object violates the policy. Every generation denies such objects and allows all others.
    pub(crate) violates: bool,
    pub(crate) span: Span,
    pub(crate) outcome: AdmissionOutcome,
}

/// The time at which a webhook switched to a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) generation: i64,
    pub(crate) at: Timestamp,
}

/// The component that a fault hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultTarget {
    ApiServer,
    Replica(String),
    EveryReplica,
}

/// A component that was killed and started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) target: FaultTarget,
    /// From just before the signal until the process was gone.
    pub(crate) termination: Span,
    /// From just before the signal until the component was ready again.
    pub(crate) downtime: Span,
}

/// The switches and outages of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// How long a generation still answers after a switch to another one.
    pub(crate) drain: Duration,
    /// By policy, in order of time.
    pub(crate) switches: BTreeMap<&'static str, Vec<Switch>>,
    pub(crate) outages: Vec<Outage>,
}

/// The result for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckResult {
    Correct,
    Excused(Excuse),
    Violation(Violation),
}

/// The fault that explains why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Excuse {
    /// The replica was killed while it processed the request.
    ReplicaKilled,
    /// The replica had been killed before the request.
    ReplicaDown,
    /// The API server was down.
    ApiServerDown,
    /// No replica was alive, so `failurePolicy` decided.
    NoReplicaAlive,
    /// The drain of the requested generation ended before the response.
    GenerationDrained,
}

/// A failure without excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// A violating object was allowed, or another one was denied.
    Verdict,
    /// A generation answered that does not serve any more, or not yet.
    Generation,
    /// The response was 404.
    NotFound,
    /// The response was 5xx, or anything else that is no verdict.
    HttpError,
    /// No response arrived although the destination was up.
    NoResponse,
}

impl History {
    /// Checks one request.
    pub(crate) fn check(&self, request: &Request) -> CheckResult {
        match &request.outcome {
            AdmissionOutcome::Allowed => self.check_verdict(request, None),
            AdmissionOutcome::Denied(words) => self.check_verdict(request, Some(words)),
            AdmissionOutcome::HttpError { code, text } => {
                self.check_http_error(request, *code, text)
            }
            AdmissionOutcome::NoResponse(_) => self.check_no_response(request),
        }
    }

    fn check_verdict(&self, request: &Request, words: Option<&str>) -> CheckResult {
        let Request {
            policy,
            destination,
            violates,
            span,
            ..
        } = request;
        if matches!(destination, Destination::AbsentGeneration { .. }) {
            return CheckResult::Violation(Violation::Generation);
        }
        if *violates != words.is_some() {
            return CheckResult::Violation(Violation::Verdict);
        }
        let Some(words) = words else {
            return CheckResult::Correct;
        };
        let Some(output) = denying_generation(policy, words) else {
            return CheckResult::Violation(Violation::Verdict);
        };
        let may_answer = self.may_answer(policy, output, *span);
        match destination {
            Destination::Replica { generation, .. } if *generation != output => {
                CheckResult::Violation(Violation::Generation)
            }
            Destination::Replica { .. } if !may_answer => {
                CheckResult::Excused(Excuse::GenerationDrained)
            }
            Destination::ApiServer if !may_answer => CheckResult::Violation(Violation::Generation),
            Destination::ApiServer
            | Destination::Replica { .. }
            | Destination::AbsentGeneration { .. } => CheckResult::Correct,
        }
    }

    fn check_http_error(&self, request: &Request, code: u16, text: &str) -> CheckResult {
        let Request {
            policy,
            destination,
            span,
            ..
        } = request;
        match destination {
            Destination::AbsentGeneration { .. } if code == 404 => return CheckResult::Correct,
            Destination::Replica { generation, .. }
                if code == 404 && !self.must_answer(policy, *generation, *span) =>
            {
                return CheckResult::Excused(Excuse::GenerationDrained);
            }
            // The text contains the error of the webhook call.
            Destination::ApiServer if text.contains("failed calling webhook") => {
                if self.was_down(*span, |target| *target == FaultTarget::EveryReplica) {
                    return CheckResult::Excused(Excuse::NoReplicaAlive);
                }
                if is_cut_off(text) && self.was_terminating(*span, is_replica) {
                    return CheckResult::Excused(Excuse::ReplicaKilled);
                }
            }
            Destination::ApiServer
            | Destination::Replica { .. }
            | Destination::AbsentGeneration { .. } => {}
        }
        let is_missing = code == 404 || text.contains("could not find the requested resource");
        CheckResult::Violation(if is_missing {
            Violation::NotFound
        } else {
            Violation::HttpError
        })
    }

    fn check_no_response(&self, request: &Request) -> CheckResult {
        let span = request.span;
        match &request.destination {
            Destination::ApiServer
                if self.was_down(span, |target| *target == FaultTarget::ApiServer) =>
            {
                CheckResult::Excused(Excuse::ApiServerDown)
            }
            Destination::ApiServer => CheckResult::Violation(Violation::NoResponse),
            Destination::Replica { pod, .. } | Destination::AbsentGeneration { pod, .. } => {
                let is_target = |target: &FaultTarget| matches!(target, FaultTarget::Replica(name) if name == pod);
                if self.was_terminating(span, is_target) {
                    CheckResult::Excused(Excuse::ReplicaKilled)
                } else if self.was_down(span, is_target) {
                    CheckResult::Excused(Excuse::ReplicaDown)
                } else {
                    CheckResult::Violation(Violation::NoResponse)
                }
            }
        }
    }

    /// Whether a matching target was being killed during a span.
    fn was_terminating(&self, span: Span, is_target: impl Fn(&FaultTarget) -> bool) -> bool {
        let mut outages = self.outages.iter();
        outages.any(|outage| is_target(&outage.target) && outage.termination.overlaps(span))
    }

    /// Whether a matching target was down during a span.
    fn was_down(&self, span: Span, is_target: impl Fn(&FaultTarget) -> bool) -> bool {
        let mut outages = self.outages.iter();
        outages.any(|outage| is_target(&outage.target) && outage.downtime.overlaps(span))
    }

    /// Whether a generation may answer at some moment of a span, because it serves or drains.
    fn may_answer(&self, policy: &str, generation: i64, span: Span) -> bool {
        self.windows(policy, generation)
            .any(|window| window.overlaps(span))
    }

    /// Whether a generation must answer at every moment of a span.
    fn must_answer(&self, policy: &str, generation: i64, span: Span) -> bool {
        self.windows(policy, generation)
            .any(|window| window.from <= span.from && span.until <= window.until)
    }

    /// The spans in which a generation serves and drains. A switch during a drain restarts the drain of all older
    /// generations.
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

fn is_replica(target: &FaultTarget) -> bool {
    matches!(target, FaultTarget::Replica(_))
}

#[cfg(test)]
mod tests;
