//! What changed between two values, path by path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Shape, Type};
use crate::fields::{FieldSet, PathElement};
use crate::text::Num;

/// The paths that differ between an old and a new value; none is in two of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// What was added or modified.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// Leaves out the paths of `ignore` and everything below them.
    pub(crate) fn without(self, ignore: &FieldSet) -> Self {
        if ignore.is_empty() {
            return self;
        }
        Self {
            added: self.added.difference_below(ignore),
            modified: self.modified.difference_below(ignore),
            removed: self.removed.difference_below(ignore),
        }
    }
}

/// Compares two values of one type.
pub(crate) fn compare(ty: Type<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk {
        path: Vec::new(),
        found: Comparison::default(),
    };
    walk.compare(ty, Some(old), Some(new));
    walk.found
}

/// Whether two values are the same; numbers are compared by value.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (Num::of(left), Num::of(right)) {
            (Num::Int(left), Num::Int(right)) => left == right,
            #[expect(clippy::float_cmp, reason = "equality of values, not of measurements")]
            (left, right) => left.as_f64() == right.as_f64(),
        },
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        (left, right) => left == right,
    }
}

struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    fn compare(&mut self, ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match (old, new) {
            (None, None) => return,
            (Some(one), None) | (None, Some(one)) => self.by_shape(ty, ty.shape(one), old, new),
            (Some(before), Some(after)) => {
                let (before, after) = (ty.shape(before), ty.shape(after));
                if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
                    self.by_shape(ty, before, old, new);
                }
                self.by_shape(ty, after, old, new)
            }
        };
        if !leaf {
            if old.is_none() {
                self.found.added.insert(&self.path);
            } else if new.is_none() {
                self.found.removed.insert(&self.path);
            }
        }
    }

    /// Compares as one shape, and answers whether that made the node a leaf.
    fn by_shape(
        &mut self,
        ty: Type<'_>,
        shape: Shape<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        match shape {
            Shape::Scalar(_) | Shape::AtomicList | Shape::AtomicMap => self.leaf(old, new),
            Shape::Map => {
                let none = Map::new();
                let before = old.and_then(Value::as_object).unwrap_or(&none);
                let after = new.and_then(Value::as_object).unwrap_or(&none);
                if before.is_empty() && after.is_empty() {
                    return self.leaf(old, new);
                }
                for (name, value) in before {
                    self.field(ty, name, Some(value), after.get(name));
                }
                for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                    self.field(ty, name, None, Some(value));
                }
                false
            }
            Shape::Set | Shape::Keyed(_) => {
                let before = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let after = new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if before.is_empty() && after.is_empty() {
                    return self.leaf(old, new);
                }
                self.elements(ty, shape, before, after);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) => {
                if !equal(old, new) {
                    self.found.modified.insert(&self.path);
                }
            }
        }
        true
    }

    fn field(&mut self, ty: Type<'_>, name: &str, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(PathElement::Field(name.to_owned()));
        self.compare(ty.field(name).unwrap_or(Type::Deduced), old, new);
        self.path.pop();
    }

    fn elements(&mut self, ty: Type<'_>, shape: Shape<'_>, before: &[Value], after: &[Value]) {
        let mut by_id: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in before {
            if let Ok(id) = ty.identify(shape, item) {
                by_id.entry(id).or_default().0.push(item);
            }
        }
        for item in after {
            if let Ok(id) = ty.identify(shape, item) {
                by_id.entry(id).or_default().1.push(item);
            }
        }
        for (id, (before, after)) in by_id {
            self.path.push(id);
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.compare(
                        ty.element(),
                        before.first().copied(),
                        after.first().copied(),
                    );
                }
                // Duplicates are one leaf; what is in them is not looked at.
                ([_, _, ..], [_, _, ..]) => {
                    let same = before.len() == after.len()
                        && before.iter().zip(&after).all(|(a, b)| equal(a, b));
                    if !same {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], after) => {
                    self.compare(ty.element(), None, after.first().copied());
                    self.found.removed.insert(&self.path);
                }
                (before, [_, _, ..]) => {
                    self.compare(ty.element(), before.first().copied(), None);
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
