//! Small numbers for things that are compared and hashed all the time. They never leave the crate: what is shown is
//! sorted by names, so that the order of arrival leaves no trace.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// An object that exists or is referred to.
pub(crate) type ObjId = u32;
/// An object or one of its sections, as something that policies are attached to.
pub(crate) type LevelId = u32;
/// A merge group.
pub(crate) type GroupId = u32;

/// Numbers for values, each of which is held once.
#[derive(Debug, Clone)]
pub(crate) struct Interner<T> {
    by_value: HashMap<Arc<T>, u32>,
    values: Vec<Arc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            by_value: HashMap::new(),
            values: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    pub(crate) fn id(&mut self, value: &T) -> u32 {
        if let Some(id) = self.by_value.get(value) {
            return *id;
        }
        let id = self.values.len() as u32;
        let value = Arc::new(value.clone());
        self.by_value.insert(Arc::clone(&value), id);
        self.values.push(value);
        id
    }

    pub(crate) fn get(&self, value: &T) -> Option<u32> {
        self.by_value.get(value).copied()
    }

    pub(crate) fn value(&self, id: u32) -> &T {
        &self.values[id as usize]
    }
}
