//! What the reconcilers of this crate share.

mod event;
mod queue;
mod watch;

use std::time::Duration;

use polity_runtime::retry;

pub(crate) use event::{ObjectEvent, publish};
pub(crate) use queue::Queue;
pub(crate) use watch::watch;

/// The time between two reconciles of an object that does not change.
const SLOW_ROUND: Duration = Duration::from_hours(1);
/// The shortest and the longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// The pause before the next slow reconcile, with jitter, so that objects do not all come at once.
pub(crate) fn slow_round() -> Duration {
    SLOW_ROUND.mul_f64(1.0 - 0.2 * retry::random())
}

/// The pause after this many failures in a row.
pub(crate) fn pause(n_failures: u32) -> Duration {
    let (initial, max) = RETRY;
    let mut pauses = retry::Backoff::new(initial, max, retry::random);
    let nth = usize::try_from(n_failures.saturating_sub(1)).unwrap_or_default();
    pauses.nth(nth.min(16)).unwrap_or(max)
}

/// Whether the API server would refuse the same request again.
pub(crate) fn is_refusal(code: u16) -> bool {
    matches!(code, 400 | 403 | 413 | 422)
}
