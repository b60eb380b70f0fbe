//! The story of a policy as Events: one for each transition of its status, told when the write that made it succeeds.

use polity_api::policies::v1::{
    ConditionStatus, ConditionType, Phase, PolicyCondition, PolicyStatus, ScheduledReason,
};
use serde_json::Map;

use super::conditions::is_same;
use super::observed::{Observed, Revision};
use super::revision::chosen_id;

/// Something worth telling about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened, in a word.
    pub reason: EventReason,
    /// What happened, in a sentence.
    pub note: String,
}

/// The words of section 19.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventReason {
    /// A first generation is on its way in.
    PolicyPending,
    /// A new generation is on its way in while an older one is enforced.
    PolicyUpdating,
    /// The leader took it.
    PolicyScheduled,
    /// It is in the cache.
    PolicyInitialized,
    /// A replica can serve it.
    PolicyReady,
    /// It is enforced.
    PolicyActive,
    /// A generation returned to an older one.
    PolicyRolledBack,
    /// The policy server does not exist.
    PolicyServerNotFound,
    /// The policy server has no running replica.
    PolicyServerNotRunning,
    /// It could not be initialised.
    PolicyInitializationFailed,
    /// A replica could not load it.
    PolicyLoadFailed,
    /// A rollback was asked for and could not be done.
    RollbackFailed,
    /// Somebody put back what was rolled back from.
    RollbackReverted,
    /// The API server did not take the revision.
    RevisionRejected,
    /// Another policy has the id that this one would have had.
    NameCollision,
}

impl EventReason {
    /// The word as it stands in an Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicyPending => "PolicyPending",
            Self::PolicyUpdating => "PolicyUpdating",
            Self::PolicyScheduled => "PolicyScheduled",
            Self::PolicyInitialized => "PolicyInitialized",
            Self::PolicyReady => "PolicyReady",
            Self::PolicyActive => "PolicyActive",
            Self::PolicyRolledBack => "PolicyRolledBack",
            Self::PolicyServerNotFound => "PolicyServerNotFound",
            Self::PolicyServerNotRunning => "PolicyServerNotRunning",
            Self::PolicyInitializationFailed => "PolicyInitializationFailed",
            Self::PolicyLoadFailed => "PolicyLoadFailed",
            Self::RollbackFailed => "RollbackFailed",
            Self::RollbackReverted => "RollbackReverted",
            Self::RevisionRejected => "RevisionRejected",
            Self::NameCollision => "NameCollision",
        }
    }

    /// Whether somebody should look.
    pub fn is_warning(self) -> bool {
        self >= Self::PolicyServerNotFound
    }
}

impl Event {
    pub(super) fn new(reason: EventReason, note: impl Into<String>) -> Self {
        Self {
            reason,
            note: note.into(),
        }
    }
}

/// What changed from the status that was read to the one about to be written.
pub(super) fn of_transition(observed: &Observed, after: &PolicyStatus) -> Vec<Event> {
    let generation = observed.policy.generation;
    let before = observed.policy.status.as_ref();
    let mut events = Vec::new();
    let is_new = after.observed_generation == Some(generation)
        && before.and_then(|status| status.observed_generation) != Some(generation);
    if is_new {
        events.extend(of_new_generation(observed, after));
    }
    let earlier = before.map_or(&[][..], |status| &status.conditions);
    let current = after
        .conditions
        .iter()
        .filter(|condition| condition.generation == Some(generation));
    events.extend(current.filter_map(|condition| {
        let earlier = earlier.iter().find(|earlier| is_same(earlier, condition));
        let is_news = earlier.is_none_or(|earlier| {
            (earlier.status, &earlier.reason) != (condition.status, &condition.reason)
                || (condition.status == ConditionStatus::False
                    && earlier.message != condition.message)
        });
        is_news
            .then(|| of_condition(condition, generation))
            .flatten()
    }));
    let was_active = before.is_some_and(|status| {
        status.phase == Some(Phase::Active) && status.serving_generation == Some(generation)
    });
    if after.phase == Some(Phase::Active) && !was_active {
        let note = format!("Generation {generation} is enforced.");
        events.push(Event::new(EventReason::PolicyActive, note));
    }
    events
}

fn of_new_generation(observed: &Observed, after: &PolicyStatus) -> Vec<Event> {
    let generation = observed.policy.generation;
    let before = observed.policy.status.as_ref();
    let enforced = match after.serving_generation {
        // It went in before anybody could tell that it was on its way.
        Some(serving) if serving == generation => {
            before.and_then(|status| status.serving_generation)
        }
        serving => serving,
    };
    let mut events = vec![match enforced {
        Some(enforced) => Event::new(
            EventReason::PolicyUpdating,
            format!(
                "Generation {generation} is on its way in; generation {enforced} is enforced meanwhile."
            ),
        ),
        None => Event::new(
            EventReason::PolicyPending,
            format!("Generation {generation} is pending to be loaded."),
        ),
    }];
    events.extend(of_revert(observed));
    if let Some(other) = chosen_id(observed).taken_by {
        let id = observed
            .current()
            .and_then(Revision::id)
            .unwrap_or_default();
        events.push(Event::new(
            EventReason::NameCollision,
            format!("Another policy (UID {other}) has the id that this one would have; this one is {id}."),
        ));
    }
    events
}

/// Whether this generation undoes a rollback: it comes right after one, with what was rolled back from.
fn of_revert(observed: &Observed) -> Option<Event> {
    let policy = &observed.policy;
    let (made, from) = policy.rolled_back()?;
    let before = observed
        .revisions
        .iter()
        .filter(|revision| revision.generation() < made)
        .max_by_key(|revision| revision.generation())?;
    let spec = before.spec.data.get("spec")?.as_object()?;
    if policy.generation <= made || *spec != policy.spec() {
        return None;
    }
    let between = observed
        .revisions
        .iter()
        .any(|revision| revision.generation() > made && revision.generation() < policy.generation);
    if between {
        return None;
    }
    let returned_to = observed
        .revisions
        .iter()
        .find(|revision| revision.generation() == from)
        .and_then(|revision| revision.spec.data.get("spec")?.as_object());
    let who = policy.writer_since(returned_to.unwrap_or(&Map::new()));
    let who = who.unwrap_or("somebody");
    Some(Event::new(
        EventReason::RollbackReverted,
        format!("{who} put back what the rollback to generation {from} had replaced."),
    ))
}

fn of_condition(condition: &PolicyCondition, generation: i64) -> Option<Event> {
    let type_ = ConditionType::parse(&condition.type_)?;
    let reason = match (type_, condition.status) {
        (ConditionType::Scheduled, ConditionStatus::True) => EventReason::PolicyScheduled,
        (ConditionType::Scheduled, _) => match ScheduledReason::parse(&condition.reason)? {
            ScheduledReason::PolicyServerNotFound => EventReason::PolicyServerNotFound,
            ScheduledReason::PolicyServerNotRunning => EventReason::PolicyServerNotRunning,
            ScheduledReason::RevisionRejected => EventReason::RevisionRejected,
            ScheduledReason::WaitingForPolicyServer | ScheduledReason::PolicyScheduled => {
                return None;
            }
        },
        (ConditionType::Initialized, ConditionStatus::True) => EventReason::PolicyInitialized,
        (ConditionType::Initialized, ConditionStatus::False) => {
            EventReason::PolicyInitializationFailed
        }
        (ConditionType::Ready, ConditionStatus::True) => EventReason::PolicyReady,
        (ConditionType::Ready, ConditionStatus::False) => EventReason::PolicyLoadFailed,
        (ConditionType::Initialized | ConditionType::Ready, ConditionStatus::Unknown) => {
            return None;
        }
        (
            ConditionType::PolicyActive
            | ConditionType::PolicyUniquelyReachable
            | ConditionType::PolicyServerConfigurationUpToDate,
            _,
        ) => return None,
    };
    let replica = condition
        .replica
        .map(|replica| format!(", replica {replica}"))
        .unwrap_or_default();
    Some(Event::new(
        reason,
        format!(
            "{} (generation {generation}{replica}): {}",
            condition.reason, condition.message
        ),
    ))
}
