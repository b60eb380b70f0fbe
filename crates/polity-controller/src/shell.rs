//! What the shells of this crate share.

mod queue;
mod tell;
mod watch;

use std::time::Duration;

use polity_runtime::retry;

pub(crate) use queue::Queue;
pub(crate) use tell::{Story, tell};
pub(crate) use watch::watch;

/// How long an object is left alone when nothing happens to it.
const SLOW_ROUND: Duration = Duration::from_hours(1);
/// The pauses after failures grow from one to the other.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// The pause before the slow round, a little shorter for some, so that they do not all come at once.
pub(crate) fn slow_round() -> Duration {
    SLOW_ROUND.mul_f64(1.0 - 0.2 * retry::random())
}

/// The pause after so many failures in a row.
pub(crate) fn pause(n_failures: u32) -> Duration {
    let (initial, max) = RETRY;
    let mut pauses = retry::Backoff::new(initial, max, retry::random);
    let nth = usize::try_from(n_failures.saturating_sub(1)).unwrap_or_default();
    pauses.nth(nth.min(16)).unwrap_or(max)
}

/// Whether asking again as we asked will bring the same answer.
pub(crate) fn is_refusal(code: u16) -> bool {
    matches!(code, 400 | 403 | 413 | 422)
}
