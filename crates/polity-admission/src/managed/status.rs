//! Changes of a revision's status: each writer changes its own entries and leaves the others' alone.
//!
//! A change is a value that is applied to whatever the status is at that moment, as often as the write has to be tried.
//! Applied twice it says the same; where nothing would be different there is nothing to write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, InitializedReason, Initializer, PolicyCondition,
    PolicyRevisionStatus, ReadyReason, ResolvedModule, ScheduledReason,
};

/// The longest message of a condition.
const MESSAGE_MAX: usize = 1024;

/// The server that writes: a result of another one may be worth another try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) version: String,
    /// The hash of the configuration that results depend on.
    pub(crate) config_hash: String,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// The leader took it, and its n-th attempt begins.
    Begins { attempt: i32, by: Build },
    /// The leader is done with it, and these are its modules.
    Initialized {
        modules: Vec<ResolvedModule>,
        by: Build,
    },
    /// The leader could not do it.
    NotInitialized { why: Failure, by: Build },
    /// What one replica says.
    Ready { replica: i32, says: Says },
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
                status.initializer = Some(Initializer {
                    last_attempt: Some(Time(now)),
                    ..by.tried(*attempt)
                });
            }
            // Whoever was first has decided: replicas may have loaded what it wrote.
            Self::Initialized { .. } | Self::NotInitialized { .. } if say.is_initialized() => {}
            Self::Initialized { modules, by } => {
                say.initialized();
                if status.modules.is_empty() {
                    status.modules.clone_from(modules);
                }
                status.initializer = Some(by.done(status.initializer.as_ref()));
            }
            Self::NotInitialized { why, by } => {
                say.not_initialized(why);
                status.initializer = Some(by.done(status.initializer.as_ref()));
            }
            Self::Ready { replica, says } => say.ready(*replica, says),
        }
        let is_new = before.is_none_or(|before| !is_same(before, &status));
        is_new.then_some(status)
    }
}

/// When an attempt began is not worth a write of its own.
fn is_same(before: &PolicyRevisionStatus, after: &PolicyRevisionStatus) -> bool {
    let tried = |status: &PolicyRevisionStatus| {
        let tried = status.initializer.clone().unwrap_or_default();
        (tried.version, tried.config_hash, tried.attempts)
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
            last_attempt: None,
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
