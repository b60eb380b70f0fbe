//! What a policy can return to, and which revisions are kept for it.

use polity_api::policies::v1::{
    ConditionStatus, ConditionType, HistoryEntry, HistoryResult, PolicyRevision,
};

use super::observed::{Observed, Revision};
use super::policy::{Content, Modules};

/// The earlier generations that are kept, newest first. What is enforced can be returned to whatever the limit is.
pub(super) fn entries(observed: &Observed, serving: Option<i64>) -> Vec<HistoryEntry> {
    let surplus: Vec<_> = surplus(observed, serving)
        .into_iter()
        .map(Revision::generation)
        .collect();
    let revisions = observed.newest_first().into_iter();
    revisions
        .filter(|revision| revision.generation() < observed.policy.generation)
        .filter(|revision| !surplus.contains(&revision.generation()))
        .map(|revision| entry(observed, revision, serving))
        .collect()
}

/// The revisions that are too many: those that never served go first, then the oldest. One that still drains
/// counts already, and goes once it is disabled.
pub(super) fn surplus(observed: &Observed, serving: Option<i64>) -> Vec<&PolicyRevision> {
    let in_use = [Some(observed.policy.generation), serving];
    let revisions = observed.revisions.iter();
    let mut past: Vec<_> = revisions
        .filter(|revision| !in_use.contains(&Some(revision.generation())))
        .collect();
    past.sort_by_key(|revision| {
        let has_served = result(observed, revision, serving) == HistoryResult::Active;
        (has_served, revision.generation())
    });
    past.truncate(past.len().saturating_sub(observed.history_limit()));
    past
}

fn entry(observed: &Observed, revision: &PolicyRevision, serving: Option<i64>) -> HistoryEntry {
    let modules = revision
        .content()
        .ok()
        .map(|Content { modules, .. }| modules);
    let (module, members) = match modules {
        Some(Modules::One(module)) => (Some(module), None),
        Some(Modules::Members(members)) => (None, Some(members)),
        None => (None, None),
    };
    HistoryEntry {
        generation: revision.generation(),
        module,
        members,
        created_at: revision.metadata.creation_timestamp.clone(),
        result: result(observed, revision, serving),
    }
}

/// What became of a generation. What was recorded once stays: its conditions go when it is disabled.
fn result(observed: &Observed, revision: &PolicyRevision, serving: Option<i64>) -> HistoryResult {
    let generation = revision.generation();
    if revision.is_serving() || serving == Some(generation) {
        return HistoryResult::Active;
    }
    let status = observed.policy.status.as_ref();
    let recorded = status
        .iter()
        .flat_map(|status| &status.history)
        .find(|entry| entry.generation == generation)
        .map(|entry| entry.result);
    match recorded {
        Some(recorded @ (HistoryResult::Active | HistoryResult::Failed)) => recorded,
        _ if status.is_some_and(|status| status.serving_generation == Some(generation)) => {
            HistoryResult::Active
        }
        _ if has_failed(revision) => HistoryResult::Failed,
        _ => HistoryResult::Superseded,
    }
}

fn has_failed(revision: &PolicyRevision) -> bool {
    let conditions = revision.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.status == ConditionStatus::False
            && [ConditionType::Initialized, ConditionType::Ready]
                .iter()
                .any(|type_| condition.type_ == type_.as_str())
    })
}
