//! What a plain scalar would be read as: only what stays a text may be written without quotes.

/// Does this text, written plain, come back as itself?
pub(super) fn is_text_when_plain(text: &str) -> bool {
    !(is_word(text) || is_number(text) || is_timestamp(text) || is_base60(text))
}

/// The words of YAML 1.1 that are booleans, null, or numbers that are none.
fn is_word(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE",
        "on", "On", "ON", "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off",
        "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
        "-.Inf", "-.INF",
    ];
    WORDS.contains(&text)
}

fn is_number(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'.') => is_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain: String = text.chars().filter(|c| *c != '_').collect();
            is_integer(&plain) || is_float(&plain)
        }
        _ => false,
    }
}

/// An integer of 64 bits in any base: `0x`, `0o`, `0b`, a leading zero, or decimal.
fn is_integer(text: &str) -> bool {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let signed = digits.len() != text.len();
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Err(_) => false,
        Ok(number) if negative => number <= i64::MIN.unsigned_abs(),
        Ok(number) if signed => i64::try_from(number).is_ok(),
        Ok(_) => true,
    }
}

/// Digits with a point or an exponent, or too many for an integer, within the range of a float.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits =
        digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_fits && exponent_fits && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `1:30` and the like, which other readers take for a number of base 60.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let first_fits = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return false;
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    parts.push(last);
    let sixtieth = |part: &&str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
        _ => false,
    };
    first_fits
        && parts.iter().all(sixtieth)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// A date, or a date and a time, in the four forms that are read as a timestamp.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    let mut scan = Scan { rest: &text[4..] };
    timestamp(&mut scan, text[..4].parse().unwrap_or(0)).is_some() && scan.rest.is_empty()
}

fn timestamp(scan: &mut Scan<'_>, year: i16) -> Option<()> {
    scan.expect("-")?;
    let month = scan.number(1)?;
    scan.expect("-")?;
    let day = scan.number(1)?;
    jiff::civil::Date::new(year, month, day).ok()?;
    if scan.rest.is_empty() {
        return Some(());
    }
    let zoned = scan.rest.starts_with(['T', 't']);
    if !zoned && !scan.rest.starts_with(' ') {
        return None;
    }
    scan.rest = &scan.rest[1..];
    if scan.number(1)? > 23 {
        return None;
    }
    for _ in 0..2 {
        scan.expect(":")?;
        if scan.number(1)? > 59 {
            return None;
        }
    }
    if let Some(rest) = scan.rest.strip_prefix(['.', ',']) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        scan.rest = &rest[digits..];
    }
    if !zoned {
        return Some(());
    }
    if scan.expect("Z").is_some() {
        return Some(());
    }
    scan.rest = scan.rest.strip_prefix(['+', '-'])?;
    let hours = scan.number(2)?;
    scan.expect(":")?;
    (hours <= 24 && scan.number(2)? <= 60).then_some(())
}

struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn expect(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// A number of one or two digits, at least `least` of them.
    fn number(&mut self, least: usize) -> Option<i8> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit);
        let n_digits = digits.count();
        if n_digits < least {
            return None;
        }
        let (number, rest) = self.rest.split_at(n_digits);
        self.rest = rest;
        number.parse().ok()
    }
}
