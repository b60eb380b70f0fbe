//! Times and durations, printed and read the way Go does it: by an example of a time.

mod layout;

pub(crate) use layout::{format, parse};

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};
use polity_core::duration;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

pub(crate) fn month_name(month: i64) -> &'static str {
    let index = usize::try_from(month - 1).unwrap_or(usize::MAX);
    MONTHS.get(index).copied().unwrap_or("%!Month(0)")
}

pub(crate) fn weekday_name(weekday: i64) -> &'static str {
    let index = usize::try_from(weekday).unwrap_or(usize::MAX);
    WEEKDAYS.get(index).copied().unwrap_or("%!Weekday(0)")
}

/// The default text of a time.
pub(crate) fn text(time: &Zoned) -> String {
    format(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// As a time is in JSON.
pub(crate) fn json_text(time: &Zoned) -> String {
    format(time, "2006-01-02T15:04:05.999999999Z07:00")
}

/// The time that was never set: the first moment of the year 1.
pub(crate) fn zero() -> Zoned {
    civil::date(1, 1, 1)
        .at(0, 0, 0, 0)
        .to_zoned(TimeZone::UTC)
        .unwrap_or_default()
}

/// The time this many seconds after 1970, in this zone.
pub(crate) fn from_unix(seconds: i64, zone: TimeZone) -> Zoned {
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    moment.to_zoned(zone)
}

/// The time this many nanoseconds later, limited to the supported range.
pub(crate) fn add(time: &Zoned, nanoseconds: i64) -> Zoned {
    let moved = time
        .timestamp()
        .saturating_add(SignedDuration::from_nanos(nanoseconds));
    match moved {
        Ok(moment) => moment.to_zoned(time.time_zone().clone()),
        Err(_) => time.clone(),
    }
}

/// The nanoseconds from `earlier` to `later`, as far as 64 bits hold them.
pub(crate) fn between(later: &Zoned, earlier: &Zoned) -> i64 {
    let nanoseconds = later.timestamp().as_nanosecond() - earlier.timestamp().as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// `1h2m3.5s`.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    duration::print(SignedDuration::from_nanos(nanoseconds))
}

/// Reads `1h2m3.5s` and the like into nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let parsed = duration::parse(text).map_err(|error| error.to_string())?;
    Ok(i64::try_from(parsed.as_nanos()).unwrap_or(i64::MAX))
}
