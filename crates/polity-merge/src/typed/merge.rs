//! Merging an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Shape, Type};
use crate::fields::PathElement;

/// `live` with everything `applied` mentions; nothing is removed.
///
/// The applied value has been checked: it fits its type and holds no duplicates.
pub(crate) fn merge(ty: Type<'_>, live: &Value, applied: &Value) -> Value {
    match (ty.shape(applied), live, applied) {
        (Shape::Map, Value::Object(live), Value::Object(applied)) => {
            Value::Object(merge_maps(ty, live, applied))
        }
        // A null does not change a merged container that has content.
        (Shape::Map, Value::Object(map), Value::Null) if !map.is_empty() => live.clone(),
        (Shape::Set | Shape::Keyed(_), Value::Array(items), Value::Null) if !items.is_empty() => {
            live.clone()
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(live), Value::Array(applied)) => {
            Value::Array(merge_lists(ty, shape, live, applied))
        }
        _ => applied.clone(),
    }
}

fn merge_maps(
    ty: Type<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let kept = live.iter().map(|(name, live)| {
        let value = match (applied.get(name), ty.field(name)) {
            (Some(applied), Some(field)) => merge(field, live, applied),
            (Some(applied), None) => applied.clone(),
            (None, _) => live.clone(),
        };
        (name.clone(), value)
    });
    let added = applied
        .iter()
        .filter(|(name, _)| !live.contains_key(*name))
        .map(|(name, value)| (name.clone(), value.clone()));
    kept.chain(added).collect()
}

/// Elements of both lists, in the applied order where it is defined and in the live order elsewhere.
fn merge_lists(ty: Type<'_>, shape: Shape<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let identified = |items: &[Value]| -> Vec<Option<PathElement>> {
        items
            .iter()
            .map(|item| ty.identify(shape, item).ok())
            .collect()
    };
    let live_ids = identified(live);
    let applied_ids = identified(applied);
    let applied_set: BTreeSet<_> = applied_ids.iter().flatten().collect();
    let mut live_by_id: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (id, item) in live_ids.iter().zip(live) {
        // A duplicate is not merged with: it is not clear which one is meant.
        if let Some(id) = id {
            live_by_id
                .entry(id)
                .and_modify(|found| *found = None)
                .or_insert(Some(item));
        }
    }
    let mut shared = applied_ids
        .iter()
        .flatten()
        .filter(|id| live_by_id.contains_key(id));
    let mut next_shared = shared.next();
    let mut taken: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let take = |index: usize, id: &PathElement| match live_by_id.get(id).copied().flatten() {
        Some(live) => merge(ty.element(), live, &applied[index]),
        None => applied[index].clone(),
    };
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < applied.len() {
        let live_id = live_ids.get(l).and_then(Option::as_ref);
        let applied_id = applied_ids.get(r).and_then(Option::as_ref);
        if let (Some(mine), Some(theirs)) = (live_id, applied_id) {
            if mine == theirs {
                taken.insert(theirs);
                merged.push(take(r, theirs));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if applied_set.contains(mine) && next_shared.is_some_and(|next| next != mine) {
                l += 1;
                continue;
            }
        }
        if l < live.len() {
            match live_id {
                Some(id) if applied_set.contains(id) => {
                    if taken.contains(id) {
                        l += 1;
                    }
                }
                _ => {
                    merged.push(live[l].clone());
                    l += 1;
                    continue;
                }
            }
        }
        if r < applied.len() {
            if let Some(id) = applied_id {
                taken.insert(id);
                merged.push(take(r, id));
                if next_shared == Some(id) {
                    next_shared = shared.next();
                }
            }
            r += 1;
        }
    }
    merged
}
