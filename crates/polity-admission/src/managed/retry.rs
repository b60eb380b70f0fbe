//! The delays after which failed steps are retried.

use std::time::Duration;

use polity_api::policies::v1::InitializedReason;

/// The first delay after a failure that may pass without a change; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(5);
/// The longest of these delays.
const LONGEST: Duration = Duration::from_mins(5);
/// The delay after a missing signature, which a person has to make.
const VERIFICATION: Duration = Duration::from_mins(10);
/// The share of a delay that is random, so that attempts that failed together are not repeated together.
const JITTER: f64 = 0.5;
/// How many crashes in the compile step make a module fail.
pub(crate) const CRASHES: i32 = 3;
/// The delays after [`CRASHES`] crashes, one more, and so on. They are long because the next attempt may crash the
/// process again.
const AFTER_CRASHES: [Duration; 4] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_hours(1),
];

/// The delay after `n_failures` failures in a row. `chance` is a random number from 0 to 1.
pub(crate) fn backoff(n_failures: u32, chance: f64) -> Duration {
    let doubled = 2u32.saturating_pow(n_failures.saturating_sub(1));
    let delay = FIRST.saturating_mul(doubled).min(LONGEST);
    delay.mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
}

/// The delay after `n_crashes` crashes, at least [`CRASHES`].
pub(crate) fn after_crashes(n_crashes: i32) -> Duration {
    let n_more = usize::try_from(n_crashes - CRASHES).unwrap_or_default();
    AFTER_CRASHES[n_more.min(AFTER_CRASHES.len() - 1)]
}

/// The delay of the leader after `n_failures` failures, the last one with this reason; `None` if a retry of the same
/// input would have the same result.
pub(crate) fn after(reason: InitializedReason, n_failures: u32, chance: f64) -> Option<Duration> {
    match reason {
        InitializedReason::PullError | InitializedReason::CacheError => {
            Some(backoff(n_failures, chance))
        }
        InitializedReason::VerificationError => Some(VERIFICATION),
        InitializedReason::PolicyInitialized
        | InitializedReason::MetadataInvalid
        | InitializedReason::ModuleInvalid
        | InitializedReason::IncompatibleVersion
        | InitializedReason::SettingsInvalid
        | InitializedReason::ExpressionInvalid
        | InitializedReason::CapabilityInvalid => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_retried_less_and_less_up_to_once_an_hour() {
        let minutes = |n| after_crashes(n).as_secs() / 60;
        let delays: Vec<u64> = (2..9).map(minutes).collect();
        assert_eq!(delays, [1, 1, 5, 15, 60, 60, 60]);
        assert_eq!(minutes(i32::MAX), 60);
    }

    #[test]
    fn delays_after_failures() {
        let seconds = |n| backoff(n, 0.0).as_secs();
        let delays: Vec<u64> = (1..9).map(seconds).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(seconds(u32::MAX), 300);
        assert_eq!(backoff(1, 1.0), FIRST / 2);

        for reason in InitializedReason::ALL {
            let expected = match reason.as_str() {
                "PullError" | "CacheError" => Some(FIRST),
                "VerificationError" => Some(VERIFICATION),
                _ => None,
            };
            assert_eq!(after(*reason, 1, 0.0), expected, "{reason}");
        }
    }
}
