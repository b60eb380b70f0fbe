//! Durations as Go writes them, such as `1h30m` and `250ms`: what most Kubernetes APIs take.

use std::fmt::Write as _;

use jiff::SignedDuration;

/// A text that is no duration, in the words of Go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit { unit: String, text: String },
}

/// Reads a Go duration: an optional sign, then decimal numbers with a unit (`h m s ms us µs ns`) each, or a bare `0`.
///
/// ```
/// use jiff::SignedDuration;
/// assert_eq!(polity_core::duration::parse("1h30m"), Ok(SignedDuration::from_mins(90)));
/// assert_eq!(polity_core::duration::parse("1.5s"), Ok(SignedDuration::from_millis(1500)));
/// assert!(polity_core::duration::parse("90").is_err());
/// ```
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = leading_digits(rest);
        rest = &rest[whole.len()..];
        let fraction = match rest.strip_prefix('.') {
            Some(after) => {
                let fraction = leading_digits(after);
                rest = &after[fraction.len()..];
                fraction
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (unit, after) = rest.split_at(unit_end);
        rest = after;
        let nanos = match unit {
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            "ns" => 1,
            // The micro sign and the Greek letter, both of which Go takes.
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => {
                return Err(DurationError::UnknownUnit {
                    unit: unit.to_owned(),
                    text: text.to_owned(),
                });
            }
        };
        total = amount(whole, fraction, nanos)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= MOST)
            .ok_or_else(invalid)?;
    }
    let total = if negative {
        0i64.checked_sub_unsigned(total)
    } else {
        i64::try_from(total).ok()
    };
    total.map(SignedDuration::from_nanos).ok_or_else(invalid)
}

/// Prints a duration as Go does: `1h30m0s`, `1.5s`, `0s`.
///
/// ```
/// use jiff::SignedDuration;
/// assert_eq!(polity_core::duration::print(SignedDuration::from_mins(90)), "1h30m0s");
/// assert_eq!(polity_core::duration::print(SignedDuration::from_millis(1500)), "1.5s");
/// ```
pub fn print(duration: SignedDuration) -> String {
    let sign = if duration.is_negative() { "-" } else { "" };
    let nanos = duration.as_nanos().unsigned_abs();
    let seconds = nanos / 1_000_000_000;
    if seconds == 0 && nanos > 0 {
        let (unit, per_unit) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("\u{b5}s", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{sign}{}{unit}", decimal(nanos, per_unit));
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(
        nanos - (hours * 3600 + minutes * 60) * 1_000_000_000,
        1_000_000_000,
    );
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, minutes) => format!("{sign}{minutes}m{rest}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

fn leading_digits(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..end]
}

/// The nanoseconds of the longest duration, which is a negative one.
const MOST: u64 = 1 << 63;

/// `whole.fraction` units of so many nanoseconds; `None` when that is more than any duration.
fn amount(whole: &str, fraction: &str, nanos: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let (mut part, mut scale) = (0u64, 1.0);
    for digit in fraction.bytes() {
        let longer = part
            .checked_mul(10)
            .and_then(|part| part.checked_add(u64::from(digit - b'0')))
            .filter(|part| *part <= MOST);
        // What no longer fits is far below a nanosecond.
        let Some(longer) = longer else { break };
        part = longer;
        scale *= 10.0;
    }
    // Go counts fractions in floats, so a third of an hour is twenty minutes to the nanosecond.
    let part = (part as f64 * (nanos as f64 / scale)) as u64;
    whole.checked_mul(nanos)?.checked_add(part)
}

/// A text in quotes; every byte that is not printable ASCII in hexadecimal.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..0x80 => quoted.push(char::from(byte)),
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}

/// `n / unit` without trailing zeros.
fn decimal(n: u128, unit: u128) -> String {
    let (whole, part) = (n / unit, n % unit);
    if part == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{part:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_go_takes() {
        let cases = [
            ("0", 0),
            ("0s", 0),
            ("5s", 5_000_000_000),
            ("-1m", -60_000_000_000),
            ("+1ns", 1),
            ("1h2m3.5s", 3_723_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9007199254740993ns", 9_007_199_254_740_993),
            ("-9223372036854775808ns", i64::MIN),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Ok(SignedDuration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses() {
        let cases = [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("90", r#"time: missing unit in duration "90""#),
            ("2d", r#"time: unknown unit "d" in duration "2d""#),
            ("9999999999h", r#"time: invalid duration "9999999999h""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            ("1.2.3s", r#"time: missing unit in duration "1.2.3s""#),
            (
                "1\u{e9}\"",
                r#"time: unknown unit "\xc3\xa9\"" in duration "1\xc3\xa9\"""#,
            ),
            (
                "99999999999999999999h",
                r#"time: invalid duration "99999999999999999999h""#,
            ),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), error);
        }
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(nanos in any::<i64>()) {
            let duration = SignedDuration::from_nanos(nanos);
            prop_assert_eq!(parse(&print(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[-+0-9.hmsu\u{b5}n]{0,12}") {
            let _ = parse(&text);
        }
    }
}
