//! The Events about a policy: one for each transition of its status, written once the status was written.

use polity_api::policies::v1::{
    ConditionStatus, ConditionType, ObservedMode, Phase, PolicyCondition, PolicyStatus,
    ScheduledReason,
};
use serde_json::Map;

use super::conditions::is_same;
use super::observed::{Observed, Revision};
use super::revision::chosen_id;
use super::status::in_force;

/// An Event about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened, in one word.
    pub reason: EventReason,
    /// What happened, in a sentence.
    pub note: String,
}

/// The reasons of Events about policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventReason {
    /// The first generation is being loaded.
    PolicyPending,
    /// A new generation is being loaded while an older one is served.
    PolicyUpdating,
    /// The leading replica has taken the generation.
    PolicyScheduled,
    /// The modules of the generation are compiled and in the cache.
    PolicyInitialized,
    /// A replica can serve the generation.
    PolicyReady,
    /// The webhook calls the generation.
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
    /// A rollback was requested and could not be done.
    RollbackFailed,
    /// A later change undid a rollback.
    RollbackReverted,
    /// The API server refused the revision.
    RevisionRejected,
    /// Another policy has the id that this one would have had.
    NameCollision,
}

impl EventReason {
    /// The reason as Events spell it.
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

    /// Whether the owner of the policy should act.
    pub fn is_warning(self) -> bool {
        self >= Self::PolicyServerNotFound
    }

    /// The place in the usual order of Events, for those that happen within the same second.
    pub fn rank(self) -> u8 {
        match self {
            Self::PolicyRolledBack | Self::RollbackFailed => 0,
            Self::PolicyPending | Self::PolicyUpdating => 1,
            Self::RollbackReverted | Self::NameCollision | Self::RevisionRejected => 2,
            Self::PolicyServerNotFound | Self::PolicyServerNotRunning => 3,
            Self::PolicyScheduled => 4,
            Self::PolicyInitialized | Self::PolicyInitializationFailed => 5,
            Self::PolicyReady | Self::PolicyLoadFailed => 6,
            Self::PolicyActive => 7,
        }
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

/// The Events for the transition from the status that was read to the one about to be written.
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
            .then(|| of_condition(condition, generation, loss(before, after).as_deref()))
            .flatten()
    }));
    let was_active = before.is_some_and(|status| {
        status.phase == Some(Phase::Active) && status.serving_generation == Some(generation)
    });
    if after.phase == Some(Phase::Active) && !was_active {
        let note = match after.mode {
            Some(ObservedMode::Monitor) => format!(
                "Generation {generation} is active in monitor mode: violations are reported, not rejected."
            ),
            _ => format!("Generation {generation} is enforced."),
        };
        events.push(Event::new(EventReason::PolicyActive, note));
    }
    events
}

fn of_new_generation(observed: &Observed, after: &PolicyStatus) -> Vec<Event> {
    let generation = observed.policy.generation;
    let before = observed.policy.status.as_ref();
    // A generation that was activated before this status was written replaced the one of the status before.
    let older = match after.serving_generation {
        Some(serving) if serving == generation => before,
        _ => Some(after),
    };
    let serving = older.and_then(|status| Some((status.serving_generation?, status.mode)));
    let mut events = vec![match serving {
        Some((serving, mode)) => Event::new(
            EventReason::PolicyUpdating,
            format!(
                "Generation {generation} is being loaded; until then {}.",
                in_force(serving, mode)
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

/// What is lost when a policy that was served is not served any more.
fn loss(before: Option<&PolicyStatus>, after: &PolicyStatus) -> Option<String> {
    let before = before?;
    let lost = before.serving_generation?;
    if after.serving_generation.is_some() {
        return None;
    }
    Some(match before.mode {
        Some(ObservedMode::Monitor) => format!("Generation {lost} no longer reports violations."),
        _ => format!("Generation {lost} is no longer enforced."),
    })
}

fn of_condition(condition: &PolicyCondition, generation: i64, loss: Option<&str>) -> Option<Event> {
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
    let mut note = format!(
        "{} (generation {generation}{replica}): {}",
        condition.reason, condition.message
    );
    if let Some(loss) = loss.filter(|_| reason == EventReason::PolicyServerNotFound) {
        note = format!("{note} {loss}");
    }
    Some(Event::new(reason, note))
}
