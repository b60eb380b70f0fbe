//! Rollout strategies.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use polity_core::duration;
use polity_core::rollout_strategy::{
    GroupReference, Pace, Progressive, ProgressivePerGroup, RolloutStrategy, RolloutStrategyError,
    Threshold, ThresholdError, parse_deadline,
};

use crate::cluster::v1alpha1::{self, MandatoryDecisionGroup, RolloutConfig};

/// Only the part that the type names counts; a missing one has the defaults.
impl TryFrom<&v1alpha1::RolloutStrategy> for RolloutStrategy {
    type Error = RolloutStrategyError;

    fn try_from(strategy: &v1alpha1::RolloutStrategy) -> Result<Self, RolloutStrategyError> {
        match strategy.type_.as_str() {
            "" | "All" => {
                let all = strategy.all.clone().unwrap_or_default();
                // `All` never looks at it, so no text in it can be wrong.
                let config = RolloutConfig {
                    min_success_time: "0".to_owned(),
                    ..all.config
                };
                Ok(Self::All(pace(&config)?))
            }
            "Progressive" => {
                let progressive = strategy.progressive.clone().unwrap_or_default();
                let max_concurrency = progressive.max_concurrency.as_ref();
                Ok(Self::Progressive(Progressive {
                    pace: pace(&progressive.config)?,
                    max_concurrency: max_concurrency.map(threshold).transpose()?,
                    mandatory_groups: references(&progressive.mandatory_decision_groups),
                }))
            }
            "ProgressivePerGroup" => {
                let per_group = strategy.progressive_per_group.clone().unwrap_or_default();
                Ok(Self::ProgressivePerGroup(ProgressivePerGroup {
                    pace: pace(&per_group.config)?,
                    mandatory_groups: references(&per_group.mandatory_decision_groups),
                }))
            }
            other => Err(RolloutStrategyError::Type(other.to_owned())),
        }
    }
}

fn pace(config: &RolloutConfig) -> Result<Pace, RolloutStrategyError> {
    let min_success_time = match config.min_success_time.as_str() {
        "" => "0",
        text => text,
    };
    Ok(Pace {
        min_success_time: duration::parse(min_success_time)?,
        progress_deadline: parse_deadline(&config.progress_deadline)?,
        max_failures: threshold(&config.max_failures)?,
    })
}

pub(super) fn threshold(value: &IntOrString) -> Result<Threshold, ThresholdError> {
    match value {
        IntOrString::Int(n) => Ok(Threshold::Count(i64::from(*n))),
        IntOrString::String(text) => text.parse(),
    }
}

/// The name wins; an item with nothing in it means index 0.
fn references(groups: &[MandatoryDecisionGroup]) -> Vec<GroupReference> {
    let reference = |group: &MandatoryDecisionGroup| {
        if group.group_name.is_empty() {
            GroupReference::Index(group.group_index.unwrap_or(0))
        } else {
            GroupReference::Name(group.group_name.clone())
        }
    };
    groups.iter().map(reference).collect()
}
