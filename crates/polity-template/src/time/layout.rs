//! Layouts: `Mon Jan 2 15:04:05 MST 2006` and every other way to write that moment.

use jiff::Zoned;
use jiff::civil;
use jiff::tz::{Offset, TimeZone};

use super::{MONTHS, WEEKDAYS};
use crate::syntax::unquote::quote;

/// A piece of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    LongYear,
    Year,
    LongMonth,
    ShortMonth,
    ZeroMonth,
    Month,
    LongWeekday,
    ShortWeekday,
    ZeroDay,
    PaddedDay,
    Day,
    ZeroYearDay,
    PaddedYearDay,
    Hour24,
    ZeroHour12,
    Hour12,
    ZeroMinute,
    Minute,
    ZeroSecond,
    Second,
    /// `.000`: this many digits, after this sign.
    Fraction(char, usize),
    /// `.999`: up to this many digits, none if zero.
    ShortFraction(char, usize),
    UpperHalf,
    LowerHalf,
    ZoneName,
    Offset(OffsetForm),
}

/// How an offset from UTC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OffsetForm {
    /// Written `Z` when it is UTC.
    z: bool,
    colon: bool,
    /// Hours, minutes, seconds.
    n_parts: u8,
}

const fn offset(z: bool, colon: bool, n_parts: u8) -> Piece {
    Piece::Offset(OffsetForm { z, colon, n_parts })
}

/// The longer ones first, where one begins like another.
const PIECES: &[(&str, Piece)] = &[
    ("January", Piece::LongMonth),
    ("Jan", Piece::ShortMonth),
    ("Monday", Piece::LongWeekday),
    ("Mon", Piece::ShortWeekday),
    ("MST", Piece::ZoneName),
    ("2006", Piece::LongYear),
    ("002", Piece::ZeroYearDay),
    ("01", Piece::ZeroMonth),
    ("02", Piece::ZeroDay),
    ("03", Piece::ZeroHour12),
    ("04", Piece::ZeroMinute),
    ("05", Piece::ZeroSecond),
    ("06", Piece::Year),
    ("15", Piece::Hour24),
    ("1", Piece::Month),
    ("2", Piece::Day),
    ("__2", Piece::PaddedYearDay),
    ("_2006", Piece::LongYear),
    ("_2", Piece::PaddedDay),
    ("3", Piece::Hour12),
    ("4", Piece::Minute),
    ("5", Piece::Second),
    ("PM", Piece::UpperHalf),
    ("pm", Piece::LowerHalf),
    ("-07:00:00", offset(false, true, 3)),
    ("-070000", offset(false, false, 3)),
    ("-07:00", offset(false, true, 2)),
    ("-0700", offset(false, false, 2)),
    ("-07", offset(false, false, 1)),
    ("Z07:00:00", offset(true, true, 3)),
    ("Z070000", offset(true, false, 3)),
    ("Z07:00", offset(true, true, 2)),
    ("Z0700", offset(true, false, 2)),
    ("Z07", offset(true, false, 1)),
];

/// The first element of a layout: the text before it, its format, and the rest.
fn next_piece(layout: &str) -> (&str, Option<(&str, Piece)>, &str) {
    for (at, c) in layout.char_indices() {
        let rest = &layout[at..];
        if matches!(c, '.' | ',') && rest[1..].starts_with(['0', '9']) {
            let digit = rest.as_bytes()[1];
            let n_digits = rest[1..].bytes().take_while(|b| *b == digit).count();
            let after = &rest[1 + n_digits..];
            if !after.starts_with(|c: char| c.is_ascii_digit()) {
                let piece = if digit == b'0' {
                    Piece::Fraction(c, n_digits)
                } else {
                    Piece::ShortFraction(c, n_digits)
                };
                return (&layout[..at], Some((&rest[..=n_digits], piece)), after);
            }
        }
        for (text, piece) in PIECES {
            if !rest.starts_with(text) {
                continue;
            }
            let after = &rest[text.len()..];
            let in_word = *text == "Jan" || *text == "Mon";
            if in_word && after.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            // The underscore of `_2006` is text.
            if *text == "_2006" {
                return (&layout[..=at], Some((&rest[1..5], *piece)), after);
            }
            return (&layout[..at], Some((&rest[..text.len()], *piece)), after);
        }
    }
    (layout, None, "")
}

/// A time in this layout.
pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    loop {
        let (text, piece, after) = next_piece(rest);
        out.push_str(text);
        let Some((_, piece)) = piece else {
            return out;
        };
        out.push_str(&formatted(time, piece));
        rest = after;
    }
}

fn formatted(time: &Zoned, piece: Piece) -> String {
    let month = usize::from(time.month().unsigned_abs()) - 1;
    let weekday = usize::from(time.weekday().to_sunday_zero_offset().unsigned_abs());
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    match piece {
        Piece::LongYear => format!("{:04}", time.year()),
        Piece::Year => format!("{:02}", time.year() % 100),
        Piece::LongMonth => MONTHS[month].to_owned(),
        Piece::ShortMonth => MONTHS[month][..3].to_owned(),
        Piece::ZeroMonth => format!("{:02}", time.month()),
        Piece::Month => time.month().to_string(),
        Piece::LongWeekday => WEEKDAYS[weekday].to_owned(),
        Piece::ShortWeekday => WEEKDAYS[weekday][..3].to_owned(),
        Piece::ZeroDay => format!("{:02}", time.day()),
        Piece::PaddedDay => format!("{:2}", time.day()),
        Piece::Day => time.day().to_string(),
        Piece::ZeroYearDay => format!("{:03}", time.day_of_year()),
        Piece::PaddedYearDay => format!("{:3}", time.day_of_year()),
        Piece::Hour24 => format!("{:02}", time.hour()),
        Piece::ZeroHour12 => format!("{hour12:02}"),
        Piece::Hour12 => hour12.to_string(),
        Piece::ZeroMinute => format!("{:02}", time.minute()),
        Piece::Minute => time.minute().to_string(),
        Piece::ZeroSecond => format!("{:02}", time.second()),
        Piece::Second => time.second().to_string(),
        Piece::Fraction(sign, n_digits) => {
            let digits = format!("{:09}", time.subsec_nanosecond());
            format!("{sign}{}", &digits[..n_digits.min(9)])
        }
        Piece::ShortFraction(sign, n_digits) => {
            let digits = format!("{:09}", time.subsec_nanosecond());
            match digits[..n_digits.min(9)].trim_end_matches('0') {
                "" => String::new(),
                digits => format!("{sign}{digits}"),
            }
        }
        Piece::UpperHalf => (if time.hour() < 12 { "AM" } else { "PM" }).to_owned(),
        Piece::LowerHalf => (if time.hour() < 12 { "am" } else { "pm" }).to_owned(),
        Piece::ZoneName => {
            let info = time.time_zone().to_offset_info(time.timestamp());
            let name = info.abbreviation().to_owned();
            if name.starts_with(['+', '-']) && time.time_zone().iana_name().is_none() {
                // A zone without a name is written as its offset.
                let unnamed = OffsetForm {
                    z: false,
                    colon: false,
                    n_parts: 2,
                };
                return offset_text(time.offset().seconds(), unnamed);
            }
            name
        }
        Piece::Offset(form) => {
            let seconds = time.offset().seconds();
            if form.z && seconds == 0 {
                return "Z".to_owned();
            }
            offset_text(seconds, form)
        }
    }
}

fn offset_text(seconds: i32, form: OffsetForm) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let total = seconds.unsigned_abs();
    let colon = if form.colon { ":" } else { "" };
    let mut text = format!("{sign}{:02}", total / 3600);
    if form.n_parts > 1 {
        text.push_str(&format!("{colon}{:02}", total / 60 % 60));
    }
    if form.n_parts > 2 {
        text.push_str(&format!("{colon}{:02}", total % 60));
    }
    text
}

/// The parsed parts of a time.
#[derive(Debug)]
struct Fields {
    year: i16,
    month: Option<i8>,
    day: Option<i8>,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    afternoon: Option<bool>,
    offset: Option<i32>,
    zone_name: Option<String>,
}

/// Why a field of a time could not be parsed.
enum FieldError {
    /// The field is absent.
    Missing,
    /// The field is present and out of range.
    OutOfRange(&'static str),
}

/// Parses a time in this layout. A time without a zone is in `zone`.
pub(crate) fn parse(layout: &str, value: &str, zone: &TimeZone) -> Result<Zoned, String> {
    let mut fields = Fields {
        year: 0,
        month: None,
        day: None,
        year_day: None,
        hour: 0,
        minute: 0,
        second: 0,
        nanosecond: 0,
        afternoon: None,
        offset: None,
        zone_name: None,
    };
    let fail = |rest: &str, element: &str| {
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(value),
            quote(layout),
            quote(rest),
            quote(element)
        ))
    };
    let range = |what: &str| {
        Err(format!(
            "parsing time {}: {what} out of range",
            quote(value)
        ))
    };
    let (mut rest_layout, mut rest) = (layout, value);
    loop {
        let (text, piece, after) = next_piece(rest_layout);
        let Some(behind) = skip(rest, text) else {
            return fail(rest, text);
        };
        rest = behind;
        let Some((written, piece)) = piece else {
            break;
        };
        let next_is_fraction = matches!(
            next_piece(after),
            (
                "",
                Some((_, Piece::Fraction(..) | Piece::ShortFraction(..))),
                _
            )
        );
        rest = match read(piece, rest, &mut fields, next_is_fraction) {
            Ok(rest) => rest,
            Err(FieldError::Missing) => return fail(rest, written),
            Err(FieldError::OutOfRange(what)) => return range(what),
        };
        rest_layout = after;
    }
    if !rest.is_empty() {
        return Err(format!(
            "parsing time {}: extra text: {}",
            quote(value),
            quote(rest)
        ));
    }
    match fields.into_time(zone) {
        Ok(time) => Ok(time),
        Err(what) => range(what),
    }
}

/// Spaces in a layout match any number of spaces.
fn skip<'v>(value: &'v str, prefix: &str) -> Option<&'v str> {
    let mut value = value;
    let mut prefix = prefix;
    while let Some(c) = prefix.chars().next() {
        if c == ' ' {
            if !value.is_empty() && !value.starts_with(' ') {
                return None;
            }
            prefix = prefix.trim_start_matches(' ');
            value = value.trim_start_matches(' ');
            continue;
        }
        value = value.strip_prefix(c)?;
        prefix = &prefix[c.len_utf8()..];
    }
    Some(value)
}

fn read<'v>(
    piece: Piece,
    value: &'v str,
    fields: &mut Fields,
    next_is_fraction: bool,
) -> Result<&'v str, FieldError> {
    let rest = match piece {
        Piece::LongYear => {
            let (year, rest) = exactly(value, 4)?;
            fields.year = year;
            rest
        }
        Piece::Year => {
            let (year, rest) = exactly(value, 2)?;
            fields.year = if year >= 69 { 1900 + year } else { 2000 + year };
            rest
        }
        Piece::LongMonth | Piece::ShortMonth => {
            let (index, rest) = name(value, &MONTHS, piece == Piece::ShortMonth)?;
            fields.month = Some(index + 1);
            rest
        }
        Piece::LongWeekday | Piece::ShortWeekday => {
            name(value, &WEEKDAYS, piece == Piece::ShortWeekday)?.1
        }
        Piece::ZeroMonth | Piece::Month => {
            let (month, rest) = digits(value, piece == Piece::ZeroMonth)?;
            if !(1..=12).contains(&month) {
                return Err(FieldError::OutOfRange("month"));
            }
            fields.month = Some(month);
            rest
        }
        Piece::ZeroDay | Piece::PaddedDay | Piece::Day => {
            let value = match piece {
                Piece::PaddedDay => value.strip_prefix(' ').unwrap_or(value),
                _ => value,
            };
            let (day, rest) = digits(value, piece == Piece::ZeroDay)?;
            fields.day = Some(day);
            rest
        }
        Piece::ZeroYearDay | Piece::PaddedYearDay => {
            let value = value.trim_start_matches(' ');
            let (day, rest) = exactly(value, 3)?;
            fields.year_day = Some(day);
            rest
        }
        Piece::Hour24 => {
            let (hour, rest) = digits(value, false)?;
            if hour > 23 {
                return Err(FieldError::OutOfRange("hour"));
            }
            fields.hour = hour;
            rest
        }
        Piece::ZeroHour12 | Piece::Hour12 => {
            let (hour, rest) = digits(value, piece == Piece::ZeroHour12)?;
            if hour > 12 {
                return Err(FieldError::OutOfRange("hour"));
            }
            fields.hour = hour;
            rest
        }
        Piece::ZeroMinute | Piece::Minute => {
            let (minute, rest) = digits(value, piece == Piece::ZeroMinute)?;
            if minute > 59 {
                return Err(FieldError::OutOfRange("minute"));
            }
            fields.minute = minute;
            rest
        }
        Piece::ZeroSecond | Piece::Second => {
            let (second, rest) = digits(value, piece == Piece::ZeroSecond)?;
            if second > 59 {
                return Err(FieldError::OutOfRange("second"));
            }
            fields.second = second;
            // A fraction may follow that the layout does not show.
            match rest.strip_prefix(['.', ',']) {
                Some(after)
                    if !next_is_fraction && after.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    let n_digits = after.bytes().take_while(u8::is_ascii_digit).count();
                    fields.nanosecond = nanoseconds(&after[..n_digits]);
                    &after[n_digits..]
                }
                _ => rest,
            }
        }
        Piece::Fraction(_, n_digits) => {
            let after = value.strip_prefix(['.', ',']).ok_or(FieldError::Missing)?;
            let fraction = after.get(..n_digits).ok_or(FieldError::Missing)?;
            if !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return Err(FieldError::Missing);
            }
            fields.nanosecond = nanoseconds(fraction);
            &after[n_digits..]
        }
        Piece::ShortFraction(..) => match value.strip_prefix(['.', ',']) {
            Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => {
                let n_digits = after.bytes().take_while(u8::is_ascii_digit).count().min(9);
                fields.nanosecond = nanoseconds(&after[..n_digits]);
                &after[n_digits..]
            }
            _ => value,
        },
        Piece::UpperHalf | Piece::LowerHalf => {
            let halves = match piece {
                Piece::UpperHalf => ["AM", "PM"],
                _ => ["am", "pm"],
            };
            let afternoon = value.starts_with(halves[1]);
            if !afternoon && !value.starts_with(halves[0]) {
                return Err(FieldError::Missing);
            }
            fields.afternoon = Some(afternoon);
            &value[2..]
        }
        Piece::ZoneName => {
            let n_letters = value.bytes().take_while(u8::is_ascii_uppercase).count();
            if !(3..=5).contains(&n_letters) {
                return Err(FieldError::Missing);
            }
            fields.zone_name = Some(value[..n_letters].to_owned());
            &value[n_letters..]
        }
        Piece::Offset(form) => {
            if form.z
                && let Some(rest) = value.strip_prefix('Z')
            {
                fields.offset = Some(0);
                return Ok(rest);
            }
            let (seconds, rest) = read_offset(value, form).ok_or(FieldError::Missing)?;
            fields.offset = Some(seconds);
            rest
        }
    };
    Ok(rest)
}

fn nanoseconds(digits: &str) -> i32 {
    let digits = &digits[..digits.len().min(9)];
    format!("{digits:0<9}").parse().unwrap_or(0)
}

fn exactly(value: &str, n_digits: usize) -> Result<(i16, &str), FieldError> {
    let number = value.get(..n_digits).ok_or(FieldError::Missing)?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FieldError::Missing);
    }
    let parsed = number.parse().map_err(|_| FieldError::Missing)?;
    Ok((parsed, &value[n_digits..]))
}

/// One or two digits; two when they are fixed.
fn digits(value: &str, fixed: bool) -> Result<(i8, &str), FieldError> {
    let n_digits = value.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if n_digits == 0 || (fixed && n_digits < 2) {
        return Err(FieldError::Missing);
    }
    let parsed = value[..n_digits].parse().map_err(|_| FieldError::Missing)?;
    Ok((parsed, &value[n_digits..]))
}

fn name<'v>(value: &'v str, names: &[&str], short: bool) -> Result<(i8, &'v str), FieldError> {
    for (index, name) in names.iter().enumerate() {
        let name = if short { &name[..3] } else { name };
        let Some(start) = value.get(..name.len()) else {
            continue;
        };
        if start.eq_ignore_ascii_case(name) {
            return Ok((index as i8, &value[name.len()..]));
        }
    }
    Err(FieldError::Missing)
}

fn read_offset<'v>(value: &'v str, form: OffsetForm) -> Option<(i32, &'v str)> {
    let sign = match value.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let two = |value: &'v str| -> Option<(i32, &'v str)> {
        let number = value.get(..2)?;
        let fits = number.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| number.parse().ok())?
            .map(|number| (number, &value[2..]))
    };
    let (hours, mut rest) = two(&value[1..])?;
    let mut seconds = hours * 3600;
    for (part, unit) in [(2, 60), (3, 1)] {
        if form.n_parts >= part {
            if form.colon {
                rest = rest.strip_prefix(':')?;
            }
            let (number, after) = two(rest)?;
            seconds += number * unit;
            rest = after;
        }
    }
    Some((sign * seconds, rest))
}

impl Fields {
    fn into_time(self, zone: &TimeZone) -> Result<Zoned, &'static str> {
        let hour = match (self.afternoon, self.hour) {
            (Some(true), hour) if hour < 12 => hour + 12,
            (Some(false), 12) => 0,
            (_, hour) => hour,
        };
        let date = match (self.year_day, self.month, self.day) {
            (Some(day), None, None) => civil::Date::new(self.year, 1, 1)
                .ok()
                .and_then(|first| {
                    let days = jiff::Span::new().try_days(i64::from(day) - 1).ok()?;
                    first.checked_add(days).ok()
                })
                .filter(|date| date.year() == self.year)
                .ok_or("day-of-year")?,
            (_, month, day) => {
                let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
                civil::Date::new(self.year, month, day).map_err(|_| "day")?
            }
        };
        let moment = date.at(hour, self.minute, self.second, self.nanosecond);
        let zone = match (self.offset, self.zone_name.as_deref()) {
            (Some(0), _) | (None, Some("UTC")) => TimeZone::UTC,
            (Some(seconds), _) => {
                let fixed = Offset::from_seconds(seconds).map_err(|_| "time zone offset")?;
                // The zone itself where it has this offset then: its name is kept.
                let own = zone.to_ambiguous_timestamp(moment).offset();
                match own {
                    jiff::tz::AmbiguousOffset::Unambiguous { offset } if offset == fixed => {
                        zone.clone()
                    }
                    _ => TimeZone::fixed(fixed),
                }
            }
            // A name without an offset is a name only: nothing is known of the zone.
            (None, Some(_)) => TimeZone::UTC,
            (None, None) => zone.clone(),
        };
        moment.to_zoned(zone).map_err(|_| "year")
    }
}
