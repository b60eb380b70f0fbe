//! Quantities as Kubernetes writes them: `500m`, `1.5Gi`, `2`, `1e3`.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// An amount, with the text it came from.
#[derive(Debug, Clone)]
pub struct Quantity {
    text: String,
    /// In billionths.
    nanos: i128,
}

const UNITS: [(&str, i128); 17] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("e", 0),
    ("", 1),
];

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let nanos = nanos(text).ok_or_else(|| format!("{text} is no quantity"))?;
        Ok(Self {
            text: text.to_owned(),
            nanos,
        })
    }

    /// Reads a field: a text or a number, or nothing.
    pub fn of(value: &Value) -> Option<Result<Self, String>> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(Self::parse(text)),
            other => Some(Self::parse(&other.to_string())),
        }
    }
}

fn nanos(text: &str) -> Option<i128> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, '.' | '-' | '+'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let base = decimal(number)?;
    if let Some(exponent) = unit
        .strip_prefix(['e', 'E'])
        .filter(|rest| !rest.is_empty() && *rest != "i")
    {
        let exponent: i32 = exponent
            .parse()
            .ok()
            .filter(|exponent| (-18..=18).contains(exponent))?;
        let factor = 10_i128.pow(exponent.unsigned_abs());
        return if exponent < 0 {
            Some(base / factor)
        } else {
            base.checked_mul(factor)
        };
    }
    let (_, factor) = UNITS
        .iter()
        .find(|(name, factor)| *name == unit && *factor != 0)?;
    match unit {
        "n" | "u" | "m" => base.checked_mul(*factor).map(|scaled| scaled / NANO),
        _ => base.checked_mul(*factor),
    }
}

/// A decimal number in billionths.
fn decimal(number: &str) -> Option<i128> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 {
        return None;
    }
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(sign * (whole * NANO + fraction))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of(&value)
            .unwrap_or_else(|| Err("a quantity is missing".to_owned()))
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, expected) in [
            ("1", Some(NANO)),
            ("500m", Some(NANO / 2)),
            ("1.5Gi", Some(3 * (1 << 29) * NANO)),
            ("1e3", Some(1000 * NANO)),
            ("1E", Some(1_000_000_000_000_000_000 * NANO)),
            ("1Ei", Some((1 << 60) * NANO)),
            ("-1", Some(-NANO)),
            (".5", Some(NANO / 2)),
            ("100n", Some(100)),
            ("", None),
            ("m", None),
            ("1 Gi", None),
            ("1e", None),
            ("1e99", None),
            ("99999999999999999999", None),
            ("é", None),
            ("1é", None),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }
}
