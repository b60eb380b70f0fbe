//! Removes fields that a schema does not declare, and reports them.

use std::fmt::Write;

use polity_core::Findings;
use polity_core::field::shortened;
use serde_json::{Map, Value};

use super::{Additional, Schema, meta};

/// Removes unknown fields from `value` and returns their paths, as in `unknown field "spec.a[0].x"`.
///
/// Inside a resource, apiVersion and kind stay and metadata is pruned by its own schema, even if the schema preserves
/// unknown fields.
pub fn prune(schema: &Schema, value: &mut Value) -> Findings {
    let mut pruner = Pruner::default();
    pruner.root_metadata(schema, value);
    let mut in_metadata = std::mem::take(&mut pruner.removed);
    in_metadata.sort();
    pruner.value(schema, value);
    pruner.removed.sort();
    pruner.removed_embedded.sort();
    in_metadata.append(pruner.removed);
    in_metadata.append(pruner.removed_embedded);
    in_metadata
}

#[derive(Default)]
struct Pruner {
    path: String,
    removed: Findings,
    removed_embedded: Findings,
}

impl Pruner {
    fn root_metadata(&mut self, schema: &Schema, value: &mut Value) {
        if schema.root
            && let Some(metadata) = value.get_mut("metadata")
        {
            self.at_key("metadata", |this| this.value(meta::object_meta(), metadata));
        }
    }

    fn value(&mut self, schema: &Schema, value: &mut Value) {
        self.value_in(schema, schema.preserve_unknown, value);
    }

    /// A list hands its `preserve` on to its elements; an object does not hand it to its fields.
    fn value_in(&mut self, schema: &Schema, preserve: bool, value: &mut Value) {
        match value {
            Value::Object(map) => self.object(schema, preserve, map),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.at_index(index, |this| match schema.items() {
                        Some(items) => {
                            this.value_in(items, preserve || items.preserve_unknown, item);
                        }
                        None if preserve => {}
                        None => this.nothing_known(item),
                    });
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, schema: &Schema, preserve: bool, map: &mut Map<String, Value>) {
        if schema.embedded
            && let Some(metadata) = map.get_mut("metadata")
        {
            let mut inner = Self {
                path: std::mem::take(&mut self.path),
                removed: std::mem::take(&mut self.removed_embedded),
                ..Self::default()
            };
            inner.at_key("metadata", |this| this.value(meta::object_meta(), metadata));
            self.path = inner.path;
            self.removed_embedded = inner.removed;
        }
        let resource = schema.is_resource();
        map.retain(|key, value| {
            if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            match schema.declared(key) {
                Some(known) => self.at_key(key, |this| this.value(known, value)),
                // A map of unconstrained values: the values themselves know no fields.
                None if matches!(schema.additional, Additional::Allowed(_)) => {
                    self.at_key(key, |this| this.nothing_known(value));
                }
                None if preserve => {}
                None => {
                    self.at_key(key, Self::remove);
                    return false;
                }
            }
            true
        });
    }

    /// Below a node without a schema every field is unknown.
    fn nothing_known(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for key in map.keys() {
                    self.at_key(key, Self::remove);
                }
                map.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.at_index(index, |this| this.nothing_known(item));
                }
            }
            _ => {}
        }
    }

    /// Notes that the field at the path was removed.
    fn remove(&mut self) {
        self.removed.add(|| shortened(&self.path));
    }

    fn at_key(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        visit(self);
        self.path.truncate(length);
    }

    fn at_index(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        visit(self);
        self.path.truncate(length);
    }
}
