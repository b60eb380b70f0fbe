//! Lists. Most functions exist twice: `must…` returns its error, and the other panics with it, which is the same for a
//! template.

use std::rc::Rc;

use super::cast::to_int64;
use crate::arg::{NIL_TYPE, int, items};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::run::{Run, too_deep};
use crate::value::{Elements, List, Value};

const A: Type = Type::Any;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "list",
        function(&[], Some(A), |_, v| Ok(Value::list(v.to_vec()))),
    ),
    (
        "tuple",
        function(&[], Some(A), |_, v| Ok(Value::list(v.to_vec()))),
    ),
    ("append", PUSH),
    ("push", PUSH),
    ("mustAppend", PUSH),
    ("mustPush", PUSH),
    ("prepend", PREPEND),
    ("mustPrepend", PREPEND),
    ("first", FIRST),
    ("mustFirst", FIRST),
    ("last", LAST),
    ("mustLast", LAST),
    ("rest", REST),
    ("mustRest", REST),
    ("initial", INITIAL),
    ("mustInitial", INITIAL),
    ("reverse", REVERSE),
    ("mustReverse", REVERSE),
    ("uniq", UNIQ),
    ("mustUniq", UNIQ),
    ("without", WITHOUT),
    ("mustWithout", WITHOUT),
    ("has", HAS),
    ("mustHas", HAS),
    ("slice", SLICE),
    ("mustSlice", SLICE),
    ("chunk", CHUNK),
    ("mustChunk", CHUNK),
    ("compact", COMPACT),
    ("mustCompact", COMPACT),
    (
        "concat",
        function(&[], Some(A), |_, v| {
            let mut all = Vec::new();
            for list in v {
                match list {
                    Value::List(list) => all.extend_from_slice(&list.items),
                    Value::Nil => return Err(NIL_TYPE.into()),
                    other => {
                        return Err(
                            format!("Cannot concat type {} as list", other.kind_name()).into()
                        );
                    }
                }
            }
            Ok(if all.is_empty() {
                Value::nil_list()
            } else {
                Value::list(all)
            })
        }),
    ),
];

const PUSH: Function = function(&[A, A], None, |_, v| {
    let mut all = items(&v[0], "Cannot push on type")?.to_vec();
    all.push(v[1].clone());
    Ok(Value::list(all))
});

const PREPEND: Function = function(&[A, A], None, |_, v| {
    let mut all = vec![v[1].clone()];
    all.extend_from_slice(items(&v[0], "Cannot prepend on type")?);
    Ok(Value::list(all))
});

const FIRST: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot find first on type")?;
    Ok(all.first().cloned().unwrap_or(Value::Nil))
});

const LAST: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot find last on type")?;
    Ok(all.last().cloned().unwrap_or(Value::Nil))
});

const REST: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot find rest on type")?;
    Ok(all
        .split_first()
        .map_or_else(Value::nil_list, |(_, rest)| Value::list(rest.to_vec())))
});

const INITIAL: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot find initial on type")?;
    Ok(all
        .split_last()
        .map_or_else(Value::nil_list, |(_, rest)| Value::list(rest.to_vec())))
});

const REVERSE: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot find reverse on type")?;
    Ok(Value::list(all.iter().rev().cloned().collect()))
});

const UNIQ: Function = function(&[A], None, |run, v| {
    let mut kept: Vec<Value> = Vec::new();
    for item in items(&v[0], "Cannot find uniq on type")? {
        if !is_in(run, &kept, item)? {
            kept.push(item.clone());
        }
    }
    Ok(Value::list(kept))
});

const WITHOUT: Function = function(&[A], Some(A), |run, v| {
    let mut kept = Vec::new();
    for item in items(&v[0], "Cannot find without on type")? {
        if !is_in(run, &v[1..], item)? {
            kept.push(item.clone());
        }
    }
    Ok(Value::list(kept))
});

const HAS: Function = function(&[A, A], None, |run, v| {
    if matches!(v[1], Value::Nil) {
        return Ok(Value::Bool(false));
    }
    let all = items(&v[1], "Cannot find has on type")?;
    Ok(Value::Bool(is_in(run, all, &v[0])?))
});

const COMPACT: Function = function(&[A], None, |_, v| {
    let all = items(&v[0], "Cannot compact on type")?;
    Ok(Value::list(
        all.iter().filter(|item| item.is_true()).cloned().collect(),
    ))
});

const SLICE: Function = function(&[A], Some(A), |_, v| slice(v));

const CHUNK: Function = function(&[Type::Int, A], None, |_, v| {
    chunk(int(&v[0]), items(&v[1], "Cannot chunk type")?)
});

/// Comparing with every element costs a step for every few of them.
fn is_in(run: &mut Run<'_>, all: &[Value], wanted: &Value) -> Result<bool, Failure> {
    run.spend(all.len() as u64 / 8)?;
    for item in all {
        if wanted.deep_equal(item, 0).ok_or_else(too_deep)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice(values: &[Value]) -> Outcome {
    let list = match &values[0] {
        Value::List(list) => list,
        Value::Nil => return Err(NIL_TYPE.into()),
        other => {
            let kind = other.kind_name();
            return Err(format!("list should be type of slice or array but {kind}").into());
        }
    };
    let length = list.items.len();
    if length == 0 {
        return Ok(Value::Nil);
    }
    let start = values.get(1).map_or(0, to_int64);
    let end = values.get(2).map_or(length as i64, to_int64);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match range {
        Some((start, end)) if start <= end && end <= length => Ok(Value::List(Rc::new(List {
            elements: list.elements,
            items: list.items[start..end].to_vec(),
            nil: false,
        }))),
        _ => Err("reflect.Value.Slice: slice index out of bounds".into()),
    }
}

fn chunk(size: i64, all: &[Value]) -> Outcome {
    let Ok(size) = usize::try_from(size) else {
        return Err("runtime error: makeslice: len out of range".into());
    };
    if size == 0 {
        return Err("runtime error: makeslice: len out of range".into());
    }
    let chunks = all.chunks(size).map(|chunk| Value::list(chunk.to_vec()));
    Ok(Value::typed_list(Elements::Lists, chunks.collect()))
}
