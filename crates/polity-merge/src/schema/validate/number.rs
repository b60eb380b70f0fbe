//! Numbers: ranges, bounds and multiples.
//!
//! An integer is compared as an integer even with a fractional bound, which is then cut: the real server does so.

use std::cmp::Ordering;

use polity_core::{FieldErrorKind, go_text};
use serde_json::Number;

use super::{Checks, Format, Schema, Type, Walk};
use crate::text::Num;

impl Walk {
    pub(super) fn number(
        &mut self,
        schema: &Schema,
        checks: Option<&Checks>,
        number: &Number,
    ) -> usize {
        let value = Num::of(number);
        let format = checks
            .and_then(|checks| checks.format.as_ref())
            .map(Format::name);
        self.range(schema.kind, format, value, "Checked");
        let Some(checks) = checks else { return 1 };
        if let Some(factor) = checks.multiple_of {
            let native = self.range(schema.kind, format, Num::Float(factor), "MultipleOf");
            self.multiple_of(value, factor, native);
        }
        if let Some(minimum) = checks.minimum {
            let native = self.range(schema.kind, format, Num::Float(minimum), "Minimum boundary");
            let (order, shown) = against(value, minimum, native);
            let exclusive = checks.exclusive_minimum;
            if order == Some(Ordering::Less) || (exclusive && order == Some(Ordering::Equal)) {
                let than = if exclusive {
                    "greater than"
                } else {
                    "greater than or equal to"
                };
                self.invalid(&value.shown(), &format!("should be {than} {shown}"));
            }
        }
        if let Some(maximum) = checks.maximum {
            let native = self.range(schema.kind, format, Num::Float(maximum), "Maximum boundary");
            let (order, shown) = against(value, maximum, native);
            let exclusive = checks.exclusive_maximum;
            if order == Some(Ordering::Greater) || (exclusive && order == Some(Ordering::Equal)) {
                let than = if exclusive {
                    "less than"
                } else {
                    "less than or equal to"
                };
                self.invalid(&value.shown(), &format!("should be {than} {shown}"));
            }
        }
        1
    }

    fn multiple_of(&mut self, value: Num, factor: f64, native: bool) {
        let whole = factor as i64;
        let (positive, fits, shown) = match value {
            Num::Int(int) if native => {
                (whole > 0, whole > 0 && int % whole == 0, whole.to_string())
            }
            other => {
                let float = other.as_f64();
                let multiple = if factor < 1.0 {
                    1.0 / factor * float
                } else {
                    float / factor
                };
                (
                    factor > 0.0,
                    is_json_integer(multiple),
                    go_text::float(factor),
                )
            }
        };
        if !positive {
            let path = self.place();
            let message =
                format!("factor MultipleOf declared for {path} must be positive: {shown}");
            self.error(
                FieldErrorKind::Invalid,
                format!("Invalid value: {shown}: {message}"),
            );
        } else if !fits {
            self.invalid(&value.shown(), &format!("should be a multiple of {shown}"));
        }
    }

    /// Whether a number matches the node's type and format. If not, adds an error.
    fn range(&mut self, kind: Type, format: Option<&str>, number: Num, prefix: &str) -> bool {
        let plain = number.plain();
        let fits = match (kind, format) {
            (Type::Integer, Some("int32")) => plain.parse::<i32>().is_ok(),
            (Type::Integer, _) => plain.parse::<i64>().is_ok(),
            (Type::Number, Some("float")) => plain.parse::<f32>().is_ok_and(f32::is_finite),
            _ => true,
        };
        if !fits {
            let format = format.map_or("(default format)".to_owned(), |format| {
                format!("with format {format}")
            });
            self.plain(&format!(
                "{prefix} value must be of type {} {format} in {}",
                kind.names(),
                self.place()
            ));
        }
        fits
    }
}

/// Compares a number with a bound. Also returns the bound as used: truncated for an integer.
fn against(value: Num, bound: f64, native: bool) -> (Option<Ordering>, String) {
    match value {
        Num::Int(int) if native => {
            let bound = bound as i64;
            (Some(int.cmp(&bound)), bound.to_string())
        }
        other => (other.as_f64().partial_cmp(&bound), go_text::float(bound)),
    }
}

/// Whether a float is a whole number that JSON carries without loss.
pub(super) fn is_json_integer(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    #[expect(clippy::float_cmp, reason = "whole numbers are compared exactly")]
    let whole = float == float.trunc();
    float.is_finite()
        && float.abs() <= MOST
        && (whole || {
            let nearest = (float.abs() as u64) as f64;
            nearest != 0.0 && (float.abs() - nearest).abs() / (float.abs() + nearest) < 1e-9
        })
}
