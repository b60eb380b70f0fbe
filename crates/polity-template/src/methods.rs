//! Methods of the few types that have any: times, durations, versions.

use std::rc::Rc;

use crate::function::{Failure, Function, Outcome, Type, function};
use crate::semver::Version;
use crate::time;
use crate::value::{IntType, Value};

/// The method of this name that the value has.
pub(crate) fn find(value: &Value, name: &str) -> Option<&'static Function> {
    let methods: &'static [(&'static str, Function)] = match value {
        Value::Time(_) => TIME,
        Value::Duration(_) => DURATION,
        Value::Version(_) => VERSION,
        Value::Int(_, IntType::Month | IntType::Weekday) => NAMED,
        _ => return None,
    };
    let found = methods.iter().find(|(method, _)| *method == name);
    found.map(|(_, function)| function)
}

const NAMED: &[(&str, Function)] = &[("String", function(&[], None, shown))];

fn shown(_: &mut crate::run::Run<'_>, values: &[Value]) -> Outcome {
    Ok(Value::text(crate::print::plain(&values[0])?))
}

fn int(number: impl Into<i64>) -> Outcome {
    Ok(Value::int(number.into()))
}

fn as_time(value: &Value) -> Result<&Rc<jiff::Zoned>, Failure> {
    match value {
        Value::Time(time) => Ok(time),
        _ => Err("not a time".into()),
    }
}

fn as_nanoseconds(value: &Value) -> i64 {
    match value {
        Value::Duration(number) | Value::Int(number, _) => *number,
        _ => 0,
    }
}

fn new_time(time: jiff::Zoned) -> Outcome {
    Ok(Value::Time(Rc::new(time)))
}

const TIME: &[(&str, Function)] = &[
    ("String", function(&[], None, shown)),
    (
        "Year",
        function(&[], None, |_, v| int(as_time(&v[0])?.year())),
    ),
    (
        "Month",
        function(&[], None, |_, v| {
            let month = as_time(&v[0])?.month();
            Ok(Value::Int(i64::from(month), IntType::Month))
        }),
    ),
    (
        "Day",
        function(&[], None, |_, v| int(as_time(&v[0])?.day())),
    ),
    (
        "Hour",
        function(&[], None, |_, v| int(as_time(&v[0])?.hour())),
    ),
    (
        "Minute",
        function(&[], None, |_, v| int(as_time(&v[0])?.minute())),
    ),
    (
        "Second",
        function(&[], None, |_, v| int(as_time(&v[0])?.second())),
    ),
    (
        "Nanosecond",
        function(&[], None, |_, v| int(as_time(&v[0])?.subsec_nanosecond())),
    ),
    (
        "Weekday",
        function(&[], None, |_, v| {
            let weekday = as_time(&v[0])?.weekday().to_sunday_zero_offset();
            Ok(Value::Int(i64::from(weekday), IntType::Weekday))
        }),
    ),
    (
        "YearDay",
        function(&[], None, |_, v| int(as_time(&v[0])?.day_of_year())),
    ),
    (
        "Unix",
        function(&[], None, |_, v| {
            Ok(Value::int64(as_time(&v[0])?.timestamp().as_second()))
        }),
    ),
    (
        "UnixMilli",
        function(&[], None, |_, v| {
            Ok(Value::int64(as_time(&v[0])?.timestamp().as_millisecond()))
        }),
    ),
    (
        "UnixNano",
        function(&[], None, |_, v| {
            let nanoseconds = as_time(&v[0])?.timestamp().as_nanosecond();
            Ok(Value::int64(nanoseconds as i64))
        }),
    ),
    (
        "Format",
        function(&[Type::Text], None, |_, v| {
            let layout = v[1].as_text().cloned().unwrap_or_default();
            Ok(Value::text(time::format(as_time(&v[0])?, &layout)))
        }),
    ),
    (
        "UTC",
        function(&[], None, |_, v| {
            new_time(as_time(&v[0])?.with_time_zone(jiff::tz::TimeZone::UTC))
        }),
    ),
    (
        "Local",
        function(&[], None, |run, v| {
            let zone = run.host.now().time_zone().clone();
            new_time(as_time(&v[0])?.with_time_zone(zone))
        }),
    ),
    (
        "Add",
        function(&[Type::Duration], None, |_, v| {
            new_time(time::add(as_time(&v[0])?, as_nanoseconds(&v[1])))
        }),
    ),
    (
        "AddDate",
        function(&[Type::Int, Type::Int, Type::Int], None, |_, v| add_date(v)),
    ),
    (
        "Sub",
        function(&[Type::Time], None, |_, v| {
            let nanoseconds = time::between(as_time(&v[0])?, as_time(&v[1])?);
            Ok(Value::Duration(nanoseconds))
        }),
    ),
    (
        "Before",
        function(&[Type::Time], None, |_, v| {
            Ok(Value::Bool(
                as_time(&v[0])?.timestamp() < as_time(&v[1])?.timestamp(),
            ))
        }),
    ),
    (
        "After",
        function(&[Type::Time], None, |_, v| {
            Ok(Value::Bool(
                as_time(&v[0])?.timestamp() > as_time(&v[1])?.timestamp(),
            ))
        }),
    ),
    (
        "Equal",
        function(&[Type::Time], None, |_, v| {
            Ok(Value::Bool(
                as_time(&v[0])?.timestamp() == as_time(&v[1])?.timestamp(),
            ))
        }),
    ),
    (
        "IsZero",
        function(&[], None, |_, v| {
            Ok(Value::Bool(
                as_time(&v[0])?.timestamp() == time::zero().timestamp(),
            ))
        }),
    ),
];

/// Days beyond the end of a month run over into the next one.
fn add_date(values: &[Value]) -> Outcome {
    let start = as_time(&values[0])?;
    let number = |i: usize| as_nanoseconds(&values[i]).clamp(-20_000, 20_000);
    let months =
        i64::from(start.year()) * 12 + i64::from(start.month()) - 1 + number(1) * 12 + number(2);
    let year = i16::try_from(months.div_euclid(12)).map_err(|_| "year out of range")?;
    let month = (months.rem_euclid(12) + 1) as i8;
    let moved = jiff::civil::Date::new(year, month, 1)
        .and_then(|first| {
            let days = i64::from(start.day()) - 1 + number(3);
            first.checked_add(jiff::Span::new().try_days(days)?)
        })
        .and_then(|date| {
            let moment = date.to_datetime(start.datetime().time());
            moment.to_zoned(start.time_zone().clone())
        });
    match moved {
        Ok(time) => new_time(time),
        Err(_) => Err("year out of range".into()),
    }
}

const DURATION: &[(&str, Function)] = &[
    ("String", function(&[], None, shown)),
    (
        "Hours",
        function(&[], None, |_, v| in_units(v, 3_600_000_000_000)),
    ),
    (
        "Minutes",
        function(&[], None, |_, v| in_units(v, 60_000_000_000)),
    ),
    (
        "Seconds",
        function(&[], None, |_, v| in_units(v, 1_000_000_000)),
    ),
    (
        "Milliseconds",
        function(&[], None, |_, v| {
            Ok(Value::int64(as_nanoseconds(&v[0]) / 1_000_000))
        }),
    ),
    (
        "Nanoseconds",
        function(&[], None, |_, v| Ok(Value::int64(as_nanoseconds(&v[0])))),
    ),
];

fn in_units(values: &[Value], unit: i64) -> Outcome {
    let total = as_nanoseconds(&values[0]);
    let (whole, rest) = (total / unit, total % unit);
    Ok(Value::Float(whole as f64 + rest as f64 / unit as f64))
}

fn as_version(value: &Value) -> Result<&Rc<Version>, Failure> {
    match value {
        Value::Version(version) => Ok(version),
        _ => Err("not a version".into()),
    }
}

fn uint64(number: u64) -> Outcome {
    Ok(Value::Int(number as i64, IntType::Uint64))
}

const VERSION: &[(&str, Function)] = &[
    ("String", function(&[], None, shown)),
    (
        "Major",
        function(&[], None, |_, v| uint64(as_version(&v[0])?.major)),
    ),
    (
        "Minor",
        function(&[], None, |_, v| uint64(as_version(&v[0])?.minor)),
    ),
    (
        "Patch",
        function(&[], None, |_, v| uint64(as_version(&v[0])?.patch)),
    ),
    (
        "Prerelease",
        function(&[], None, |_, v| Ok(Value::text(&as_version(&v[0])?.pre))),
    ),
    (
        "Metadata",
        function(&[], None, |_, v| {
            Ok(Value::text(&as_version(&v[0])?.metadata))
        }),
    ),
    (
        "Original",
        function(&[], None, |_, v| {
            Ok(Value::text(&as_version(&v[0])?.original))
        }),
    ),
    (
        "Compare",
        function(&[Type::Version], None, |_, v| {
            let order = as_version(&v[0])?.compare(as_version(&v[1])?);
            int(order as i8)
        }),
    ),
    (
        "Equal",
        function(&[Type::Version], None, |_, v| {
            Ok(Value::Bool(
                as_version(&v[0])?.compare(as_version(&v[1])?).is_eq(),
            ))
        }),
    ),
    (
        "LessThan",
        function(&[Type::Version], None, |_, v| {
            Ok(Value::Bool(
                as_version(&v[0])?.compare(as_version(&v[1])?).is_lt(),
            ))
        }),
    ),
    (
        "GreaterThan",
        function(&[Type::Version], None, |_, v| {
            Ok(Value::Bool(
                as_version(&v[0])?.compare(as_version(&v[1])?).is_gt(),
            ))
        }),
    ),
];
