//! Maps. `set`, `unset` and `merge` change the map they are given, as everywhere in Go.

use std::rc::Rc;

use crate::arg::{map, rc, text};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::print::strval;
use crate::run::{Run, too_deep};
use crate::value::{DEEPEST, Map, Value};

const A: Type = Type::Any;
const M: Type = Type::Map;
const T: Type = Type::Text;

pub(crate) const TABLE: &[(&str, Function)] = &[
    ("dict", function(&[], Some(A), dict)),
    (
        "get",
        function(&[M, T], None, |_, v| {
            let found = map(&v[0]).and_then(|map| map.get(text(&v[1])));
            Ok(found.unwrap_or_else(|| Value::text("")))
        }),
    ),
    (
        "set",
        function(&[M, T, A], None, |_, v| {
            let Some(map) = map(&v[0]) else {
                return Err("assignment to entry in nil map".into());
            };
            insert(map, rc(&v[1]), v[2].clone())?;
            Ok(v[0].clone())
        }),
    ),
    (
        "unset",
        function(&[M, T], None, |_, v| {
            if let Some(map) = map(&v[0]) {
                map.remove(text(&v[1]));
            }
            Ok(v[0].clone())
        }),
    ),
    (
        "hasKey",
        function(&[M, T], None, |_, v| {
            Ok(Value::Bool(
                map(&v[0]).is_some_and(|map| map.has(text(&v[1]))),
            ))
        }),
    ),
    (
        "pluck",
        function(&[T], Some(M), |_, v| {
            let found = v[1..].iter().filter_map(|dict| map(dict)?.get(text(&v[0])));
            Ok(Value::list(found.collect()))
        }),
    ),
    (
        "keys",
        function(&[], Some(M), |_, v| {
            Ok(Value::texts(
                v.iter().filter_map(map).flat_map(|map| map.keys()),
            ))
        }),
    ),
    (
        "values",
        function(&[M], None, |_, v| {
            let entries = map(&v[0]).map(|map| map.entries()).unwrap_or_default();
            Ok(Value::list(
                entries.into_iter().map(|(_, value)| value).collect(),
            ))
        }),
    ),
    (
        "pick",
        function(&[M], Some(T), |_, v| {
            filtered(v, |key, keys| keys.contains(&key))
        }),
    ),
    (
        "omit",
        function(&[M], Some(T), |_, v| {
            filtered(v, |key, keys| !keys.contains(&key))
        }),
    ),
    (
        "merge",
        function(&[M], Some(M), |run, v| swallowed(merge_all(run, v, false))),
    ),
    (
        "mustMerge",
        function(&[M], Some(M), |run, v| merge_all(run, v, false)),
    ),
    (
        "mergeOverwrite",
        function(&[M], Some(M), |run, v| swallowed(merge_all(run, v, true))),
    ),
    (
        "mustMergeOverwrite",
        function(&[M], Some(M), |run, v| merge_all(run, v, true)),
    ),
    ("dig", function(&[], Some(A), dig)),
    ("deepCopy", DEEP_COPY),
    ("mustDeepCopy", DEEP_COPY),
];

const DEEP_COPY: Function = function(&[A], None, |run, v| {
    let copy = v[0].deep_copy(0).ok_or_else(too_deep)?;
    run.spend(size(&copy))?;
    Ok(copy)
});

/// How many values there are inside; copying them is that much work.
fn size(value: &Value) -> u64 {
    match value {
        Value::List(list) => 1 + list.items.iter().map(size).sum::<u64>(),
        Value::Map(map) => 1 + map.with_entries(|entries| entries.values().map(size).sum::<u64>()),
        _ => 1,
    }
}

fn insert(map: &Rc<Map>, key: Rc<str>, value: Value) -> Result<(), Failure> {
    map.insert(key, value)
        .map_err(|error| Failure::Message(error.to_string()))
}

fn dict(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let mut entries = Vec::with_capacity(values.len() / 2 + 1);
    for pair in values.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        entries.push((strval(&pair[0])?, value));
    }
    Ok(Value::map(entries))
}

fn filtered(values: &[Value], keep: fn(&str, &[&str]) -> bool) -> Outcome {
    let keys: Vec<&str> = values[1..].iter().map(text).collect();
    let entries = map(&values[0]).map(|map| map.entries()).unwrap_or_default();
    Ok(Value::map(
        entries.into_iter().filter(|(key, _)| keep(key, &keys)),
    ))
}

fn dig(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let [keys @ .., default, dict] = values else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut here = as_dict(dict)?;
    for (i, key) in keys.iter().enumerate() {
        let Value::Text(key) = key else {
            return Err(conversion(key, "string").into());
        };
        let Some(step) = here.get(key) else {
            return Ok(default.clone());
        };
        if i + 1 == keys.len() {
            return Ok(step);
        }
        here = as_dict(&step)?;
    }
    Ok(default.clone())
}

fn as_dict(value: &Value) -> Result<Rc<Map>, Failure> {
    match value {
        Value::Map(map) if !map.texts => Ok(map.clone()),
        other => Err(conversion(other, "map[string]interface {}").into()),
    }
}

fn conversion(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Nil => "nil",
        other => other.type_name(),
    };
    format!("interface conversion: interface {{}} is {found}, not {wanted}")
}

fn swallowed(outcome: Outcome) -> Outcome {
    match outcome {
        Err(Failure::Message(_)) => Ok(Value::text("")),
        other => other,
    }
}

fn merge_all(run: &mut Run<'_>, values: &[Value], overwrite: bool) -> Outcome {
    let Some(target) = map(&values[0]) else {
        return Ok(values[0].clone());
    };
    for source in values[1..].iter().filter_map(map) {
        merge(run, target, source, overwrite, 0)?;
    }
    Ok(values[0].clone())
}

/// Fills empty values of the target, and merges maps. With `overwrite` the source takes precedence.
fn merge(
    run: &mut Run<'_>,
    target: &Rc<Map>,
    source: &Rc<Map>,
    overwrite: bool,
    depth: usize,
) -> Result<(), Failure> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    for (key, value) in source.entries() {
        run.spend(1)?;
        let before = target.get(&key);
        match (&value, &before) {
            (Value::Nil, _) if overwrite => {
                insert(target, key, Value::Nil)?;
                continue;
            }
            (Value::Nil, _) => continue,
            (Value::Map(inner_source), Some(Value::Map(inner_target)))
                if !Rc::ptr_eq(inner_source, inner_target) =>
            {
                merge(run, inner_target, inner_source, overwrite, depth + 1)?;
            }
            _ => {}
        }
        let filled = before.as_ref().is_some_and(Value::is_true);
        let keeps_place = match (&value, &before) {
            (Value::List(_), _) => !overwrite,
            (Value::Map(_), Some(Value::Map(_))) => true,
            _ => false,
        };
        if filled && keeps_place {
            continue;
        }
        if overwrite || !filled {
            insert(target, key, value)?;
        }
    }
    Ok(())
}
