//! Classifies the state of one cluster at this moment. See docs/spec/governance.md#7-2.

use jiff::Timestamp;
use polity_core::rollout_strategy::{Pace, RolloutStatus};

use super::ClusterState;

/// What the state of a cluster means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Should have the new version and is not finished; looked at again at that time, if any.
    Rollout { recheck_at: Option<Timestamp> },
    /// Has taken too long, since that time.
    TimedOut { deadline: Timestamp },
    /// Nothing to do: succeeded for long enough, timed out before, or skipped.
    Finished,
}

/// Classifies a cluster. Exactly at the end of a deadline or of a soak, that end has come.
///
/// Without a time of transition the clock starts now, at every call: callers must keep that time.
pub fn classify(state: ClusterState, pace: &Pace, now: Timestamp) -> Class {
    let since = state.since.unwrap_or(now);
    match state.status {
        RolloutStatus::ToApply => Class::Rollout { recheck_at: None },
        RolloutStatus::TimeOut | RolloutStatus::Skip => Class::Finished,
        RolloutStatus::Succeeded => {
            let soaked = later(since, pace.min_success_time);
            if now < soaked {
                Class::Rollout {
                    recheck_at: Some(soaked),
                }
            } else {
                Class::Finished
            }
        }
        RolloutStatus::Progressing | RolloutStatus::Failed => {
            let Some(deadline) = pace.progress_deadline else {
                return Class::Rollout { recheck_at: None };
            };
            let deadline = later(since, deadline);
            if now < deadline {
                Class::Rollout {
                    recheck_at: Some(deadline),
                }
            } else {
                Class::TimedOut { deadline }
            }
        }
    }
}

/// A duration later, or the end of time.
fn later(time: Timestamp, duration: jiff::SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
