//! Computes the paths that changed between two values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Shape, Type};
use crate::fields::{FieldSet, Node, PathElement};
use crate::text::Num;

/// The paths that differ between an old and a new value; none is in two of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// The paths that were added or modified.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// Removes the paths of `ignore` and everything below them.
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
    let mut found = Found::default();
    found.compare(ty, Some(old), Some(new));
    Comparison {
        added: found.added.into_set(),
        modified: found.modified.into_set(),
        removed: found.removed.into_set(),
    }
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

/// The differences at one node and below it. The tree is built from the leaves up, so that a node costs only its own
/// name and not those of its ancestors.
#[derive(Default)]
struct Found {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Found {
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
                self.added.own();
            } else if new.is_none() {
                self.removed.own();
            }
        }
    }

    /// Compares as one shape, and returns whether that made the node a leaf.
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
            (None, _) => self.added.own(),
            (_, None) => self.removed.own(),
            (Some(old), Some(new)) => {
                if !equal(old, new) {
                    self.modified.own();
                }
            }
        }
        true
    }

    fn attach(&mut self, element: PathElement, child: Self) {
        self.added.attach(element.clone(), child.added);
        self.modified.attach(element.clone(), child.modified);
        self.removed.attach(element, child.removed);
    }

    fn field(&mut self, ty: Type<'_>, name: &str, old: Option<&Value>, new: Option<&Value>) {
        let mut child = Self::default();
        child.compare(ty.field(name).unwrap_or(Type::Deduced), old, new);
        self.attach(PathElement::Field(name.to_owned()), child);
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
            let mut child = Self::default();
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => {
                    child.compare(
                        ty.element(),
                        before.first().copied(),
                        after.first().copied(),
                    );
                }
                // Duplicates are one leaf and are not compared in detail.
                ([_, _, ..], [_, _, ..]) => {
                    let same = before.len() == after.len()
                        && before.iter().zip(&after).all(|(a, b)| equal(a, b));
                    if !same {
                        child.modified.own();
                    }
                }
                ([_, _, ..], after) => {
                    child.compare(ty.element(), None, after.first().copied());
                    child.removed.own();
                }
                (before, [_, _, ..]) => {
                    child.compare(ty.element(), before.first().copied(), None);
                    child.added.own();
                }
            }
            self.attach(id, child);
        }
    }
}
