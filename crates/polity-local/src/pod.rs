//! One Pod as a kubelet sees it: a state, what happened, and what to do about it.
//!
//! [`Machine`] knows neither processes nor sockets. It is told what happened ([`Input`]) and when, answers what
//! to do ([`Action`]), when to be asked again, and what the Pod's status should say. It asks for a start only
//! while nothing runs, so there are never two processes for one Pod.

mod backoff;
mod probe;
mod status;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};

pub use backoff::Backoff;
pub use probe::{Kind, Verdict};
pub use status::ADDRESS;

use probe::Probes;
use status::Past;

/// How long a Pod may take to end when it does not say.
const GRACE_SECONDS: i64 = 30;
/// How long after a start that could not even be tried it is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// Deadlines in objects are cut to whole seconds; nobody is killed before the time they were given.
const ROUNDING: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Why there is no process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    /// One of the reasons a kubelet gives, such as `CreateContainerConfigError`.
    pub reason: &'static str,
    /// What is missing.
    pub message: String,
}

impl Unready {
    /// The reason of a Pod that is not run on this machine.
    pub const FORBIDDEN: &'static str = "Forbidden";

    /// A Pod that is not run on this machine, and why.
    pub fn forbidden(message: String) -> Self {
        Self {
            reason: Self::FORBIDDEN,
            message,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Nothing but the time, or the Pod changed.
    Look,
    /// The process asked for runs, under this number.
    Started { process: u32 },
    /// The process asked for could not be started.
    NotStarted(Unready),
    /// A process ended.
    Exited { process: u32, exit: Exit },
    /// A probe of a process has its answer.
    Probed {
        process: u32,
        kind: Kind,
        verdict: Verdict,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start the process; this is its n-th start, counted from zero.
    Start { restarts: i32 },
    /// Ask the process to end.
    Terminate,
    /// End the process.
    Kill,
    /// Ask a probe once.
    Probe(Kind),
    /// Nothing is left of it: take the Pod away.
    Remove,
}

/// Where a Pod stands.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// No process: the first start, or one that could not be tried, comes at this time.
    Waiting {
        until: Timestamp,
        problem: Option<Unready>,
    },
    /// A start was asked for.
    Starting,
    Running {
        process: u32,
        since: Timestamp,
        probes: Probes,
    },
    Stopping {
        process: u32,
        since: Timestamp,
        /// When patience ends; `None`: it ended.
        kill_at: Option<Timestamp>,
    },
    /// It ended and comes back at this time.
    Crashed { since: Timestamp, until: Timestamp },
    /// It ended for good.
    Ended,
    /// Its removal was asked for.
    Removed,
}

/// The life of one Pod, from the moment this runtime knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    state: State,
    restarts: i32,
    has_started: bool,
    backoff: Backoff,
    past: Past,
}

impl Machine {
    /// Begins with a Pod as the API knows it. A process of an earlier runtime is dead, whatever the status says.
    pub fn new(pod: &Pod, now: Timestamp) -> Self {
        let past = Past::of(pod, now);
        Self {
            state: State::Waiting {
                until: now,
                problem: None,
            },
            restarts: past.restarts,
            has_started: past.has_started,
            backoff: Backoff::default(),
            past,
        }
    }

    /// Takes in what happened. The actions are to be carried out in order.
    pub fn step(&mut self, pod: &Pod, input: Input, now: Timestamp) -> Vec<Action> {
        self.take_in(pod, input, now);
        self.act(pod, now)
    }

    /// When to look again though nothing happens.
    pub fn look_again_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting { until, .. } | State::Crashed { until, .. } => Some(*until),
            State::Running { probes, .. } => probes.next_at(),
            State::Stopping { kill_at, .. } => *kill_at,
            State::Starting | State::Ended | State::Removed => None,
        }
    }

    /// Whether it runs and answers.
    pub fn is_ready(&self) -> bool {
        matches!(&self.state, State::Running { probes, .. } if probes.is_ready())
    }

    /// Whether there is, or may be at any moment, a process.
    pub fn has_process(&self) -> bool {
        matches!(
            self.state,
            State::Starting | State::Running { .. } | State::Stopping { .. }
        )
    }

    /// What the Pod's status should say now.
    pub fn status(&self, pod: &Pod, now: Timestamp) -> PodStatus {
        status::of(self, pod, now)
    }

    fn take_in(&mut self, pod: &Pod, input: Input, now: Timestamp) {
        match (&mut self.state, input) {
            (State::Starting, Input::Started { process }) => {
                self.has_started = true;
                self.state = State::Running {
                    process,
                    since: now,
                    probes: Probes::new(container(pod), now),
                };
            }
            (State::Starting, Input::NotStarted(problem)) => {
                self.state = State::Waiting {
                    until: later(now, RETRY),
                    problem: Some(problem),
                };
            }
            (
                State::Running { process, since, .. } | State::Stopping { process, since, .. },
                Input::Exited {
                    process: ended,
                    exit,
                },
            ) if *process == ended => {
                self.past.ended(*process, *since, exit, now);
                self.restarts = self.restarts.saturating_add(1);
                let until = self.backoff.after(now);
                self.state = State::Crashed { since: now, until };
            }
            (
                State::Running {
                    process, probes, ..
                },
                Input::Probed {
                    process: asked,
                    kind,
                    verdict,
                },
            ) if *process == asked => {
                probes.answered(kind, verdict, now);
            }
            // Answers that come too late: whom they are about is gone.
            (
                _,
                Input::Look
                | Input::Started { .. }
                | Input::NotStarted(_)
                | Input::Exited { .. }
                | Input::Probed { .. },
            ) => {}
        }
    }

    fn act(&mut self, pod: &Pod, now: Timestamp) -> Vec<Action> {
        if let Some(deadline) = pod.metadata.deletion_timestamp.as_ref() {
            return self.end(later(deadline.0, ROUNDING), now);
        }
        match &mut self.state {
            State::Waiting { until, .. } | State::Crashed { until, .. } if *until <= now => {
                if let State::Crashed { since, .. } = self.state {
                    self.backoff.restarted(since, now);
                }
                self.state = State::Starting;
                vec![Action::Start {
                    restarts: self.restarts,
                }]
            }
            State::Running {
                process,
                since,
                probes,
            } => {
                if let Some(check) = probes.failed() {
                    let kill_at = later(now, check.grace.map_or_else(|| grace(pod), seconds));
                    self.state = State::Stopping {
                        process: *process,
                        since: *since,
                        kill_at: Some(kill_at),
                    };
                    return vec![Action::Terminate];
                }
                probes.due(now).into_iter().map(Action::Probe).collect()
            }
            State::Stopping { kill_at, .. } => kill_when_due(kill_at, now),
            State::Waiting { .. }
            | State::Crashed { .. }
            | State::Starting
            | State::Ended
            | State::Removed => Vec::new(),
        }
    }

    /// The Pod was deleted: the process has until the deadline.
    fn end(&mut self, deadline: Timestamp, now: Timestamp) -> Vec<Action> {
        match &mut self.state {
            State::Running { process, since, .. } => {
                self.state = State::Stopping {
                    process: *process,
                    since: *since,
                    kill_at: Some(deadline),
                };
                vec![Action::Terminate]
            }
            State::Stopping { kill_at, .. } => {
                // A later delete may only shorten what is left.
                *kill_at = kill_at.map(|at| at.min(deadline));
                kill_when_due(kill_at, now)
            }
            // What was asked for comes; then it is stopped.
            State::Starting => Vec::new(),
            State::Waiting { .. } | State::Crashed { .. } | State::Ended => {
                self.state = State::Removed;
                vec![Action::Remove]
            }
            State::Removed => Vec::new(),
        }
    }

    /// The removal failed, and is to be asked for again.
    pub fn not_removed(&mut self) {
        if self.state == State::Removed {
            self.state = State::Ended;
        }
    }
}

fn kill_when_due(kill_at: &mut Option<Timestamp>, now: Timestamp) -> Vec<Action> {
    match kill_at {
        Some(at) if *at <= now => {
            *kill_at = None;
            vec![Action::Kill]
        }
        _ => Vec::new(),
    }
}

/// The container that is run: Pods of other shapes are not ours.
pub fn container(pod: &Pod) -> Option<&Container> {
    pod.spec.as_ref()?.containers.first()
}

/// What the process of a Pod has to end.
pub fn grace(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref();
    let said = spec.and_then(|spec| spec.termination_grace_period_seconds);
    seconds(said.unwrap_or(GRACE_SECONDS))
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
