//! Exponential backoff with jitter, as an iterator over the delays.

use std::time::Duration;

/// The delays of a backoff: each about twice the last, up to a limit, each shortened by up to
/// half at random so that clients that failed together do not come back together.
///
/// ```
/// use std::time::Duration;
/// use polity_runtime::retry::Backoff;
///
/// let delays = Backoff::new(Duration::from_secs(1), Duration::from_secs(5), || 0.0);
/// let seconds: Vec<u64> = delays.take(5).map(|delay| delay.as_secs()).collect();
/// assert_eq!(seconds, [1, 2, 4, 5, 5]);
/// ```
#[derive(Debug, Clone)]
pub struct Backoff<R> {
    next: Duration,
    max: Duration,
    random: R,
}

/// How much of a delay chance may take away.
const JITTER: f64 = 0.5;

impl<R: FnMut() -> f64> Backoff<R> {
    /// Starts with `initial`, never above `max`; `random` gives numbers from 0 to 1.
    pub fn new(initial: Duration, max: Duration, random: R) -> Self {
        Self {
            next: initial.min(max),
            max,
            random,
        }
    }
}

impl<R: FnMut() -> f64> Iterator for Backoff<R> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self
            .next
            .mul_f64(1.0 - JITTER * (self.random)().clamp(0.0, 1.0));
        self.next = self.next.saturating_mul(2).min(self.max);
        Some(delay)
    }
}

/// A random number from 0 to 1, for shells that need jitter.
pub fn random() -> f64 {
    // Without system randomness there is no jitter, which every caller can tolerate.
    let bytes = crate::random::bytes().unwrap_or_default();
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn delays_stay_within_bounds(initial_ms in 1u64..10_000, max_ms in 1u64..1_000_000, chance in 0.0..=1.0) {
            let (initial, max) = (Duration::from_millis(initial_ms), Duration::from_millis(max_ms));
            let mut exact = initial.min(max);
            for delay in Backoff::new(initial, max, || chance).take(64) {
                prop_assert!(delay <= exact && delay + Duration::from_nanos(1) >= exact / 2);
                exact = (exact * 2).min(max);
            }
        }
    }

    #[test]
    fn chance_is_between_zero_and_one() {
        let drawn: Vec<f64> = (0..100).map(|_| random()).collect();
        assert!(drawn.iter().all(|number| (0.0..=1.0).contains(number)));
        assert!(drawn.iter().any(|number| (number - drawn[0]).abs() > 1e-6));
    }
}
