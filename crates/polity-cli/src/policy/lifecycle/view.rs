//! Where a policy stands: what `polity policy status` answers, as a value.

use std::collections::{BTreeMap, BTreeSet};

use polity_api::policies::v1::{
    ConditionStatus, ConditionType, InitializedReason, Phase, PolicyCondition,
};
use serde::Serialize;

use super::events::Told;
use super::policy::Policy;

/// The answer of `polity policy status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) policy_server: String,
    pub(super) mode: String,
    /// Absent until a controller has acted on the current generation.
    pub(super) phase: Option<Phase>,
    pub(super) message: String,
    /// G.
    pub(super) generation: i64,
    /// S.
    pub(super) serving_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) awaited: Option<Awaited>,
    /// The generation of a rollback that the controller has not processed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollback_to_generation: Option<String>,
    /// Oldest first: what is enforced, then what is on its way.
    pub(super) generations: Vec<Generation>,
    /// Newest last.
    pub(super) events: Vec<Told>,
}

/// What is said about one generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Generation {
    pub(super) generation: i64,
    pub(super) is_serving: bool,
    pub(super) is_current: bool,
    /// `Scheduled`, `Initialized`, then `Ready` by replica.
    pub(super) conditions: Vec<PolicyCondition>,
}

/// Who has the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "who", rename_all = "camelCase")]
pub(super) enum Awaited {
    /// It has not acted on the current generation.
    Controller,
    /// Nobody there took the generation.
    PolicyServer {
        /// The word of the condition, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The leading policy server pulls, compiles and checks it; for another time when there is a reason.
    Leader {
        #[serde(skip_serializing_if = "Option::is_none")]
        retries: Option<String>,
    },
    /// The leading policy server refused it for good.
    Owner { reason: String },
    /// They cannot serve it yet. None are named when none has spoken.
    Replicas { replicas: Vec<i32> },
}

impl View {
    /// Where the policy stands, with the last of its Events.
    pub(super) fn of(policy: &Policy, events: &[Told], n_events: usize) -> Self {
        let generations = generations(policy);
        let skipped = events.len().saturating_sub(n_events);
        Self {
            kind: policy.kind.as_str(),
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
            policy_server: policy.policy_server.clone(),
            mode: policy.mode.clone(),
            phase: policy.phase(),
            message: policy.message(),
            generation: policy.generation,
            serving_generation: policy.serving(),
            awaited: awaited(policy, &generations),
            rollback_to_generation: policy.rollback_to.clone(),
            generations,
            events: events[skipped..].to_vec(),
        }
    }
}

/// The conditions by generation, without those of older releases. The current generation is there in any case.
fn generations(policy: &Policy) -> Vec<Generation> {
    let mut by_generation = BTreeMap::from([(policy.generation, Vec::new())]);
    if let Some(serving) = policy.serving() {
        by_generation.entry(serving).or_default();
    }
    let said = policy.status.iter().flat_map(|status| &status.conditions);
    for condition in said.filter(|condition| step(condition).is_some()) {
        let generation = condition.generation.or(condition.observed_generation);
        let generation = generation.unwrap_or(policy.generation);
        let of_generation = by_generation.entry(generation).or_default();
        of_generation.push(condition.clone());
    }
    let generations = by_generation
        .into_iter()
        .map(|(generation, mut conditions)| {
            conditions.sort_by_key(|condition| (step(condition), condition.replica));
            Generation {
                generation,
                is_serving: policy.serving() == Some(generation),
                is_current: policy.generation == generation,
                conditions,
            }
        });
    generations.collect()
}

/// The place of a condition on the way in; none for those of older releases.
fn step(condition: &PolicyCondition) -> Option<ConditionType> {
    ConditionType::parse(&condition.type_).filter(|type_| match type_ {
        ConditionType::Scheduled | ConditionType::Initialized | ConditionType::Ready => true,
        ConditionType::PolicyActive
        | ConditionType::PolicyUniquelyReachable
        | ConditionType::PolicyServerConfigurationUpToDate => false,
    })
}

impl Generation {
    /// `Scheduled` or `Initialized`, of which there is one.
    fn condition(&self, type_: ConditionType) -> Option<&PolicyCondition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| step(condition) == Some(type_))
    }

    fn replicas(&self) -> impl Iterator<Item = (i32, ConditionStatus)> {
        let ready = self.conditions.iter();
        let ready = ready.filter(|condition| step(condition) == Some(ConditionType::Ready));
        ready.filter_map(|condition| Some((condition.replica?, condition.status)))
    }
}

/// Who has the next step for the current generation, if anybody.
fn awaited(policy: &Policy, generations: &[Generation]) -> Option<Awaited> {
    let current = generations
        .iter()
        .find(|generation| generation.is_current)?;
    let is_true = |condition: &PolicyCondition| condition.status == ConditionStatus::True;
    let scheduled = current.condition(ConditionType::Scheduled);
    // A revision that was refused is said as a condition, although no generation was observed.
    if policy.rollback_to.is_some() || (!policy.is_observed() && scheduled.is_none()) {
        return Some(Awaited::Controller);
    }
    if !scheduled.is_some_and(is_true) {
        return Some(Awaited::PolicyServer {
            reason: scheduled.map(|condition| condition.reason.clone()),
        });
    }
    match current.condition(ConditionType::Initialized) {
        Some(initialized) if is_true(initialized) => {}
        Some(initialized) if initialized.status == ConditionStatus::False => {
            return Some(after_failure(&initialized.reason));
        }
        _ => return Some(Awaited::Leader { retries: None }),
    }
    // A replica that has not said anything about this generation spoke about the one before.
    let known: BTreeSet<i32> = generations
        .iter()
        .flat_map(|generation| generation.replicas().map(|(replica, _)| replica))
        .collect();
    let ready: BTreeSet<i32> = current
        .replicas()
        .filter(|(_, status)| *status == ConditionStatus::True)
        .map(|(replica, _)| replica)
        .collect();
    let replicas: Vec<i32> = known.difference(&ready).copied().collect();
    let is_served = policy.serving() == Some(policy.generation);
    (!is_served || !replicas.is_empty()).then_some(Awaited::Replicas { replicas })
}

/// What happens after a failed initialisation.
fn after_failure(reason: &str) -> Awaited {
    let is_final = match InitializedReason::parse(reason) {
        Some(
            InitializedReason::MetadataInvalid
            | InitializedReason::ModuleInvalid
            | InitializedReason::IncompatibleVersion
            | InitializedReason::SettingsInvalid
            | InitializedReason::ExpressionInvalid
            | InitializedReason::CapabilityInvalid,
        ) => true,
        Some(
            InitializedReason::PullError
            | InitializedReason::CacheError
            | InitializedReason::VerificationError
            | InitializedReason::PolicyInitialized,
        )
        | None => false,
    };
    let reason = reason.to_owned();
    if is_final {
        Awaited::Owner { reason }
    } else {
        Awaited::Leader {
            retries: Some(reason),
        }
    }
}
