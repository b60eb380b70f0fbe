//! When a key is reconciled again.

use std::time::Duration;

use polity_runtime::retry;

/// The time between two reconciles of an object that does not change, before jitter.
const RESYNC: Duration = Duration::from_hours(1);
/// The share of the resync period that is random, so that objects do not all come at once.
const RESYNC_JITTER: f64 = 0.2;

/// When to reconcile a key again if no watch reports a change before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Not before a watch reports it: the object does not exist.
    Never,
    /// After this time.
    After(Duration),
    /// With the slow resync: about once an hour, with jitter.
    Slowly,
    /// With the back-off of failures: the API server refused something that may be accepted later.
    WithBackoff,
}

/// The delays between the attempts of a key that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureBackoff {
    /// The delay after the first failure.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Default for FailureBackoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(500),
            max: Duration::from_mins(1),
        }
    }
}

impl FailureBackoff {
    /// The delay after this many failures in a row, with jitter.
    pub fn after(&self, n_failures: u32) -> Duration {
        let mut delays = retry::Backoff::new(self.initial, self.max, retry::random);
        // More doublings than this exceed every sensible maximum.
        let nth = usize::try_from(n_failures.saturating_sub(1)).unwrap_or(usize::MAX);
        delays.nth(nth.min(16)).unwrap_or(self.max)
    }
}

/// The delay before the next slow resync of one key.
pub(crate) fn resync_delay() -> Duration {
    RESYNC.mul_f64(1.0 - RESYNC_JITTER * retry::random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_back_off_to_a_maximum() {
        let backoff = FailureBackoff::default();
        for (n_failures, exact_ms) in [
            (0, 500),
            (1, 500),
            (2, 1000),
            (5, 8000),
            (9, 60_000),
            (u32::MAX, 60_000),
        ] {
            let exact = Duration::from_millis(exact_ms);
            let delay = backoff.after(n_failures);
            assert!(
                delay <= exact && delay >= exact / 2,
                "{n_failures}: {delay:?}"
            );
        }
    }

    #[test]
    fn the_resync_of_two_objects_is_spread() {
        let delays: Vec<_> = (0..20).map(|_| resync_delay()).collect();
        assert!(
            delays
                .iter()
                .all(|delay| *delay <= RESYNC && *delay >= RESYNC.mul_f64(0.79))
        );
        assert!(delays.iter().any(|delay| *delay != delays[0]));
    }
}
