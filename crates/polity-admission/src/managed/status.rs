//! Changes of a revision's status: each writer changes its own entries and never those of others.
//!
//! A change is a value that is applied to the current status, again after each conflict. It is idempotent, and a change
//! without effect is not written.

pub(super) mod writer;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, InitializedReason, Initializer, PolicyCondition,
    PolicyRevisionStatus, ReadyReason, ResolvedModule, ScheduledReason,
};

use crate::managed::retry;

/// The longest message of a condition, in characters.
const MESSAGE_MAX: usize = 1024;

/// The version and configuration of the server that writes. A failure of another build may be worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) version: String,
    /// The hash of the configuration that results depend on.
    pub(crate) config_hash: String,
}

/// A change of the status of one revision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// An attempt of the leader begins.
    Begins { attempt: Attempt, by: Build },
    /// These processes ended their attempts without a result and without a crash.
    Withdrawn { holders: Vec<String> },
    /// The leader initialised the revision, and these are its modules.
    Initialized {
        modules: Vec<ResolvedModule>,
        by: Build,
    },
    /// The leader could not initialise it.
    NotInitialized { why: Failure, by: Build },
    /// The policy server crashed too often while it tried.
    Crashed { crashed: Crashed, by: Build },
    /// The `Ready` condition of one replica.
    Ready { replica: i32, report: ReadyReport },
}

/// An attempt to initialise a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Counts attempts since the last result.
    pub(crate) n: i32,
    /// The process that makes it.
    pub(crate) holder: String,
    /// Processes whose attempts turned out to be no crashes.
    pub(crate) withdrawn: Vec<String>,
}

/// The policy server crashed while it initialised a revision, at least as often as is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crashed {
    pub(crate) n_crashes: i32,
    /// When the next attempt is made.
    pub(crate) next: Timestamp,
}

impl Crashed {
    fn failure(self) -> Failure {
        Failure {
            reason: InitializedReason::ModuleInvalid,
            message: format!(
                "The policy server ended {} times while it compiled the module or checked the settings. The next \
                 attempt is made at {}, or when the policy changes.",
                self.n_crashes,
                self.next.strftime("%Y-%m-%dT%H:%M:%SZ"),
            ),
        }
    }
}

/// Why a revision was not initialised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: InitializedReason,
    pub(crate) message: String,
}

/// What a replica reports about a revision in its `Ready` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadyReport {
    /// The replica serves the revision.
    Ready,
    /// The replica cannot load the revision.
    NotReady {
        reason: ReadyReason,
        message: String,
    },
    /// The replica restarted: its earlier report no longer holds.
    Pending,
}

impl ReadyReport {
    fn status(&self) -> ConditionStatus {
        match self {
            Self::Ready => ConditionStatus::True,
            Self::NotReady { .. } => ConditionStatus::False,
            Self::Pending => ConditionStatus::Unknown,
        }
    }

    fn reason(&self) -> ReadyReason {
        match self {
            Self::Ready => ReadyReason::PolicyReady,
            Self::NotReady { reason, .. } => *reason,
            Self::Pending => ReadyReason::ReplicaPending,
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Ready => "The policy is ready to be used.",
            Self::NotReady { message, .. } => message,
            Self::Pending => "The replica has started and is loading the policy.",
        }
    }

    /// Whether a condition has this report.
    pub(crate) fn matches(&self, condition: &PolicyCondition) -> bool {
        condition.status == self.status()
            && condition.reason == self.reason().as_str()
            && condition.message == cut(self.message())
    }
}

impl Change {
    /// The status after the change; `None` if the change has no effect or comes too late.
    pub(crate) fn applied(
        &self,
        before: Option<&PolicyRevisionStatus>,
        generation: i64,
        now: Timestamp,
    ) -> Option<PolicyRevisionStatus> {
        let mut status = before.cloned().unwrap_or_default();
        let mut conditions = Conditions {
            all: &mut status.conditions,
            generation,
            now,
        };
        match self {
            Self::Begins { attempt, by } => {
                conditions.scheduled();
                let before = status.initializer.take().unwrap_or_default();
                status.initializer = Some(Initializer {
                    holders: attempt.among(before.holders),
                    crashes: before.crashes,
                    last_attempt: Some(Time(now)),
                    next_attempt: before.next_attempt,
                    ..by.tried(attempt.n)
                });
            }
            Self::Withdrawn { holders } => {
                if let Some(initializer) = &mut status.initializer {
                    withdraw(initializer, holders);
                }
            }
            // The first result stands: replicas may have loaded these modules.
            Self::Initialized { .. } | Self::NotInitialized { .. } | Self::Crashed { .. }
                if conditions.is_initialized() => {}
            Self::Initialized { modules, by } => {
                conditions.initialized();
                if status.modules.is_empty() {
                    status.modules.clone_from(modules);
                }
                status.initializer = Some(by.done(status.initializer.as_ref()));
            }
            Self::NotInitialized { why, by } => {
                conditions.not_initialized(why);
                let before = status.initializer.as_ref();
                // A module that cannot be pulled for a while may crash the server when it can.
                let crashes = match retry::after(why.reason, 1, 0.0) {
                    Some(_) => before.map_or(0, |before| before.crashes),
                    None => 0,
                };
                status.initializer = Some(Initializer {
                    crashes,
                    ..by.done(before)
                });
            }
            Self::Crashed { crashed, by } => {
                conditions.not_initialized(&crashed.failure());
                status.initializer = Some(Initializer {
                    crashes: crashed.n_crashes,
                    next_attempt: Some(Time(crashed.next)),
                    ..by.done(status.initializer.as_ref())
                });
            }
            Self::Ready { replica, report } => conditions.ready(*replica, report),
        }
        let is_new = before.is_none_or(|before| !is_same(before, &status));
        is_new.then_some(status)
    }
}

impl Attempt {
    /// The processes with attempts, this one included.
    fn among(&self, mut holders: Vec<String>) -> Vec<String> {
        holders.retain(|holder| !self.withdrawn.contains(holder) && *holder != self.holder);
        holders.push(self.holder.clone());
        holders
    }
}

/// Removes attempts that were not crashes.
fn withdraw(initializer: &mut Initializer, withdrawn: &[String]) {
    let n_before = initializer.holders.len();
    initializer
        .holders
        .retain(|holder| !withdrawn.contains(holder));
    let n_withdrawn = n_before - initializer.holders.len();
    let n_withdrawn = i32::try_from(n_withdrawn).unwrap_or(i32::MAX);
    initializer.attempts = (initializer.attempts - n_withdrawn).max(0);
}

/// Whether a write would change nothing. The start time of an attempt alone is not worth a write.
fn is_same(before: &PolicyRevisionStatus, after: &PolicyRevisionStatus) -> bool {
    let tried = |status: &PolicyRevisionStatus| Initializer {
        last_attempt: None,
        ..status.initializer.clone().unwrap_or_default()
    };
    before.conditions == after.conditions
        && before.modules == after.modules
        && tried(before) == tried(after)
}

impl Build {
    fn tried(&self, attempts: i32) -> Initializer {
        Initializer {
            version: Some(self.version.clone()),
            config_hash: Some(self.config_hash.clone()),
            attempts,
            ..Initializer::default()
        }
    }

    fn done(&self, before: Option<&Initializer>) -> Initializer {
        Initializer {
            last_attempt: before.and_then(|before| before.last_attempt.clone()),
            ..self.tried(0)
        }
    }
}

/// The conditions of a status, to which those of one generation are written.
struct Conditions<'a> {
    all: &'a mut Vec<PolicyCondition>,
    generation: i64,
    now: Timestamp,
}

impl Conditions<'_> {
    fn is_initialized(&self) -> bool {
        let initialized = ConditionType::Initialized.as_str();
        let mut conditions = self.all.iter();
        conditions.any(|condition| {
            condition.type_ == initialized && condition.status == ConditionStatus::True
        })
    }

    fn scheduled(&mut self) {
        self.put(
            ConditionType::Scheduled,
            None,
            ConditionStatus::True,
            ScheduledReason::PolicyScheduled.as_str(),
            "The policy was scheduled by the PolicyServer.",
        );
    }

    fn initialized(&mut self) {
        self.put(
            ConditionType::Initialized,
            None,
            ConditionStatus::True,
            InitializedReason::PolicyInitialized.as_str(),
            "The policy was successfully initialized.",
        );
    }

    fn not_initialized(&mut self, why: &Failure) {
        let message = match why.reason {
            InitializedReason::PullError => {
                format!("Cannot pull the policy from the registry. {}", why.message)
            }
            _ => why.message.clone(),
        };
        self.put(
            ConditionType::Initialized,
            None,
            ConditionStatus::False,
            why.reason.as_str(),
            &message,
        );
    }

    fn ready(&mut self, replica: i32, report: &ReadyReport) {
        self.put(
            ConditionType::Ready,
            Some(replica),
            report.status(),
            report.reason().as_str(),
            report.message(),
        );
    }

    fn put(
        &mut self,
        type_: ConditionType,
        replica: Option<i32>,
        status: ConditionStatus,
        reason: &str,
        message: &str,
    ) {
        let mut condition = PolicyCondition {
            type_: type_.as_str().to_owned(),
            status,
            reason: reason.to_owned(),
            message: cut(message).to_owned(),
            generation: Some(self.generation),
            replica,
            last_transition_time: Some(Time(self.now)),
            observed_generation: Some(self.generation),
        };
        let is_the_same =
            |other: &PolicyCondition| other.type_ == type_.as_str() && other.replica == replica;
        if let Some(before) = self.all.iter().find(|other| is_the_same(other))
            && before.status == status
        {
            // Tools take this for the time of the last change of status.
            condition
                .last_transition_time
                .clone_from(&before.last_transition_time);
        }
        self.all.retain(|other| !is_the_same(other));
        self.all.push(condition);
        self.all.sort_by_key(|condition| {
            let type_ = ConditionType::parse(&condition.type_);
            (type_.is_none(), type_, condition.replica)
        });
    }
}

/// The start of a message, up to the longest length.
fn cut(message: &str) -> &str {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => &message[..end],
        None => message,
    }
}

#[cfg(test)]
mod tests;
