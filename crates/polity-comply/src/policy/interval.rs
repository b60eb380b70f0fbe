//! `evaluationInterval`: a duration as Go writes it, `watch` or `never`.

use std::str::FromStr;
use std::time::Duration;

/// When a policy is evaluated again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interval {
    /// When something it read has changed.
    #[default]
    Watch,
    /// Not at all.
    Never,
    /// So long after the last time.
    Every(Duration),
}

/// A text that is no interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a duration such as 10m, 1h30m or 500ms, or \"watch\" or \"never\"")]
pub struct IntervalError;

impl FromStr for Interval {
    type Err = IntervalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "watch" | "" => Ok(Self::Watch),
            "never" => Ok(Self::Never),
            text => duration(text).map(Self::Every).ok_or(IntervalError),
        }
    }
}

/// A duration that lies ahead.
fn duration(text: &str) -> Option<Duration> {
    polity_core::duration::parse(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_parse_as_go_writes_them() {
        for (text, expected) in [
            ("watch", Some(Interval::Watch)),
            ("", Some(Interval::Watch)),
            ("never", Some(Interval::Never)),
            ("10s", Some(Interval::Every(Duration::from_secs(10)))),
            ("1h30m", Some(Interval::Every(Duration::from_mins(90)))),
            ("1.5s", Some(Interval::Every(Duration::from_millis(1500)))),
            ("200ms", Some(Interval::Every(Duration::from_millis(200)))),
            ("10", None),
            ("10d", None),
            ("s", None),
            ("-5s", None),
            ("9999999999999999999999h", None),
            ("1..5s", None),
            ("soon", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text:?}");
        }
    }
}
