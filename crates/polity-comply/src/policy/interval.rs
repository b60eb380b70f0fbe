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

/// `1h30m`, `1.5s`: numbers with units, added up.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(unit_at);
        let number_at = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(number_at);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = after;
    }
    Some(total)
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
