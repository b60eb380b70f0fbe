//! What is waited for, and whether the waiting is over.

use std::fmt;
use std::str::FromStr;

use polity_api::policies::v1::Phase;

use super::policy::Policy;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// The current generation is served by every replica.
    Active,
    /// The current generation has failed.
    Failed,
    /// This generation is served by every replica.
    Generation(i64),
}

/// There is no such goal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write active, failed or generation=N")]
pub(super) struct NoGoal;

/// Whether the waiting is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    NotYet,
    /// What is reached, in words.
    Reached(String),
    /// It cannot come true any more, or not without somebody's help: why.
    Missed(String),
}

impl FromStr for Goal {
    type Err = NoGoal;

    fn from_str(text: &str) -> Result<Self, NoGoal> {
        match text.split_once('=') {
            None if text.eq_ignore_ascii_case("active") => Ok(Self::Active),
            None if text.eq_ignore_ascii_case("failed") => Ok(Self::Failed),
            Some(("generation", number)) => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Generation(number)),
                _ => Err(NoGoal),
            },
            _ => Err(NoGoal),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("active"),
            Self::Failed => f.write_str("failed"),
            Self::Generation(generation) => write!(f, "generation={generation}"),
        }
    }
}

impl Goal {
    /// What a look at the policy says; none is one that is gone.
    pub(super) fn look(self, policy: Option<&Policy>) -> Verdict {
        let Some(policy) = policy else {
            return Verdict::Missed("the policy was deleted".to_owned());
        };
        if policy.is_being_deleted {
            return Verdict::Missed("the policy is being deleted".to_owned());
        }
        // The specification is about to be another one.
        if policy.rollback_to.is_some() {
            return Verdict::NotYet;
        }
        match self {
            Self::Active => is_active(policy),
            Self::Failed if policy.phase() == Some(Phase::Failed) => {
                Verdict::Reached(policy.message())
            }
            Self::Failed => Verdict::NotYet,
            Self::Generation(wanted) => is_served(policy, wanted),
        }
    }
}

fn is_active(policy: &Policy) -> Verdict {
    let generation = policy.generation;
    match policy.phase() {
        Some(Phase::Active) if policy.serving() == Some(generation) => {
            Verdict::Reached(format!("generation {generation} {}", policy.in_force()))
        }
        Some(Phase::Failed) => Verdict::Missed(policy.message()),
        Some(Phase::Pending | Phase::Updating | Phase::Active) | None => Verdict::NotYet,
    }
}

/// Generations only rise: one that was passed over does not come back.
fn is_served(policy: &Policy, wanted: i64) -> Verdict {
    let current = policy.generation;
    match policy.serving() {
        Some(serving) if serving == wanted => {
            Verdict::Reached(format!("generation {wanted} {}", policy.in_force()))
        }
        Some(serving) if serving > wanted => Verdict::Missed(format!(
            "generation {serving} {}, which came after generation {wanted}",
            policy.in_force()
        )),
        _ if current > wanted && policy.is_observed() => Verdict::Missed(format!(
            "generation {current} came before generation {wanted} was active"
        )),
        _ if current == wanted && policy.phase() == Some(Phase::Failed) => {
            Verdict::Missed(policy.message())
        }
        _ => Verdict::NotYet,
    }
}
