//! Merges a definition into an existing object. See docs/spec/governance.md#11-4.

use std::borrow::Cow;
use std::collections::HashMap;

use polity_core::go_text;
use polity_core::quantity::Quantity;
use serde_json::{Map, Value};

use crate::equivalent::{Strictness, maps};
use crate::printed::same_text;

/// A merged value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merged {
    pub(crate) value: Value,
    /// The definition has a field that the object has not.
    pub(crate) missing: bool,
}

impl Merged {
    fn as_wanted(value: &Value) -> Self {
        Self {
            value: value.clone(),
            missing: false,
        }
    }
}

/// Lays `want` over `have`: what only the object has stays.
pub(crate) fn merge(want: &Value, have: &Value, strictness: Strictness) -> Merged {
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => merge_maps(want, have, strictness),
        (Value::Array(want), Value::Array(have)) if !have.is_empty() => {
            merge_lists(want, have, strictness)
        }
        (Value::Null, Value::Object(_)) => Merged::as_wanted(have),
        _ => Merged::as_wanted(want),
    }
}

fn merge_maps(
    want: &Map<String, Value>,
    have: &Map<String, Value>,
    strictness: Strictness,
) -> Merged {
    let mut merged = have.clone();
    let mut missing = false;
    for (key, wanted) in want {
        let value = match have.get(key) {
            Some(existing) => {
                let inner = merge(wanted, existing, strictness);
                missing |= inner.missing;
                inner.value
            }
            None => {
                missing = true;
                wanted.clone()
            }
        };
        merged.insert(key.clone(), value);
    }
    Merged {
        value: Value::Object(merged),
        missing,
    }
}

/// An item of the wanted list, until an existing one takes its place.
struct Slot<'a> {
    wanted: &'a Value,
    merged: Option<Value>,
}

/// Every distinct existing item looks for wanted items it satisfies, or that have its name; what finds none
/// is kept after the wanted ones.
fn merge_lists(want: &[Value], have: &[Value], strictness: Strictness) -> Merged {
    if want == have {
        return Merged::as_wanted(&Value::Array(want.to_vec()));
    }
    let mut slots: Vec<Slot<'_>> = want
        .iter()
        .map(|wanted| Slot {
            wanted,
            merged: None,
        })
        .collect();
    let mut index = Index::of(want);
    let mut kept = Vec::new();
    let mut missing = false;
    for (existing, n_existing) in distinct(have) {
        let mut n_matched = 0;
        for position in index.candidates(existing).iter().copied() {
            if n_matched == n_existing {
                break;
            }
            let slot = &mut slots[position];
            if slot.merged.is_some() {
                continue;
            }
            if let Some(merged) = match_items(slot.wanted, existing, strictness) {
                missing |= merged.missing;
                slot.merged = Some(merged.value);
                n_matched += 1;
            }
        }
        index.forget_used(&slots);
        kept.extend(std::iter::repeat_n(existing, n_existing - n_matched).cloned());
    }
    let wanted = slots
        .into_iter()
        .map(|slot| slot.merged.unwrap_or_else(|| slot.wanted.clone()));
    Merged {
        value: Value::Array(wanted.chain(kept).collect()),
        missing,
    }
}

/// The existing items, each once and in order, with how often it is there.
fn distinct(have: &[Value]) -> Vec<(&Value, usize)> {
    let mut positions: HashMap<String, usize> = HashMap::with_capacity(have.len());
    let mut items: Vec<(&Value, usize)> = Vec::with_capacity(have.len());
    for item in have {
        match positions.entry(go_text::value(item)) {
            std::collections::hash_map::Entry::Occupied(at) => items[*at.get()].1 += 1,
            std::collections::hash_map::Entry::Vacant(at) => {
                at.insert(items.len());
                items.push((item, 1));
            }
        }
    }
    items
}

/// Where in the wanted list an existing item may find its match: all maps for a map, all items of the same
/// printed form for anything else. Long lists of names are not a square of work this way.
struct Index {
    maps: Vec<usize>,
    by_text: HashMap<String, Vec<usize>>,
    n_used: usize,
}

impl Index {
    fn of(want: &[Value]) -> Self {
        let mut index = Self {
            maps: Vec::new(),
            by_text: HashMap::new(),
            n_used: 0,
        };
        for (position, wanted) in want.iter().enumerate() {
            if wanted.is_object() {
                index.maps.push(position);
            } else {
                index
                    .by_text
                    .entry(go_text::value(wanted))
                    .or_default()
                    .push(position);
            }
        }
        index
    }

    fn candidates(&self, existing: &Value) -> Cow<'_, [usize]> {
        if existing.is_object() {
            return Cow::Borrowed(&self.maps);
        }
        let same = self.by_text.get(&go_text::value(existing));
        Cow::Borrowed(same.map_or(&[], Vec::as_slice))
    }

    /// Drops the maps that were matched, once there are enough of them to be worth it.
    fn forget_used(&mut self, slots: &[Slot<'_>]) {
        self.n_used += 1;
        if self.n_used * 2 > self.maps.len() {
            self.maps
                .retain(|position| slots[*position].merged.is_none());
            self.n_used = 0;
        }
    }
}

/// The wanted item merged into the existing one, if they belong together.
fn match_items(wanted: &Value, existing: &Value, strictness: Strictness) -> Option<Merged> {
    let (Value::Object(want), Value::Object(have)) = (wanted, existing) else {
        return same_text(wanted, existing).then(|| Merged::as_wanted(wanted));
    };
    let named_alike = name(want).is_some_and(|wanted| name(have) == Some(wanted));
    if !named_alike && clash(want, have) {
        return None;
    }
    let merged = merge_maps(want, have, strictness);
    let Value::Object(fields) = &merged.value else {
        return None;
    };
    let likeness = maps(fields, have, strictness);
    (named_alike || likeness.equal).then_some(Merged {
        missing: merged.missing || likeness.missing,
        ..merged
    })
}

fn name(item: &Map<String, Value>) -> Option<&str> {
    item.get("name")?.as_str().filter(|name| !name.is_empty())
}

/// Whether two maps surely differ: both have a scalar under the same key, and not the same one. Saves
/// merging every item with every other.
fn clash(want: &Map<String, Value>, have: &Map<String, Value>) -> bool {
    want.iter()
        .any(|(key, wanted)| match (wanted, have.get(key)) {
            (Value::Object(want), Some(Value::Object(have))) => clash(want, have),
            (Value::String(wanted), Some(Value::String(have))) => {
                wanted != have && !same_quantity(wanted, have)
            }
            (Value::Bool(wanted), Some(Value::Bool(have))) => wanted != have,
            (Value::Number(wanted), Some(Value::Number(have))) => wanted.as_f64() != have.as_f64(),
            _ => false,
        })
}

fn same_quantity(a: &str, b: &str) -> bool {
    match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(want: Value, have: Value) -> Value {
        merge(&want, &have, Strictness::Named).value
    }

    /// `merge(want, have)` of 11.4
    #[test]
    fn maps_keep_what_only_the_object_has() {
        assert_eq!(
            merged(json!({"a": {"x": 1}}), json!({"a": {"y": 2}, "b": 3})),
            json!({"a": {"x": 1, "y": 2}, "b": 3})
        );
        assert_eq!(
            merged(json!({"a": null}), json!({"a": {"y": 2}})),
            json!({"a": {"y": 2}})
        );
        assert_eq!(
            merged(json!({"a": null}), json!({"a": 1})),
            json!({"a": null})
        );
        assert_eq!(
            merged(json!({"a": [1]}), json!({"a": {}})),
            json!({"a": [1]})
        );
        assert_eq!(
            merged(json!({"a": [1]}), json!({"a": []})),
            json!({"a": [1]})
        );
    }

    /// List merge of 11.4
    #[test]
    fn lists_merge_item_by_item() {
        for (why, want, have, expected) in [
            (
                "order never matters",
                json!([2, 1]),
                json!([1, 2]),
                json!([2, 1]),
            ),
            (
                "unmatched wanted items come first, unmatched existing items after",
                json!(["x"]),
                json!(["a", "b"]),
                json!(["x", "a", "b"]),
            ),
            (
                "items with the same name are merged, not duplicated",
                json!([{"name": "c", "image": "new"}]),
                json!([{"name": "c", "image": "old", "tty": true}, {"name": "d"}]),
                json!([{"name": "c", "image": "new", "tty": true}, {"name": "d"}]),
            ),
            (
                "a partial item matching an existing one is satisfied",
                json!([{"port": 80}]),
                json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]),
                json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]),
            ),
            (
                "existing duplicates are kept",
                json!(["a"]),
                json!(["a", "a", "b"]),
                json!(["a", "a", "b"]),
            ),
            (
                "wanted duplicates that are there are satisfied",
                json!(["a", "a"]),
                json!(["a", "a"]),
                json!(["a", "a"]),
            ),
            (
                "text and number of one form are one",
                json!(["80"]),
                json!([80]),
                json!(["80"]),
            ),
            (
                "quantities in items",
                json!([{"m": "1Gi"}]),
                json!([{"m": "1024Mi"}]),
                json!([{"m": "1Gi"}]),
            ),
            (
                "a map never matches a text",
                json!([{"a": 1}]),
                json!(["map[a:1]"]),
                json!([{"a": 1}, "map[a:1]"]),
            ),
        ] {
            assert_eq!(merged(want, have), expected, "{why}");
        }
    }

    #[test]
    fn what_the_object_lacks_is_flagged() {
        let flagged = |want: Value, have: Value| merge(&want, &have, Strictness::Named).missing;
        assert!(flagged(json!({"a": 0}), json!({})));
        assert!(flagged(
            json!({"l": [{"name": "a", "x": 1}]}),
            json!({"l": [{"name": "a"}]})
        ));
        assert!(!flagged(json!({"a": 1}), json!({"a": 2, "b": 3})));
    }

    #[test]
    fn long_lists_are_no_square_of_work() {
        let names = |prefix: &str| -> Value {
            (0..50_000).map(|n| json!(format!("{prefix}{n}"))).collect()
        };
        let merged = merged(names("a"), names("b"));
        assert_eq!(merged.as_array().map(Vec::len), Some(100_000));
    }
}
