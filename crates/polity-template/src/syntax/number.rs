//! Number constants: a constant is an integer, an unsigned integer and a float as far as its value allows. Its use
//! determines the type.

use super::unquote::{Unit, quote, unquote_char};

/// A constant with the forms it can take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: Box<str>,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
}

impl Number {
    pub(crate) fn of_char(text: &str) -> Result<Self, String> {
        let inner = text.get(1..).unwrap_or_default();
        let (unit, tail) = unquote_char(inner, '\'').ok_or("invalid syntax")?;
        if tail != "'" {
            return Err(format!("malformed character constant: {text}"));
        }
        let code = match unit {
            Unit::Char(c) => u32::from(c),
            Unit::Byte(byte) => u32::from(byte),
        };
        Ok(Self {
            text: text.into(),
            int: Some(i64::from(code)),
            uint: Some(u64::from(code)),
            float: Some(f64::from(code)),
        })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut number = Self {
            text: text.into(),
            int: parse_int(text, 0),
            uint: parse_uint(text, 0),
            float: None,
        };
        if number.int == Some(0) {
            number.uint = Some(0);
        }
        number.float = number
            .int
            .map(|int| int as f64)
            .or(number.uint.map(|uint| uint as f64));
        if number.float.is_none()
            && let Some(float) = parse_float(text)
        {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quote(text)));
            }
            number.float = Some(float);
            let whole = float.fract() == 0.0;
            let signed = whole && float.abs() < 9_223_372_036_854_775_808.0;
            number.int = signed.then_some(float as i64);
            let unsigned = whole && (0.0..18_446_744_073_709_551_616.0).contains(&float);
            number.uint = unsigned.then_some(float as u64);
        }
        if number.float.is_none() {
            return Err(format!("illegal number syntax: {}", quote(text)));
        }
        Ok(number)
    }

    /// If no type is expected, a constant written like a float is a float, and others are integers.
    pub(crate) fn looks_like_float(&self) -> bool {
        let hex = self.text.len() > 2
            && matches!(self.text.as_bytes(), [b'0', b'x' | b'X', ..])
            && !self.text.contains(['p', 'P']);
        let is_char = self.text.starts_with('\'');
        self.float.is_some() && !hex && !is_char && self.text.contains(['.', 'e', 'E', 'p', 'P'])
    }
}

/// Go's `strconv.ParseInt`; base 0 takes the base from the prefix.
pub(crate) fn parse_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let number = parse_uint(digits, base)?;
    if negative {
        0i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
}

/// Go's `strconv.ParseUint`.
pub(crate) fn parse_uint(text: &str, base: u32) -> Option<u64> {
    if base != 0 {
        let fits = !text.is_empty() && text.chars().all(|c| c.is_digit(base));
        return fits.then(|| u64::from_str_radix(text, base).ok())?;
    }
    if !underscores_are_fine(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    let fits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    fits.then(|| u64::from_str_radix(&digits, radix).ok())?
}

/// Go's `strconv.ParseFloat` for values in range.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    if matches!(unsigned, "inf" | "infinity" | "nan") {
        return lower.parse().ok();
    }
    if !underscores_are_fine(unsigned) {
        return None;
    }
    let plain: String = lower.chars().filter(|c| *c != '_').collect();
    if unsigned.starts_with("0x") {
        return parse_hex_float(&plain);
    }
    let usual = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-');
    if !plain.chars().all(usual) || !plain.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    plain.parse::<f64>().ok().filter(|float| float.is_finite())
}

fn parse_hex_float(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = digits.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = 0.0;
    for c in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = exponent.parse::<i32>().ok()? - 4 * i32::try_from(fraction.len()).ok()?;
    Some(sign * value * 2f64.powi(exponent)).filter(|float| float.is_finite())
}

/// Underscores are only allowed between digits, or between a base prefix and a digit.
fn underscores_are_fine(text: &str) -> bool {
    if !text.contains('_') {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    let hex = lower.starts_with("0x");
    let digits = match lower.get(..2) {
        Some("0x" | "0o" | "0b") => &lower[2..],
        _ => lower.as_str(),
    };
    let is_digit = |c: char| c.is_ascii_digit() || (hex && c.is_ascii_hexdigit());
    let mut previous = if digits.len() < lower.len() { '0' } else { ' ' };
    for c in digits.chars() {
        if (c == '_' && !is_digit(previous)) || (previous == '_' && !is_digit(c)) {
            return false;
        }
        previous = c;
    }
    previous != '_'
}
