//! Quantities: fixed-point numbers with a suffix, such as `500m`, `1536Mi` and `1e3`.
//!
//! A quantity is an exact count of billionths; nothing is computed with floats. Texts are read and
//! printed as Kubernetes does, including which spellings count as canonical already and are kept.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Add;
use std::str::FromStr;

/// Billionths in one.
const NANOS: i128 = 1_000_000_000;
/// The largest amount a binary suffix can express; more is cut down to it.
const BINARY_MAX: i128 = i64::MAX as i128 * NANOS;

/// The family of suffixes a quantity was written with, and is printed with again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m k M G T P E`, or none.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`, `E-3`.
    DecimalExponent,
}

/// A text that is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of something. Two quantities are equal when their values are: `1000m` equals `1`.
#[derive(Debug, Clone)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text it was read from, where Kubernetes takes that for canonical and repeats it.
    canonical: Option<Box<str>>,
}

impl Quantity {
    /// The quantity zero.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
        canonical: None,
    };

    /// The suffix family this quantity prints with.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The value in whole units, rounded away from zero.
    pub fn whole(&self) -> i128 {
        divide_up(self.nanos, NANOS)
    }

    /// The value as a float, for ratios; everything else stays exact.
    pub fn to_f64(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// The same quantity with what is finer than a thousandth rounded away from zero.
    ///
    /// Resource lists hold nothing finer.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        let milli = NANOS / 1000;
        if self.nanos % milli == 0 {
            return self;
        }
        let nanos = divide_up(self.nanos, milli).saturating_mul(milli);
        Self {
            nanos,
            format: self.format,
            canonical: None,
        }
    }
}

/// The text of a quantity in canonical form.
///
/// ```
/// assert_eq!(polity_core::quantity::canonical("1000m").unwrap(), "1");
/// assert_eq!(polity_core::quantity::canonical("1.5Gi").unwrap(), "1536Mi");
/// ```
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    Ok(text.parse::<Quantity>()?.to_string())
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = Parts::split(text)?;
        let (base, exponent, format) = suffix_value(parts.suffix)?;
        let nanos = match base {
            Base::Ten => scale_by_ten(&parts, exponent),
            Base::Two => scale_by_two(&parts, exponent),
        };
        let nanos = if parts.negative { -nanos } else { nanos };
        let format = match format {
            Format::BinarySi if nanos != 0 && nanos.abs() < NANOS => Format::DecimalSi,
            other => other,
        };
        let kept = parts.is_kept(format, exponent);
        Ok(Self {
            nanos,
            format,
            canonical: kept.then(|| text.into()),
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.canonical {
            return f.write_str(text);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        match self.format {
            // Below one Ki, or with a fraction, a binary suffix would lose something.
            Format::BinarySi if self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0 => {
                let (amount, times) = without_factors(self.nanos / NANOS, 1024, BINARY.len() - 1);
                write!(f, "{amount}{}", BINARY[times])
            }
            Format::BinarySi | Format::DecimalSi => {
                let (amount, times) = without_factors(self.nanos, 1000, DECIMAL.len() - 1);
                write!(f, "{amount}{}", DECIMAL[times])
            }
            Format::DecimalExponent => {
                let (amount, times) = without_factors(self.nanos, 1000, usize::MAX);
                match times as i64 * 3 - 9 {
                    0 => write!(f, "{amount}"),
                    exponent => write!(f, "{amount}e{exponent}"),
                }
            }
        }
    }
}

impl Add for &Quantity {
    type Output = Quantity;

    /// The sum, printed in the left side's format (in the right one's when the left is zero).
    fn add(self, other: Self) -> Quantity {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos),
            format,
            canonical: None,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy)]
enum Base {
    Ten,
    Two,
}

/// A quantity's text, cut into its parts.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    integer: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        if number.is_empty() || !is_suffix_shaped(suffix) {
            return Err(QuantityError::Format);
        }
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let integer = integer.trim_start_matches('0');
        Ok(Self {
            negative: text.starts_with('-'),
            integer,
            fraction,
            suffix,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.integer.bytes().chain(self.fraction.bytes())
    }

    /// Whether Kubernetes repeats this text instead of computing the canonical form.
    fn is_kept(&self, format: Format, exponent: i32) -> bool {
        let n_digits = self.integer.len().max(1) + self.fraction.len();
        match format {
            Format::BinarySi => {
                let fits = 15 - n_digits as i32 - exponent * 3 / 10 > 0;
                let last_three_bits = self.integer.parse::<i64>().map_or(0, |value| value & 7);
                self.fraction.is_empty() && fits && exponent % 10 == 0 && last_three_bits != 0
            }
            Format::DecimalSi | Format::DecimalExponent => {
                let scale = exponent.saturating_sub(self.fraction.len() as i32);
                let round = self.fraction.ends_with("000")
                    || (self.fraction.len() < 3
                        && format!("{}{}", self.integer, self.fraction).ends_with("000"));
                n_digits <= 18
                    && scale >= -9
                    && scale % 3 == 0
                    && !round
                    && !self.integer.is_empty()
            }
        }
    }
}

fn is_suffix_shaped(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

fn suffix_value(suffix: &str) -> Result<(Base, i32, Format), QuantityError> {
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Ok((Base::Ten, at as i32 * 3 - 9, Format::DecimalSi));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((Base::Two, at as i32 * 10, Format::BinarySi));
    }
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .ok_or(QuantityError::Suffix)?;
    let exponent = exponent.parse::<i32>().map_err(|_| QuantityError::Suffix)?;
    Ok((Base::Ten, exponent, Format::DecimalExponent))
}

/// The unsigned value times ten to the `exponent`, in billionths: rounded up, cut off at the maximum.
fn scale_by_ten(parts: &Parts<'_>, exponent: i32) -> i128 {
    // Digits that fall below a billionth only say whether to round up.
    let n_kept = parts.integer.len() as i64 + i64::from(exponent) + 9;
    let mut nanos: i128 = 0;
    let mut rest = false;
    let mut n_digits: i64 = 0;
    for digit in parts.digits() {
        if n_digits < n_kept {
            nanos = nanos
                .saturating_mul(10)
                .saturating_add(i128::from(digit - b'0'));
        } else {
            rest |= digit != b'0';
        }
        n_digits += 1;
    }
    if nanos != 0 {
        for _ in n_digits..n_kept {
            nanos = nanos.saturating_mul(10);
            if nanos == i128::MAX {
                break;
            }
        }
    }
    nanos.saturating_add(i128::from(rest))
}

/// The unsigned value times two to the `exponent`, in billionths: rounded up, cut off at the maximum.
fn scale_by_two(parts: &Parts<'_>, exponent: i32) -> i128 {
    let factor = 1i128 << exponent;
    let mut whole: i128 = 0;
    for digit in parts.integer.bytes() {
        whole = whole
            .saturating_mul(10)
            .saturating_add(i128::from(digit - b'0'));
    }
    let mut nanos = whole.saturating_mul(factor).saturating_mul(NANOS);
    // Eighteen decimals times 2^60 stay within 128 bits; the digits after them only round up.
    let mut fraction: i128 = 0;
    let mut unit: i128 = 1;
    let mut rest = false;
    for (at, digit) in parts.fraction.bytes().enumerate() {
        if at < 18 {
            fraction = fraction * 10 + i128::from(digit - b'0');
            unit *= 10;
        } else {
            rest |= digit != b'0';
        }
    }
    let scaled = fraction * factor;
    nanos = nanos.saturating_add((scaled / unit).saturating_mul(NANOS));
    let remainder = scaled % unit * NANOS;
    nanos = nanos.saturating_add(remainder / unit);
    rest |= remainder % unit != 0;
    nanos.saturating_add(i128::from(rest)).min(BINARY_MAX)
}

fn divide_up(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 {
        quotient
    } else {
        quotient + value.signum()
    }
}

fn without_factors(mut value: i128, factor: i128, at_most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < at_most && value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The stored form of each written form. apimachinery 0.37 gives the same results.
    #[test]
    fn quantities_are_stored_canonically() {
        let cases = [
            ("0", "0"),
            ("0m", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("00.50", "500m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1.", "1."),
            (".", "0"),
            ("100", "100"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1024", "1024"),
            ("10000", "10k"),
            ("1500m", "1500m"),
            ("2000u", "2m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("100m", "100m"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1.1Ki", "1126400m"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("129M", "129M"),
            ("123Mi", "123Mi"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("1E6", "1E6"),
            ("12e2", "1200"),
            ("15e-1", "1500e-3"),
            ("1E", "1E"),
            ("8Ei", "9223372036854775807"),
            ("-1000m", "-1"),
            ("+5", "+5"),
            ("1.125", "1.125"),
            ("1.25", "1250m"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        let cases = [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1ki", QuantityError::Suffix),
            ("1mi", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1Kim", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("٣", QuantityError::Format),
            ("1é", QuantityError::Format),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn values_compare_and_add_whatever_their_spelling() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_eq!(quantity("1Ki"), quantity("1024"));
        assert!(quantity("999m") < quantity("1"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!((&quantity("500m") + &quantity("1")).to_string(), "1500m");
        assert_eq!((&quantity("512Mi") + &quantity("512Mi")).to_string(), "1Gi");
        assert_eq!((&Quantity::ZERO + &quantity("1Gi")).to_string(), "1Gi");
        assert_eq!(quantity("1n").round_up_to_milli().to_string(), "1m");
        assert_eq!(quantity("1500m").whole(), 2);
    }

    #[test]
    fn absurd_sizes_saturate() {
        for text in [
            "1e2147483647",
            "1e-2147483648",
            &"9".repeat(5000),
            &format!("{}Ei", "9".repeat(100)),
        ] {
            let value = text.parse::<Quantity>().unwrap();
            assert!(!value.is_zero());
            let _ = (&value + &value).to_string();
        }
        assert!("1e99999999999".parse::<Quantity>().is_err());
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable_and_equal(
            number in "[0-9]{1,12}(\\.[0-9]{0,6})?",
            suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
        ) {
            let quantity: Quantity = format!("{number}{suffix}").parse().unwrap();
            let text = quantity.to_string();
            let again: Quantity = text.parse().unwrap();
            prop_assert_eq!(&again, &quantity);
            prop_assert_eq!(again.to_string(), text);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,24}") {
            let _ = text.parse::<Quantity>().map(|q| q.to_string());
        }
    }
}
