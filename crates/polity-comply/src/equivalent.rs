//! Whether a merged object is equivalent to the existing one: quantities may be spelled differently, lists may be in
//! another order, and zero values may be absent. See docs/spec/governance.md#11-4.

use polity_core::go_text;
use polity_core::quantity::Quantity;
use serde_json::{Map, Value};

use crate::printed::same_text;

/// How strict a comparison is about things that are empty here and missing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A named object: a dry run has the last word on them.
    Named,
    /// A search: nothing is confirmed, so empty and missing are one.
    Search,
}

/// The answer of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Likeness {
    pub(crate) equal: bool,
    /// Equal only because something missing was taken for its zero value.
    pub(crate) missing: bool,
}

impl Likeness {
    pub(crate) const SAME: Self = Self {
        equal: true,
        missing: false,
    };
    const SAME_BUT_MISSING: Self = Self {
        equal: true,
        missing: true,
    };
    const DIFFERENT: Self = Self {
        equal: false,
        missing: false,
    };

    fn of(equal: bool) -> Self {
        if equal { Self::SAME } else { Self::DIFFERENT }
    }
}

/// Compares the merged value of a top-level key with what the object has there.
pub(crate) fn equivalent(merged: &Value, have: Option<&Value>, strictness: Strictness) -> Likeness {
    let have = have.filter(|have| !have.is_null());
    match (merged, have) {
        (Value::String(text), None) => {
            Likeness::of(text.is_empty() && strictness == Strictness::Search)
        }
        (Value::Null, Some(Value::String(text))) => {
            Likeness::of(text.is_empty() && strictness == Strictness::Search)
        }
        (Value::Null, Some(have)) => Likeness::of(is_zero(have)),
        // No quantities here: a scalar at the top is compared as text.
        (Value::String(_), Some(have)) => Likeness::of(same_text(merged, have)),
        _ => entry(merged, have, strictness),
    }
}

/// Compares one value of a map.
fn entry(merged: &Value, have: Option<&Value>, strictness: Strictness) -> Likeness {
    match (merged, have) {
        (Value::Object(merged), Some(Value::Object(have))) => maps(merged, have, strictness),
        (Value::Object(merged), None) => {
            Likeness::of(merged.is_empty() && strictness == Strictness::Search)
        }
        (Value::Array(merged), Some(Value::Array(have))) => lists(merged, have),
        (Value::Array(merged), None) => Likeness::of(merged.is_empty()),
        (Value::Array(merged), Some(Value::Null)) => Likeness::of(merged.is_empty()),
        (Value::Object(_) | Value::Array(_), Some(_)) => Likeness::DIFFERENT,
        (Value::String(text), have) => Likeness::of(same_word(text, have)),
        (Value::Null, None | Some(Value::Null)) => Likeness::SAME,
        (scalar, None | Some(Value::Null)) if is_zero(scalar) => Likeness::SAME_BUT_MISSING,
        (_, None) => Likeness::DIFFERENT,
        (scalar, Some(have)) => Likeness::of(same_text(scalar, have)),
    }
}

/// Texts that are quantities are equal by amount, all others by what they print.
fn same_word(text: &str, have: Option<&Value>) -> bool {
    let Some(have) = have else { return false };
    if have.as_str() == Some(text) {
        return true;
    }
    match text.parse::<Quantity>() {
        Ok(quantity) => have
            .as_str()
            .and_then(|have| have.parse::<Quantity>().ok())
            .is_some_and(|have| have == quantity),
        Err(_) => have.as_str().is_none() && go_text::value(have) == text,
    }
}

pub(crate) fn maps(
    merged: &Map<String, Value>,
    have: &Map<String, Value>,
    strictness: Strictness,
) -> Likeness {
    if merged.len() < have.len() {
        return Likeness::DIFFERENT;
    }
    let mut likeness = Likeness::SAME;
    for (key, value) in merged {
        let one = entry(value, have.get(key), strictness);
        if !one.equal {
            return Likeness::DIFFERENT;
        }
        likeness.missing |= one.missing;
    }
    likeness
}

/// Lists are equal in any order; which item is held against which is decided by their printed form.
pub(crate) fn lists(merged: &[Value], have: &[Value]) -> Likeness {
    if merged.len() != have.len() {
        return Likeness::DIFFERENT;
    }
    if merged == have {
        return Likeness::SAME;
    }
    let mut likeness = Likeness::SAME;
    for (merged, have) in sorted(merged).into_iter().zip(sorted(have)) {
        let one = item(merged, have);
        if !one.equal {
            return Likeness::DIFFERENT;
        }
        likeness.missing |= one.missing;
    }
    likeness
}

/// Compares two items of lists; inside them empty maps and missing ones are one.
pub(crate) fn item(merged: &Value, have: &Value) -> Likeness {
    match (merged, have) {
        (Value::Object(merged), Value::Object(have)) => maps(merged, have, Strictness::Search),
        (Value::Object(_), _) | (_, Value::Object(_)) => Likeness::DIFFERENT,
        _ => Likeness::of(same_text(merged, have)),
    }
}

fn sorted(items: &[Value]) -> Vec<&Value> {
    let mut items: Vec<&Value> = items.iter().collect();
    items.sort_by_cached_key(|item| go_text::value(item));
    items
}

/// The value a Go field has when nobody set it.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The table of docs/spec/governance.md#11-4, in its order.
    #[test]
    fn the_table_of_equivalence() {
        let named = |merged: Value, have: Value| {
            let likeness = equivalent(&merged, Some(&have), Strictness::Named);
            (likeness.equal, likeness.missing)
        };
        let search =
            |merged: Value, have: Value| equivalent(&merged, Some(&have), Strictness::Search).equal;
        let (same, missing, different) = ((true, false), (true, true), (false, false));

        // maps
        assert_eq!(named(json!({"a": "x"}), json!({"a": "x"})), same);
        assert_eq!(
            named(json!({"a": "x"}), json!({"a": "x", "b": "y"})),
            different,
            "fewer keys"
        );
        assert_eq!(named(json!({"a": "x"}), json!({"b": "x"})), different);
        // lists
        assert_eq!(
            named(json!(["a", "b"]), json!(["b", "a"])),
            same,
            "any order"
        );
        assert_eq!(
            named(json!(["a"]), json!(["a", "a"])),
            different,
            "same length"
        );
        assert_eq!(
            named(
                json!({"l": [{"n": 1}, {"n": 2}]}),
                json!({"l": [{"n": 2}, {"n": 1}]})
            ),
            same
        );
        // text inside a map
        assert_eq!(
            named(json!({"m": "1Gi"}), json!({"m": "1024Mi"})),
            same,
            "quantities"
        );
        assert_eq!(
            named(json!({"m": "1"}), json!({"m": 1})),
            different,
            "a quantity is text on both sides"
        );
        assert_eq!(named(json!({"m": "1Gi"}), json!({"m": "1"})), different);
        assert_eq!(
            named(json!({"m": "true"}), json!({"m": true})),
            same,
            "printed form"
        );
        assert_eq!(named(json!({"m": "x"}), json!({"m": "y"})), different);
        // other scalars inside a map
        assert_eq!(named(json!({"p": 80}), json!({"p": "80"})), same);
        assert_eq!(named(json!({"p": 80}), json!({"p": 81})), different);
        assert_eq!(
            named(json!({"p": 0}), json!({})),
            missing,
            "zero values are accepted and flagged"
        );
        assert_eq!(named(json!({"p": false}), json!({})), missing);
        assert!(!named(json!({"p": 1}), json!({})).0);
        // empty list, key missing
        assert_eq!(named(json!({"l": []}), json!({})), same);
        // empty map, key missing
        assert_eq!(named(json!({"m": {}}), json!({})), different);
        assert!(search(json!({"m": {}}), json!({})));
        // empty text vs missing
        assert_eq!(named(json!({"t": ""}), json!({})), different);
        assert!(!search(json!({"t": ""}), json!({})));
        assert!(
            equivalent(&json!(""), None, Strictness::Search).equal,
            "the whole key is that text"
        );
        assert!(!equivalent(&json!(""), None, Strictness::Named).equal);
        assert!(equivalent(&json!(null), Some(&json!("")), Strictness::Search).equal);
        assert!(!equivalent(&json!(null), Some(&json!("")), Strictness::Named).equal);
        // items of a list
        assert_eq!(
            named(json!([{"m": {}, "n": 1}]), json!([{"n": 1}])),
            same,
            "lenient inside"
        );
        assert_eq!(
            named(json!([[1, 2]]), json!([[2, 1]])),
            different,
            "a list in a list has an order"
        );
        assert_eq!(named(json!([1]), json!(["1"])), same);
    }

    #[test]
    fn other_types_differ() {
        for (merged, have) in [
            (json!({"a": {}}), json!({"a": []})),
            (json!({"a": []}), json!({"a": {}})),
            (json!({"a": {}}), json!({"a": "x"})),
            (json!([{}]), json!(["map[]"])),
        ] {
            assert!(
                !equivalent(&merged, Some(&have), Strictness::Named).equal,
                "{merged} {have}"
            );
        }
    }
}
