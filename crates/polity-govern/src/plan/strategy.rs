//! The strategy that a policy is rolled out by, which is not always the one it asks for.

use crate::objects::PolicySpec;
use jiff::SignedDuration;
use polity_core::rollout_strategy::{Pace, RolloutStrategy, Threshold};

/// Why a strategy cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// The strategy of a policy, as the engine is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub strategy: RolloutStrategy,
    pub refused: Option<Refusal>,
    /// Whether the author asks for anything but `All`.
    pub is_type_progressive: bool,
    enforces: bool,
}

impl Effective {
    /// None when the policy has no strategy: nothing is rolled out then, and nothing is kept about it.
    pub fn of(spec: &PolicySpec) -> Option<Self> {
        let given = spec.rollout_strategy.as_ref()?;
        let enforces = spec.enforces();
        let is_type_progressive = spec.is_progressive();
        let (strategy, refused) = match given {
            Ok(strategy) if enforces => (serial_by_default(strategy), None),
            // What only reports has no turn to wait for; how long it may take is still the author's to say.
            Ok(strategy) => (all_with_deadline_of(strategy), None),
            Err(error) => (RolloutStrategy::default(), Some(Refusal(error.to_string()))),
        };
        Some(Self {
            strategy,
            refused,
            is_type_progressive,
            enforces,
        })
    }

    /// Whether clusters wait for their turn.
    pub fn is_progressive(&self) -> bool {
        self.enforces && self.is_type_progressive
    }

    /// How long a cluster may take.
    pub fn deadline(&self) -> Option<SignedDuration> {
        self.strategy.pace().progress_deadline
    }

    /// How long a cluster must have succeeded.
    pub fn soak(&self) -> SignedDuration {
        match &self.strategy {
            RolloutStrategy::All(_) => SignedDuration::ZERO,
            strategy => strategy.pace().min_success_time,
        }
    }
}

/// For policies `Progressive` is one cluster at a time unless more are asked for.
fn serial_by_default(strategy: &RolloutStrategy) -> RolloutStrategy {
    let mut strategy = strategy.clone();
    if let RolloutStrategy::Progressive(progressive) = &mut strategy
        && matches!(
            progressive.max_concurrency,
            None | Some(Threshold::Count(..=0) | Threshold::Percent(0))
        )
    {
        progressive.max_concurrency = Some(Threshold::Count(1));
    }
    strategy
}

fn all_with_deadline_of(strategy: &RolloutStrategy) -> RolloutStrategy {
    RolloutStrategy::All(Pace {
        progress_deadline: strategy.pace().progress_deadline,
        ..Pace::default()
    })
}
