//! How long a request may take: the time-out of its caller, less a margin for the response to arrive in time.

use std::time::Duration;

use polity_eval::Deadline;

/// The longest margin.
const MARGIN: Duration = Duration::from_millis(500);

/// The deadline of a request that begins now. `limit` is the time limit of the server; without it there is no deadline.
pub(crate) fn deadline(limit: Option<Duration>, query: Option<&str>) -> Deadline {
    let Some(limit) = limit else {
        return Deadline::NEVER;
    };
    let timeout = query.and_then(caller_timeout).unwrap_or(limit).min(limit);
    Deadline::after(timeout.saturating_sub((timeout / 10).min(MARGIN)))
}

/// The time-out that an API server sends as `?timeout=`.
fn caller_timeout(query: &str) -> Option<Duration> {
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))?;
    // The micro sign is not ASCII, so it is percent-encoded.
    let value = value.replace("%C2%B5", "u");
    let duration = polity_core::duration::parse(&value).ok()?;
    duration
        .try_into()
        .ok()
        .filter(|duration: &Duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_limit_counts_less_a_margin() {
        let second = Duration::from_secs(1);
        for (limit, query, expected) in [
            (Some(30), None, Some(29_500)),
            (Some(30), Some("timeout=10s"), Some(9_500)),
            (Some(30), Some("a=b&timeout=2s"), Some(1_800)),
            (Some(30), Some("timeout=2m"), Some(29_500)),
            (Some(30), Some("timeout=0s"), Some(29_500)),
            (Some(30), Some("timeout=9.998s"), Some(9_498)),
            (Some(30), Some("timeout=500000%C2%B5s"), Some(450)),
            (Some(30), Some("timeout=-1s"), Some(29_500)),
            (Some(30), Some("timeout=soon"), Some(29_500)),
            (None, Some("timeout=2s"), None),
        ] {
            let deadline = deadline(limit.map(|seconds| seconds * second), query);
            let limit = deadline.limit().map(|limit| limit.as_millis());
            assert_eq!(limit, expected, "{query:?}");
        }
    }
}
