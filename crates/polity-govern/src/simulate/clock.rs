//! Times in a scenario: `+5m` after the start, `10:05` on the clock, or a whole timestamp.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no time: write +5m (after the start), 10:05 (on the clock, UTC) or 2026-11-15T10:05:00Z"
)]
pub struct TimeError(pub String);

/// Reads a time. One on the clock is the first of its kind from the start on.
pub(super) fn parse(text: &str, start: Timestamp) -> Result<Timestamp, TimeError> {
    let error = || TimeError(text.to_owned());
    if let Some(offset) = text.strip_prefix('+') {
        let by = polity_core::duration::parse(offset).map_err(|_| error())?;
        return start.checked_add(by).map_err(|_| error());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let mut parts = text.split(':').map(|part| part.parse::<i8>().ok());
    let (Some(Some(hour)), Some(Some(minute)), second, None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(error());
    };
    let second = second.unwrap_or(Some(0)).ok_or_else(error)?;
    let time = jiff::civil::Time::new(hour, minute, second, 0).map_err(|_| error())?;
    let day = start.to_zoned(TimeZone::UTC).date();
    let at = day
        .to_datetime(time)
        .to_zoned(TimeZone::UTC)
        .map_err(|_| error())?
        .timestamp();
    if at >= start {
        Ok(at)
    } else {
        at.checked_add(SignedDuration::from_hours(24))
            .map_err(|_| error())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn start() -> Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("+5m", "2026-11-15T10:05:00Z"),
            ("+36h", "2026-11-16T22:00:00Z"),
            ("10:05", "2026-11-15T10:05:00Z"),
            ("10:05:30", "2026-11-15T10:05:30Z"),
            ("09:00", "2026-11-16T09:00:00Z"),
            ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        ] {
            assert_eq!(
                parse(text, start()).unwrap().to_string(),
                expected,
                "{text}"
            );
        }
        for text in ["", "+", "soon", "25:00", "10", "10:5:3:1", "+1y"] {
            assert!(parse(text, start()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[+0-9:hms]{0,12}") {
            let _ = parse(&text, start());
        }
    }
}
