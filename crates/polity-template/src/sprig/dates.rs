//! Dates and durations. The clock and the zones are the host's.

use std::rc::Rc;

use jiff::Zoned;
use jiff::tz::TimeZone;

use super::strings::made;
use crate::arg::text;
use crate::function::{Function, Outcome, Type, function};
use crate::run::Run;
use crate::syntax::number::parse_int;
use crate::time;
use crate::value::{IntType, Value};

const A: Type = Type::Any;
const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "now",
        function(&[], None, |run, _| Ok(Value::Time(Rc::new(run.now())))),
    ),
    ("ago", function(&[A], None, ago)),
    (
        "date",
        function(&[T, A], None, |run, v| {
            in_zone(run, text(&v[0]), &v[1], "Local")
        }),
    ),
    ("dateInZone", DATE_IN_ZONE),
    ("date_in_zone", DATE_IN_ZONE),
    (
        "htmlDate",
        function(&[A], None, |run, v| {
            in_zone(run, "2006-01-02", &v[0], "Local")
        }),
    ),
    (
        "htmlDateInZone",
        function(&[A, T], None, |run, v| {
            in_zone(run, "2006-01-02", &v[0], text(&v[1]))
        }),
    ),
    ("dateModify", DATE_MODIFY),
    ("date_modify", DATE_MODIFY),
    ("mustDateModify", MUST_DATE_MODIFY),
    ("must_date_modify", MUST_DATE_MODIFY),
    (
        "toDate",
        function(&[T, T], None, |run, v| {
            let zone = local(run);
            let read = time::parse(text(&v[0]), text(&v[1]), &zone);
            Ok(Value::Time(Rc::new(read.unwrap_or_else(|_| time::zero()))))
        }),
    ),
    (
        "mustToDate",
        function(&[T, T], None, |run, v| {
            let zone = local(run);
            Ok(Value::Time(Rc::new(time::parse(
                text(&v[0]),
                text(&v[1]),
                &zone,
            )?)))
        }),
    ),
    (
        "unixEpoch",
        function(&[Type::Time], None, |_, v| match &v[0] {
            Value::Time(time) => made(time.timestamp().as_second().to_string()),
            _ => made(""),
        }),
    ),
    (
        "duration",
        function(&[A], None, |_, v| {
            let seconds = match &v[0] {
                Value::Text(text) => parse_int(text, 10).unwrap_or(0),
                Value::Int(seconds, IntType::Int64) => *seconds,
                _ => 0,
            };
            made(time::duration_text(seconds.wrapping_mul(1_000_000_000)))
        }),
    ),
    ("durationRound", function(&[A], None, duration_round)),
];

const DATE_IN_ZONE: Function = function(&[T, A, T], None, |run, v| {
    in_zone(run, text(&v[0]), &v[1], text(&v[2]))
});

const DATE_MODIFY: Function = function(&[T, Type::Time], None, |_, v| {
    match (time::parse_duration(text(&v[0])), &v[1]) {
        (Ok(nanoseconds), Value::Time(start)) => {
            Ok(Value::Time(Rc::new(time::add(start, nanoseconds))))
        }
        _ => Ok(v[1].clone()),
    }
});

const MUST_DATE_MODIFY: Function = function(&[T, Type::Time], None, |_, v| {
    let nanoseconds = time::parse_duration(text(&v[0]))?;
    match &v[1] {
        Value::Time(start) => Ok(Value::Time(Rc::new(time::add(start, nanoseconds)))),
        other => Ok(other.clone()),
    }
});

fn local(run: &Run<'_>) -> TimeZone {
    run.host.now().time_zone().clone()
}

/// A time, seconds since 1970, or now.
fn moment(run: &mut Run<'_>, value: &Value) -> Zoned {
    match value {
        Value::Time(time) => (**time).clone(),
        Value::Int(seconds, IntType::Int | IntType::Int64) => time::from_unix(*seconds, local(run)),
        _ => run.now(),
    }
}

fn in_zone(run: &mut Run<'_>, layout: &str, date: &Value, zone: &str) -> Outcome {
    let zone = match zone {
        "Local" => local(run),
        "UTC" | "" => TimeZone::UTC,
        name => run.host.zone(name).unwrap_or(TimeZone::UTC),
    };
    let time = moment(run, date).with_time_zone(zone);
    made(time::format(&time, layout))
}

fn ago(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    const SECOND: i64 = 1_000_000_000;
    let then = moment(run, &values[0]);
    let nanoseconds = time::between(&run.now(), &then);
    let rest = nanoseconds % SECOND;
    let mut rounded = nanoseconds - rest;
    if rest.abs() * 2 >= SECOND {
        rounded = rounded.saturating_add(SECOND * rest.signum());
    }
    made(time::duration_text(rounded))
}

/// The largest unit that the duration exceeds.
fn duration_round(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let nanoseconds = match &values[0] {
        Value::Text(text) => time::parse_duration(text).unwrap_or(0),
        Value::Int(number, IntType::Int64) => *number,
        Value::Time(then) => {
            let now = run.now();
            time::between(&now, then)
        }
        _ => 0,
    };
    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    const UNITS: [(u64, &str); 6] = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let total = nanoseconds.unsigned_abs();
    for (unit, name) in UNITS {
        if total > unit {
            return made(format!("{}{name}", total / unit));
        }
    }
    made("0s")
}
