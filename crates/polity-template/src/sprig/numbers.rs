//! Numbers: integers by wrapping arithmetic, floats by decimals.

use super::cast::{to_float64, to_int64};
use super::decimal::Decimal;
use crate::arg::{int, text};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::print::plain;
use crate::run::Run;
use crate::syntax::number::parse_int;
use crate::value::{Elements, Value};

const A: Type = Type::Any;
const I: Type = Type::Int;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "atoi",
        function(&[Type::Text], None, |_, v| {
            Ok(Value::int(parse_int(text(&v[0]), 10).unwrap_or(0)))
        }),
    ),
    (
        "int64",
        function(&[A], None, |_, v| Ok(Value::int64(to_int64(&v[0])))),
    ),
    (
        "int",
        function(&[A], None, |_, v| Ok(Value::int(to_int64(&v[0])))),
    ),
    (
        "float64",
        function(&[A], None, |_, v| Ok(Value::Float(to_float64(&v[0])))),
    ),
    (
        "toDecimal",
        function(&[A], None, |_, v| {
            Ok(Value::int64(parse_int(&plain(&v[0])?, 8).unwrap_or(0)))
        }),
    ),
    (
        "until",
        function(&[I], None, |run, v| {
            let end = int(&v[0]);
            steps(run, 0, end, if end < 0 { -1 } else { 1 })
        }),
    ),
    (
        "untilStep",
        function(&[I, I, I], None, |run, v| {
            steps(run, int(&v[0]), int(&v[1]), int(&v[2]))
        }),
    ),
    (
        "add1",
        function(&[A], None, |_, v| {
            Ok(Value::int64(to_int64(&v[0]).wrapping_add(1)))
        }),
    ),
    (
        "add",
        function(&[], Some(A), |_, v| {
            Ok(Value::int64(
                v.iter().map(to_int64).fold(0, i64::wrapping_add),
            ))
        }),
    ),
    (
        "sub",
        function(&[A, A], None, |_, v| {
            Ok(Value::int64(to_int64(&v[0]).wrapping_sub(to_int64(&v[1]))))
        }),
    ),
    (
        "div",
        function(&[A, A], None, |_, v| divided(v, i64::wrapping_div)),
    ),
    (
        "mod",
        function(&[A, A], None, |_, v| divided(v, i64::wrapping_rem)),
    ),
    (
        "mul",
        function(&[A], Some(A), |_, v| {
            Ok(Value::int64(
                v.iter().map(to_int64).fold(1, i64::wrapping_mul),
            ))
        }),
    ),
    ("max", function(&[A], Some(A), |_, v| extreme(v, i64::max))),
    (
        "biggest",
        function(&[A], Some(A), |_, v| extreme(v, i64::max)),
    ),
    ("min", function(&[A], Some(A), |_, v| extreme(v, i64::min))),
    (
        "maxf",
        function(&[A], Some(A), |_, v| {
            extreme_float(v, |a, b| if b > a { b } else { a })
        }),
    ),
    (
        "minf",
        function(&[A], Some(A), |_, v| {
            extreme_float(v, |a, b| if b < a { b } else { a })
        }),
    ),
    (
        "ceil",
        function(&[A], None, |_, v| {
            Ok(Value::Float(to_float64(&v[0]).ceil()))
        }),
    ),
    (
        "floor",
        function(&[A], None, |_, v| {
            Ok(Value::Float(to_float64(&v[0]).floor()))
        }),
    ),
    (
        "round",
        function(&[A, I], Some(Type::Float), |_, v| round(v)),
    ),
    (
        "add1f",
        function(&[A], None, |_, v| {
            decimals(&[v[0].clone(), Value::int(1)], Decimal::plus)
        }),
    ),
    (
        "addf",
        function(&[], Some(A), |_, v| {
            let mut all = vec![Value::Float(0.0)];
            all.extend_from_slice(v);
            decimals(&all, Decimal::plus)
        }),
    ),
    (
        "subf",
        function(&[A], Some(A), |_, v| decimals(v, Decimal::minus)),
    ),
    (
        "divf",
        function(&[A], Some(A), |_, v| {
            if v[1..].iter().any(|value| to_float64(value) == 0.0) {
                return Err("decimal division by 0".into());
            }
            decimals(v, Decimal::by)
        }),
    ),
    (
        "mulf",
        function(&[A], Some(A), |_, v| decimals(v, Decimal::times)),
    ),
    (
        "randInt",
        function(&[I, I], None, |run, v| {
            let (low, high) = (int(&v[0]), int(&v[1]));
            match high.checked_sub(low) {
                Some(width) if width > 0 => {
                    Ok(Value::int(low + run.random_below(width as u64) as i64))
                }
                _ => Err("invalid argument to Intn".into()),
            }
        }),
    ),
];

fn divided(values: &[Value], operation: fn(i64, i64) -> i64) -> Outcome {
    let (a, b) = (to_int64(&values[0]), to_int64(&values[1]));
    if b == 0 {
        return Err("runtime error: integer divide by zero".into());
    }
    Ok(Value::int64(operation(a, b)))
}

fn extreme(values: &[Value], better: fn(i64, i64) -> i64) -> Outcome {
    let found = values.iter().map(to_int64).reduce(better);
    Ok(Value::int64(found.unwrap_or(0)))
}

fn extreme_float(values: &[Value], better: fn(f64, f64) -> f64) -> Outcome {
    let found = values.iter().map(to_float64).reduce(|a, b| {
        if a.is_nan() || b.is_nan() {
            f64::NAN
        } else {
            better(a, b)
        }
    });
    Ok(Value::Float(found.unwrap_or(0.0)))
}

fn round(values: &[Value]) -> Outcome {
    let limit = match values.get(2) {
        Some(Value::Float(limit)) => *limit,
        _ => 0.5,
    };
    let power = 10f64.powf(int(&values[1]) as f64);
    let digits = power * to_float64(&values[0]);
    let rounded = if digits.fract() >= limit {
        digits.ceil()
    } else {
        digits.floor()
    };
    Ok(Value::Float(rounded / power))
}

fn decimals(values: &[Value], operation: fn(Decimal, Decimal) -> Decimal) -> Outcome {
    let mut numbers = values.iter().map(to_float64);
    let first = numbers.next().unwrap_or(0.0);
    let total = numbers
        .map(Decimal::from_float)
        .fold(Decimal::from_float(first), operation);
    Ok(Value::Float(total.to_float()))
}

fn steps(run: &mut Run<'_>, start: i64, stop: i64, step: i64) -> Outcome {
    let numbers = stepped(run, start, stop, step)?;
    let items = numbers.into_iter().map(Value::int).collect();
    Ok(Value::typed_list(Elements::Ints, items))
}

/// From start towards stop, without it. Every number is a step of the run.
fn stepped(run: &mut Run<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Failure> {
    let up = stop >= start;
    if (up && step <= 0) || (!up && step >= 0) {
        return Ok(Vec::new());
    }
    let distance = start.abs_diff(stop);
    let count = distance.div_ceil(step.unsigned_abs());
    run.spend(count)?;
    Ok((0..count as i64)
        .map(|i| start.wrapping_add(i.wrapping_mul(step)))
        .collect())
}

/// The numbers of `seq`: an end, a start and an end, or a start, a step and an end.
pub(super) fn sequence(run: &mut Run<'_>, parameters: &[i64]) -> Result<Vec<i64>, Failure> {
    let direction = |start: i64, end: i64| if end < start { -1 } else { 1 };
    match *parameters {
        [end] => {
            let step = direction(1, end);
            stepped(run, 1, end.saturating_add(step), step)
        }
        [start, end] => {
            let step = direction(start, end);
            stepped(run, start, end.saturating_add(step), step)
        }
        [start, step, end] => {
            let toward = direction(start, end);
            if toward < 0 && step > 0 {
                return Ok(Vec::new());
            }
            stepped(run, start, end.saturating_add(toward), step)
        }
        _ => Ok(Vec::new()),
    }
}
