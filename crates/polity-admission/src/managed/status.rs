//! Changes of a revision's status: each writer changes its own entries and leaves the others' alone.
//!
//! A change is a value that is applied to whatever the status is at that moment, as often as the write has to be tried.
//! Applied twice it says the same; where nothing would be different there is nothing to write.

pub(super) mod writer;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, InitializedReason, Initializer, PolicyCondition,
    PolicyRevisionStatus, ReadyReason, ResolvedModule, ScheduledReason,
};

use crate::managed::retry;

/// The longest message of a condition.
const MESSAGE_MAX: usize = 1024;

/// The server that writes: a result of another one may be worth another try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) version: String,
    /// The hash of the configuration that results depend on.
    pub(crate) config_hash: String,
}

/// A change to write.
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
    Ready { replica: i32, says: Says },
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

/// What a replica says about itself and a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    /// It serves it.
    Ready,
    /// It cannot.
    NotReady {
        reason: ReadyReason,
        message: String,
    },
    /// It began anew, and what it said before no longer holds.
    Pending,
}

impl Says {
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

    /// Whether a condition says just this.
    pub(crate) fn is_said_by(&self, condition: &PolicyCondition) -> bool {
        condition.status == self.status()
            && condition.reason == self.reason().as_str()
            && condition.message == cut(self.message())
    }
}

impl Change {
    /// The status after the change; nothing, if it says so already or the change comes too late.
    pub(crate) fn applied(
        &self,
        before: Option<&PolicyRevisionStatus>,
        generation: i64,
        now: Timestamp,
    ) -> Option<PolicyRevisionStatus> {
        let mut status = before.cloned().unwrap_or_default();
        let mut say = Sayer {
            conditions: &mut status.conditions,
            generation,
            now,
        };
        match self {
            Self::Begins { attempt, by } => {
                say.scheduled();
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
                if say.is_initialized() => {}
            Self::Initialized { modules, by } => {
                say.initialized();
                if status.modules.is_empty() {
                    status.modules.clone_from(modules);
                }
                status.initializer = Some(by.done(status.initializer.as_ref()));
            }
            Self::NotInitialized { why, by } => {
                say.not_initialized(why);
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
                say.not_initialized(&crashed.failure());
                status.initializer = Some(Initializer {
                    crashes: crashed.n_crashes,
                    next_attempt: Some(Time(crashed.next)),
                    ..by.done(status.initializer.as_ref())
                });
            }
            Self::Ready { replica, says } => say.ready(*replica, says),
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

/// Takes back attempts.
fn withdraw(initializer: &mut Initializer, withdrawn: &[String]) {
    let n_before = initializer.holders.len();
    initializer
        .holders
        .retain(|holder| !withdrawn.contains(holder));
    let n_withdrawn = n_before - initializer.holders.len();
    let n_withdrawn = i32::try_from(n_withdrawn).unwrap_or(i32::MAX);
    initializer.attempts = (initializer.attempts - n_withdrawn).max(0);
}

/// The start time of an attempt is not worth a write of its own.
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

/// Puts conditions of one generation into a list.
struct Sayer<'a> {
    conditions: &'a mut Vec<PolicyCondition>,
    generation: i64,
    now: Timestamp,
}

impl Sayer<'_> {
    fn is_initialized(&self) -> bool {
        let initialized = ConditionType::Initialized.as_str();
        let mut conditions = self.conditions.iter();
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

    fn ready(&mut self, replica: i32, says: &Says) {
        self.put(
            ConditionType::Ready,
            Some(replica),
            says.status(),
            says.reason().as_str(),
            says.message(),
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
        let mut said = PolicyCondition {
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
        if let Some(before) = self.conditions.iter().find(|other| is_the_same(other))
            && before.status == status
        {
            // Tools take this for the time of the last change of status.
            said.last_transition_time
                .clone_from(&before.last_transition_time);
        }
        self.conditions.retain(|other| !is_the_same(other));
        self.conditions.push(said);
        self.conditions.sort_by_key(|condition| {
            let type_ = ConditionType::parse(&condition.type_);
            (type_.is_none(), type_, condition.replica)
        });
    }
}

/// The message in the room there is, whole characters.
fn cut(message: &str) -> &str {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => &message[..end],
        None => message,
    }
}

#[cfg(test)]
mod tests;
