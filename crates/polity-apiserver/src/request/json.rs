//! JSON, with its duplicate keys noted. Takes time in proportion to the length of the text.

use std::collections::HashSet;
use std::fmt;

use polity_core::{FieldPath, Findings};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a JSON text; of a duplicate key, the last value counts.
pub fn read(text: &[u8]) -> serde_json::Result<(Value, Findings)> {
    let mut duplicates = Findings::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let seed = Seed {
        path: &Path {
            parent: None,
            step: Step::Root,
        },
        duplicates: &mut duplicates,
    };
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates))
}

/// The path of a value, as a linked list on the stack: descending has a constant cost for names of any length.
struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    fn below(&'p self, step: Step<'p>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    fn text(&self) -> FieldPath {
        let parent = self.parent.map_or_else(FieldPath::root, Self::text);
        match self.step {
            Step::Root => parent,
            Step::Key(key) => parent.child(key),
            Step::Index(index) => parent.index(index),
        }
    }
}

/// Builds a value and notes the paths of duplicate keys.
struct Seed<'p, 'f> {
    path: &'p Path<'p>,
    duplicates: &'f mut Findings,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    /// Whole numbers become integers in any notation: a real server prints 2.0 as 2.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() < EXACT {
            return Ok(Value::from(value as i64));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = self.path.below(Step::Index(items.len()));
            match seq.next_element_seed(Seed {
                path: &path,
                duplicates: &mut *self.duplicates,
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        // A key that occurs many times is one finding, whose path is built once.
        let mut repeated = HashSet::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = self.path.below(Step::Key(&key));
            if map.contains_key(&key) && !repeated.contains(&key) {
                repeated.insert(key.clone());
                self.duplicates.add(|| path.text().to_string());
            }
            let value = access.next_value_seed(Seed {
                path: &path,
                duplicates: &mut *self.duplicates,
            })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use polity_core::findings::MAX_FINDINGS;

    use super::*;

    const N: usize = 100_000;

    /// An object with these members, deep below names that fill a path.
    fn deep(members: &str) -> String {
        let levels = 100;
        let open = format!("{{\"{}\":", "x".repeat(15)).repeat(levels);
        format!("{open}{{{members}}}{}", "}".repeat(levels))
    }

    fn duplicates(text: &str) -> Findings {
        read(text.as_bytes()).unwrap().1
    }

    #[test]
    fn a_key_that_occurs_many_times_is_found_once() {
        let found = duplicates(&deep(&vec!["\"a\":1"; N].join(",")));
        assert_eq!((found.len(), found.n_more()), (1, 0));
    }

    #[test]
    fn the_same_path_in_many_objects_is_not_made_for_each_of_them() {
        let found = duplicates(&deep(&vec!["\"a\":{\"b\":1,\"b\":2}"; N].join(",")));
        assert_eq!(found.n_more(), N + 1 - MAX_FINDINGS);
        assert_eq!(found.len(), 2);
    }
}
