//! When something that failed is tried again.

use std::time::Duration;

use polity_api::policies::v1::InitializedReason;

/// The first delay after a failure that may pass by itself; each one more is twice as long.
const FIRST: Duration = Duration::from_secs(5);
/// The longest of these delays.
const LONGEST: Duration = Duration::from_mins(5);
/// Signatures are made by people.
const VERIFICATION: Duration = Duration::from_mins(10);
/// How much of a delay chance takes away, so that those who failed together do not come back together.
const JITTER: f64 = 0.5;

/// How long to wait after so many failures in a row. `chance` is from 0 to 1.
pub(crate) fn backoff(n_failures: u32, chance: f64) -> Duration {
    let doubled = 2u32.saturating_pow(n_failures.saturating_sub(1));
    let delay = FIRST.saturating_mul(doubled).min(LONGEST);
    delay.mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
}

/// How long the leader waits after so many failures, the last one for this reason; nothing, where the same input has
/// the same result.
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
    fn delays_of_section_19_4() {
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
