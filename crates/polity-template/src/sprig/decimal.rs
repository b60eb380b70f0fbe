//! Decimal arithmetic for the float functions: `addf 0.1 0.2` is 0.3.

/// A decimal; beyond 38 digits it becomes a float.
#[derive(Debug, Clone, Copy)]
pub(super) enum Decimal {
    /// `digits * 10^exponent`
    Exact {
        digits: i128,
        exponent: i32,
    },
    Float(f64),
}

/// Digits behind the point of a quotient.
const DIVISION_DIGITS: i32 = 16;

impl Decimal {
    pub(super) fn from_float(float: f64) -> Self {
        let text = format!("{float:e}");
        let parsed = text.split_once('e').and_then(|(mantissa, exponent)| {
            let exponent: i32 = exponent.parse().ok()?;
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
            Some(Self::Exact {
                digits,
                exponent: exponent - i32::try_from(fraction.len()).ok()?,
            })
        });
        parsed.unwrap_or(Self::Float(float))
    }

    pub(super) fn to_float(self) -> f64 {
        match self {
            Self::Exact { digits, exponent } => {
                format!("{digits}e{exponent}").parse().unwrap_or(0.0)
            }
            Self::Float(float) => float,
        }
    }

    /// Both with the same exponent.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let (
            Self::Exact {
                digits: a,
                exponent: x,
            },
            Self::Exact {
                digits: b,
                exponent: y,
            },
        ) = (self, other)
        else {
            return None;
        };
        let exponent = x.min(y);
        let scale = |digits: i128, by: i32| {
            let factor = 10i128.checked_pow(u32::try_from(by).ok()?)?;
            digits.checked_mul(factor)
        };
        Some((scale(a, x - exponent)?, scale(b, y - exponent)?, exponent))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let exact = self.aligned(other).and_then(|(a, b, exponent)| {
            let digits = a.checked_add(b)?;
            Some(Self::Exact { digits, exponent })
        });
        exact.unwrap_or_else(|| Self::Float(self.to_float() + other.to_float()))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        let exact = self.aligned(other).and_then(|(a, b, exponent)| {
            let digits = a.checked_sub(b)?;
            Some(Self::Exact { digits, exponent })
        });
        exact.unwrap_or_else(|| Self::Float(self.to_float() - other.to_float()))
    }

    pub(super) fn times(self, other: Self) -> Self {
        let exact = match (self, other) {
            (
                Self::Exact {
                    digits: a,
                    exponent: x,
                },
                Self::Exact {
                    digits: b,
                    exponent: y,
                },
            ) => a.checked_mul(b).map(|digits| Self::Exact {
                digits,
                exponent: x + y,
            }),
            _ => None,
        };
        exact.unwrap_or_else(|| Self::Float(self.to_float() * other.to_float()))
    }

    /// The quotient, rounded half away from zero.
    pub(super) fn by(self, other: Self) -> Self {
        let exact = self.aligned(other).and_then(|(a, b, _)| {
            let scaled = a.checked_mul(10i128.pow(DIVISION_DIGITS as u32))?;
            let (quotient, rest) = (scaled / b, scaled % b);
            let away = rest.unsigned_abs().checked_mul(2)? >= b.unsigned_abs();
            let sign = if (scaled < 0) == (b < 0) { 1 } else { -1 };
            Some(Self::Exact {
                digits: quotient + if away { sign } else { 0 },
                exponent: -DIVISION_DIGITS,
            })
        });
        exact.unwrap_or_else(|| Self::Float(self.to_float() / other.to_float()))
    }
}
