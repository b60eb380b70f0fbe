//! The status of a policy: phase, conditions, the fields of older releases, and a message, all from the same inputs.

use jiff::Timestamp;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, LegacyReason, Mode, ObservedMode, Phase, PolicyCondition,
    PolicyRevision, PolicyState, PolicyStatus, ReadyReason, ScheduledReason,
};

use super::conditions::{self, condition, not_scheduled, replica_unknown};
use super::history;
use super::observed::{Observed, Refusal, Revision as _};
use super::revision::{can_be_a_server, why_not_scheduled};
use super::standing::{awaited, is_ready_everywhere};

/// The status of the policy while generation `serving` is served.
pub(super) fn of(observed: &Observed, serving: Option<i64>, now: Timestamp) -> PolicyStatus {
    let policy = &observed.policy;
    let before = policy.status.as_ref();
    let phase = phase(observed, serving);
    let mut conditions = lifecycle_conditions(observed, serving, now);
    conditions.extend(legacy_conditions(observed, serving, now));
    conditions::sort(&mut conditions);
    let earlier = before.map_or(&[][..], |status| &status.conditions);
    conditions::keep_times(&mut conditions, earlier, now);
    PolicyStatus {
        policy_status: policy_state(observed, serving),
        mode: Some(mode(observed, serving)),
        phase: Some(phase),
        observed_generation: match observed.current() {
            Some(_) => Some(policy.generation),
            None => before.and_then(|status| status.observed_generation),
        },
        serving_generation: serving.filter(|generation| *generation > 0),
        message: Some(message(observed, phase, serving)),
        history: history::entries(observed, serving),
        conditions,
    }
}

/// The phase. Without its policy server nothing of a policy has failed: it is pending.
pub(super) fn phase(observed: &Observed, serving: Option<i64>) -> Phase {
    if serving == Some(observed.policy.generation) {
        Phase::Active
    } else if observed.server().is_some() && failure(observed).is_some() {
        Phase::Failed
    } else if serving.is_some() {
        Phase::Updating
    } else {
        Phase::Pending
    }
}

/// The condition that keeps the current generation from being served: its initialisation, or that of an expected replica.
fn failure(observed: &Observed) -> Option<PolicyCondition> {
    let revision = observed.current()?;
    let server = observed.live_server(revision.server())?;
    let initialized = revision.condition(ConditionType::Initialized, None);
    let ready = server
        .ordinals()
        .filter_map(|replica| revision.condition(ConditionType::Ready, Some(replica)));
    let mut spoken = initialized.into_iter().chain(ready);
    spoken
        .find(|condition| condition.status == ConditionStatus::False)
        .cloned()
}

/// The conditions of the serving and of the current generation.
fn lifecycle_conditions(
    observed: &Observed,
    serving: Option<i64>,
    now: Timestamp,
) -> Vec<PolicyCondition> {
    let current = observed.policy.generation;
    let older = serving.filter(|serving| *serving != current);
    let mut all: Vec<_> = older
        .and_then(|serving| observed.revision(serving))
        .map(|revision| shown(observed, revision, now))
        .unwrap_or_default();
    match observed.current() {
        Some(revision) => all.extend(shown(observed, revision, now)),
        None => all.push(without_revision(observed, now)),
    }
    all
}

/// The conditions of a revision as the policy shows them. A replica that reported `True` and takes no requests is
/// unreachable; the conditions of replicas that are not expected are left out.
fn shown(observed: &Observed, revision: &PolicyRevision, now: Timestamp) -> Vec<PolicyCondition> {
    let generation = revision.generation();
    let Some(server) = observed.live_server(revision.server()) else {
        let (reason, message) = why_not_scheduled(revision.server(), None);
        return vec![not_scheduled(reason, message, generation, now)];
    };
    let mut shown: Vec<_> = revision
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().cloned())
        .collect();
    if server.expected.is_some() {
        let expected = server.ordinals();
        shown.retain(|condition| {
            condition
                .replica
                .is_none_or(|replica| expected.contains(&replica))
        });
    }
    for condition in &mut shown {
        match condition.replica {
            Some(replica)
                if condition.status == ConditionStatus::True && !server.is_ready(replica) =>
            {
                *condition = replica_unknown(
                    ReadyReason::ReplicaUnreachable,
                    format!("Replica {replica} is gone, restarting or not ready."),
                    generation,
                    replica,
                    now,
                );
            }
            _ => {}
        }
    }
    if shown.is_empty() {
        let (reason, message) = why_not_scheduled(revision.server(), Some(server));
        shown.push(not_scheduled(reason, message, generation, now));
    }
    shown
}

/// The condition of a generation without a revision: the API server refused it, or it cannot be made.
fn without_revision(observed: &Observed, now: Timestamp) -> PolicyCondition {
    let generation = observed.policy.generation;
    let server = &observed.policy.content.enforcement.policy_server;
    let (reason, message) = match &observed.refusal {
        Some(Refusal::Revision(words)) => (ScheduledReason::RevisionRejected, words.clone()),
        _ if !can_be_a_server(server) => why_not_scheduled(server, None),
        _ => why_not_scheduled(server, observed.server()),
    };
    not_scheduled(reason, message, generation, now)
}

/// The condition types of older releases.
fn legacy_conditions(
    observed: &Observed,
    serving: Option<i64>,
    now: Timestamp,
) -> [PolicyCondition; 3] {
    let current = observed.policy.generation;
    let is_current = serving == Some(current);
    let is_everywhere = is_current
        && observed
            .current()
            .is_some_and(|revision| is_ready_everywhere(observed, revision));
    let legacy = |type_, is_so: bool, reason: LegacyReason, message: String| {
        let status = if is_so {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        condition(type_, status, reason.as_str(), message, current, now)
    };
    let server = &observed.policy.content.enforcement.policy_server;
    let called = match serving {
        Some(_) => "The policy webhook has been created.".to_owned(),
        None if observed.server().is_none() => {
            format!("The PolicyServer {server:?} does not exist, so no webhook calls the policy.")
        }
        None => "The policy webhook has not been created.".to_owned(),
    };
    let (reachable, why_reachable) = if is_everywhere {
        (
            LegacyReason::LatestReplicaSetIsUniquelyReachable,
            "Every replica of the policy server serves the current generation.",
        )
    } else {
        (
            LegacyReason::LatestReplicaSetIsNotUniquelyReachable,
            "Not every replica of the policy server serves the current generation.",
        )
    };
    let (version, why_version) = match observed.current() {
        _ if is_current => (
            LegacyReason::ConfigurationVersionMatch,
            "The policy server runs the current generation.",
        ),
        Some(_) => (
            LegacyReason::ConfigurationVersionMismatch,
            "The policy server does not run the current generation.",
        ),
        None => (
            LegacyReason::UnknownConfigurationVersion,
            "The current generation has no revision yet.",
        ),
    };
    [
        legacy(
            ConditionType::PolicyActive,
            serving.is_some(),
            LegacyReason::PolicyActive,
            called,
        ),
        legacy(
            ConditionType::PolicyUniquelyReachable,
            is_everywhere,
            reachable,
            why_reachable.into(),
        ),
        legacy(
            ConditionType::PolicyServerConfigurationUpToDate,
            is_current,
            version,
            why_version.into(),
        ),
    ]
}

fn policy_state(observed: &Observed, serving: Option<i64>) -> PolicyState {
    if observed.policy.content.enforcement.policy_server.is_empty() {
        PolicyState::Unscheduled
    } else if observed.server().is_none() {
        PolicyState::Scheduled
    } else if serving.is_some() {
        PolicyState::Active
    } else {
        PolicyState::Pending
    }
}

fn mode(observed: &Observed, serving: Option<i64>) -> ObservedMode {
    let revision = serving.and_then(|serving| observed.revision(serving));
    match revision.and_then(|revision| revision.content().ok()) {
        Some(content) => match content.enforcement.mode {
            Mode::Protect => ObservedMode::Protect,
            Mode::Monitor => ObservedMode::Monitor,
        },
        None => ObservedMode::Unknown,
    }
}

/// A part of a sentence: which generation is served, and whether it rejects requests.
pub(super) fn in_force(serving: i64, mode: Option<ObservedMode>) -> String {
    match mode {
        _ if serving == 0 => "the webhook of the previous installation is called".to_owned(),
        Some(ObservedMode::Monitor) => format!("generation {serving} is active in monitor mode"),
        _ => format!("generation {serving} is enforced"),
    }
}

/// One sentence: the reason of this phase, the generation that is served, and the replicas that are awaited.
fn message(observed: &Observed, phase: Phase, serving: Option<i64>) -> String {
    let current = observed.policy.generation;
    let awaited = observed
        .current()
        .map(|revision| awaited(observed, revision))
        .unwrap_or_default();
    let waiting = match awaited.as_slice() {
        [] => String::new(),
        [one] => format!("; replica {one} is awaited"),
        several => {
            let list: Vec<_> = several.iter().map(ToString::to_string).collect();
            format!("; replicas {} are awaited", list.join(", "))
        }
    };
    let served = match serving {
        Some(serving) => in_force(serving, Some(mode(observed, Some(serving)))),
        None => "nothing is enforced".to_owned(),
    };
    if observed.policy.deleted_at().is_some() {
        return format!("The policy is being deleted: {served}.");
    }
    if let Some(Refusal::Webhook(words)) = &observed.refusal {
        return format!(
            "The API server refused the webhook of generation {current}: {words}; {served}."
        );
    }
    match phase {
        Phase::Active => format!("{}{waiting}.", capitalized(&served)),
        Phase::Failed => {
            let why = failure(observed).map(|condition| {
                let replica = condition
                    .replica
                    .map(|replica| format!(" on replica {replica}"));
                let detail = condition.message.trim_end_matches('.');
                format!(
                    "{}{}: {detail}",
                    condition.reason,
                    replica.unwrap_or_default()
                )
            });
            format!(
                "Generation {current} cannot be served ({}); {served}.",
                why.unwrap_or_default()
            )
        }
        Phase::Updating | Phase::Pending => {
            let step = step(observed);
            format!("Generation {current} {step}; {served}{waiting}.")
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// The step that the current generation has reached.
fn step(observed: &Observed) -> String {
    let Some(revision) = observed.current() else {
        return match &observed.refusal {
            Some(Refusal::Revision(words)) => format!("was refused by the API server: {words}"),
            _ => "is not recorded yet".to_owned(),
        };
    };
    let Some(server) = observed.live_server(revision.server()) else {
        return format!(
            "waits for the PolicyServer {:?} to exist",
            revision.server()
        );
    };
    if server.asks_for_signatures {
        return "is not served: its PolicyServer asks for signatures, and this release cannot verify them".to_owned();
    }
    let is = |type_| {
        let condition = revision.condition(type_, None);
        condition.is_some_and(|condition| condition.status == ConditionStatus::True)
    };
    if is(ConditionType::Initialized) {
        if server.ordinals().is_empty() {
            return "is initialized, and its PolicyServer has 0 replicas".to_owned();
        }
        return "is initialized and waits for every replica".to_owned();
    }
    if is(ConditionType::Scheduled) {
        "is being initialized".to_owned()
    } else if server.is_running() {
        "waits for the policy server to take it".to_owned()
    } else {
        "waits for a replica of the policy server to run".to_owned()
    }
}
