//! Which generation to return to.

use polity_api::policies::v1::{HistoryEntry, HistoryResult};

use super::history::in_a_word;
use super::policy::{Modules, Policy};
use crate::exit::Hinted;
use crate::output::one_line;

/// The generation to return to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) generation: i64,
    /// What it was, in words.
    pub(super) what: String,
}

/// Why there is nothing to return to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoTarget {
    #[error("{policy} is being deleted")]
    Deleted { policy: String },
    #[error("{policy} is at generation {generation} already")]
    Current { policy: String, generation: i64 },
    #[error("generation {generation} of {policy} is not kept")]
    NotKept {
        policy: String,
        generation: i64,
        kept: Vec<i64>,
    },
    #[error("{policy} has no earlier generation that was active")]
    NoneBefore { policy: String, kept: Vec<i64> },
}

impl From<NoTarget> for Hinted {
    fn from(error: NoTarget) -> Self {
        let list = |kept: &[i64]| match kept {
            [] => "nothing earlier is kept: apply the manifest you want".to_owned(),
            kept => {
                let kept: Vec<_> = kept.iter().map(ToString::to_string).collect();
                format!("name one that is kept with --to: {}", kept.join(", "))
            }
        };
        let hint = match &error {
            NoTarget::Deleted { .. } => "apply its manifest again once it is gone".to_owned(),
            NoTarget::Current { .. } => "polity policy history lists the others".to_owned(),
            NoTarget::NotKept { kept, .. } | NoTarget::NoneBefore { kept, .. } => list(kept),
        };
        Self::new(error.to_string(), hint)
    }
}

/// The generation that is wanted; without one the serving generation if it is not the current one, else the newest
/// earlier one that was active.
pub(super) fn choose(policy: &Policy, wanted: Option<i64>) -> Result<Target, NoTarget> {
    let name = policy.to_string();
    if policy.is_being_deleted {
        return Err(NoTarget::Deleted { policy: name });
    }
    let kept = kept(policy);
    let target = |entry: &HistoryEntry| Target {
        generation: entry.generation,
        what: in_words(entry),
    };
    let numbers = || kept.iter().map(|entry| entry.generation).collect();
    let serving = policy
        .serving()
        .filter(|serving| *serving != policy.generation);
    match wanted.or(serving) {
        Some(generation) if generation == policy.generation => Err(NoTarget::Current {
            policy: name,
            generation,
        }),
        Some(generation) => {
            let found = kept.iter().find(|entry| entry.generation == generation);
            found
                .map(|entry| target(entry))
                .ok_or_else(|| NoTarget::NotKept {
                    policy: name,
                    generation,
                    kept: numbers(),
                })
        }
        None => {
            let mut enforced = kept.iter();
            let newest = enforced.find(|entry| entry.result == HistoryResult::Active);
            newest
                .map(|entry| target(entry))
                .ok_or_else(|| NoTarget::NoneBefore {
                    policy: name,
                    kept: numbers(),
                })
        }
    }
}

/// The earlier generations, newest first.
fn kept(policy: &Policy) -> Vec<&HistoryEntry> {
    let entries = policy.status.iter().flat_map(|status| &status.history);
    let mut kept: Vec<_> = entries
        .filter(|entry| entry.generation < policy.generation)
        .collect();
    kept.sort_by_key(|entry| std::cmp::Reverse(entry.generation));
    kept
}

fn in_words(entry: &HistoryEntry) -> String {
    let modules = match (&entry.module, &entry.members) {
        (Some(module), _) => Some(Modules::One(module.clone())),
        (None, Some(members)) => Some(Modules::Members(members.clone())),
        (None, None) => None,
    };
    let result = match entry.result {
        HistoryResult::Active => "was active".to_owned(),
        other => format!("was {}", in_a_word(other).to_lowercase()),
    };
    match modules {
        Some(Modules::One(module)) => format!("{result}, {}", one_line(&module)),
        Some(Modules::Members(members)) => format!("{result}, {} members", members.len()),
        None => result,
    }
}
