//! Times and durations, printed and read the way Go does it: by an example of a time.

mod layout;

pub(crate) use layout::{format, parse};

use jiff::Zoned;
use jiff::civil;
use jiff::tz::TimeZone;

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

/// As a time prints.
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

/// So many seconds after 1970, in this zone.
pub(crate) fn from_unix(seconds: i64, zone: TimeZone) -> Zoned {
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    moment.to_zoned(zone)
}

/// The time so many nanoseconds later; the ends of time stay where they are.
pub(crate) fn add(time: &Zoned, nanoseconds: i64) -> Zoned {
    let moved = time
        .timestamp()
        .saturating_add(jiff::SignedDuration::from_nanos(nanoseconds));
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
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    if total == 0 {
        return "0s".to_owned();
    }
    if total < 1_000_000_000 {
        let (unit, name) = match total {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(total, unit));
    }
    let seconds = total / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(total % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, minutes) => format!("{sign}{minutes}m{rest}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

/// `total / unit` with as many decimals as it needs.
fn decimal(total: u64, unit: u64) -> String {
    let (whole, rest) = (total / unit, total % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Reads `1h2m3.5s` and the like into nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let quoted = crate::syntax::unquote::quote(text);
    let invalid = || format!("time: invalid duration {quoted}");
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(format!("time: missing unit in duration {quoted}")),
            unit => {
                let unit = crate::syntax::unquote::quote(unit);
                return Err(format!("time: unknown unit {unit} in duration {quoted}"));
            }
        };
        let digits = |text: &str| match text {
            "" => Ok(0),
            text => text.parse::<i128>().map_err(|_| invalid()),
        };
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10i128.pow(fraction.len() as u32);
        let whole = digits(whole)?;
        if whole > i128::from(i64::MAX) {
            return Err(invalid());
        }
        total += whole * factor + digits(fraction)? * factor / scale;
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| invalid())
}
