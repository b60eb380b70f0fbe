//! All objects at one revision, in persistent maps: taking a copy is constant time, changing one
//! copies a path.

use std::{ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;

use crate::{Key, Object, Revision};

type Names<I> = RedBlackTreeMapSync<Arc<str>, Arc<Object<I>>>;

/// All objects as they were at one revision.
pub struct Snapshot<I> {
    revision: Revision,
    objects: Objects<I>,
}

/// The live objects, by bucket, namespace and name.
pub(crate) struct Objects<I> {
    buckets: RedBlackTreeMapSync<Arc<str>, Bucket<I>>,
}

struct Bucket<I> {
    namespaces: RedBlackTreeMapSync<Arc<str>, Names<I>>,
    n_objects: usize,
}

impl<I> Snapshot<I> {
    pub(crate) fn new(revision: Revision, objects: Objects<I>) -> Self {
        Self { revision, objects }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The object of this name.
    pub fn get(&self, key: &Key) -> Option<&Arc<Object<I>>> {
        self.objects.get(key)
    }

    /// The objects of a bucket in the order of their keys: all, or those of one namespace; from the
    /// start, or those after the key with this namespace and name, which need not exist.
    pub fn range<'a>(
        &'a self,
        bucket: &str,
        namespace: Option<&'a str>,
        after: Option<(&'a str, &'a str)>,
    ) -> impl Iterator<Item = &'a Arc<Object<I>>> + use<'a, I> {
        let bucket = self.objects.buckets.get(bucket);
        let (one, all) = match namespace {
            Some(namespace) => (
                bucket.and_then(|bucket| bucket.namespaces.get_key_value(namespace)),
                None,
            ),
            None => (None, bucket),
        };
        let start = after.map_or(Bound::Unbounded, |(namespace, _)| {
            Bound::Included(namespace)
        });
        let all = all.map(|bucket| bucket.namespaces.range::<str, _>((start, Bound::Unbounded)));
        let namespaces = one.into_iter().chain(all.into_iter().flatten());
        namespaces.flat_map(move |(namespace, names)| {
            let start = match after {
                Some((last, _)) if &**namespace < last => return None.into_iter().flatten(),
                Some((last, name)) if &**namespace == last => Bound::Excluded(name),
                _ => Bound::Unbounded,
            };
            Some(
                names
                    .range::<str, _>((start, Bound::Unbounded))
                    .map(|(_, object)| object),
            )
            .into_iter()
            .flatten()
        })
    }

    /// How many objects a bucket has, in all or in one namespace. Constant time.
    pub fn count(&self, bucket: &str, namespace: Option<&str>) -> usize {
        let Some(bucket) = self.objects.buckets.get(bucket) else {
            return 0;
        };
        match namespace {
            Some(namespace) => bucket.namespaces.get(namespace).map_or(0, Names::size),
            None => bucket.n_objects,
        }
    }

    /// The buckets that have objects, in order.
    pub fn buckets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.objects.buckets.keys()
    }
}

impl<I> Clone for Snapshot<I> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            objects: self.objects.clone(),
        }
    }
}

impl<I> Objects<I> {
    pub(crate) fn new() -> Self {
        Self {
            buckets: RedBlackTreeMapSync::new_sync(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object<I>>> {
        self.buckets
            .get(&*key.bucket)?
            .namespaces
            .get(&*key.namespace)?
            .get(&*key.name)
    }

    /// The same key, with the texts that are here already instead of copies of them.
    pub(crate) fn intern(&self, mut key: Key) -> Key {
        if let Some((name, bucket)) = self.buckets.get_key_value(&*key.bucket) {
            key.bucket = Arc::clone(name);
            if let Some((name, names)) = bucket.namespaces.get_key_value(&*key.namespace) {
                key.namespace = Arc::clone(name);
                if let Some((name, _)) = names.get_key_value(&*key.name) {
                    key.name = Arc::clone(name);
                }
            }
        }
        key
    }

    /// Stores a version under its key and returns the previous one.
    pub(crate) fn put(&mut self, object: Arc<Object<I>>) -> Option<Arc<Object<I>>> {
        let key = &object.key;
        if !self.buckets.contains_key(&*key.bucket) {
            self.buckets
                .insert_mut(Arc::clone(&key.bucket), Bucket::new());
        }
        let bucket = self
            .buckets
            .get_mut(&*key.bucket)
            .expect("the bucket was put there above");
        if !bucket.namespaces.contains_key(&*key.namespace) {
            bucket
                .namespaces
                .insert_mut(Arc::clone(&key.namespace), Names::new_sync());
        }
        let names = bucket
            .namespaces
            .get_mut(&*key.namespace)
            .expect("the namespace was put there above");
        let previous = names.get(&*key.name).cloned();
        bucket.n_objects += usize::from(previous.is_none());
        names.insert_mut(Arc::clone(&key.name), object);
        previous
    }

    /// Removes the object under a key and returns it. Maps that become empty are removed too.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Object<I>>> {
        let previous = Arc::clone(self.get(key)?);
        let bucket = self.buckets.get_mut(&*key.bucket)?;
        let names = bucket.namespaces.get_mut(&*key.namespace)?;
        names.remove_mut(&*key.name);
        if names.is_empty() {
            bucket.namespaces.remove_mut(&*key.namespace);
        }
        bucket.n_objects -= 1;
        if bucket.n_objects == 0 {
            self.buckets.remove_mut(&*key.bucket);
        }
        Some(previous)
    }
}

impl<I> Clone for Objects<I> {
    fn clone(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
        }
    }
}

impl<I> Bucket<I> {
    fn new() -> Self {
        Self {
            namespaces: RedBlackTreeMapSync::new_sync(),
            n_objects: 0,
        }
    }
}

impl<I> Clone for Bucket<I> {
    fn clone(&self) -> Self {
        Self {
            namespaces: self.namespaces.clone(),
            n_objects: self.n_objects,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(keys: &[(&str, &str, &str)]) -> Snapshot<()> {
        let mut objects = Objects::new();
        for (bucket, namespace, name) in keys {
            objects.put(Arc::new(Object {
                key: Key::new(*bucket, *namespace, *name),
                bytes: bytes::Bytes::new(),
                revision: Revision(2),
                created: Revision(2),
                index: (),
            }));
        }
        Snapshot::new(Revision(2), objects)
    }

    #[test]
    fn a_range_starts_after_a_key_and_stays_in_its_namespace() {
        let snapshot = snapshot(&[
            ("pods", "a", "1"),
            ("pods", "a", "2"),
            ("pods", "b", "1"),
            ("pods", "c", "0"),
            ("pods", "", "x"),
            ("nodes", "", "n"),
        ]);
        type After = Option<(&'static str, &'static str)>;
        let cases: [(Option<&str>, After, &[&str]); 11] = [
            (None, None, &["/x", "a/1", "a/2", "b/1", "c/0"]),
            (None, Some(("a", "1")), &["a/2", "b/1", "c/0"]),
            (None, Some(("a", "11")), &["a/2", "b/1", "c/0"]),
            (None, Some(("a", "3")), &["b/1", "c/0"]),
            (None, Some(("aa", "")), &["b/1", "c/0"]),
            (None, Some(("z", "")), &[]),
            (Some("a"), None, &["a/1", "a/2"]),
            (Some("a"), Some(("a", "1")), &["a/2"]),
            (Some("b"), Some(("a", "1")), &["b/1"]),
            (Some("a"), Some(("b", "1")), &[]),
            (Some("none"), None, &[]),
        ];
        for (namespace, after, expected) in cases {
            let found: Vec<_> = snapshot
                .range("pods", namespace, after)
                .map(|object| format!("{}/{}", object.key.namespace, object.key.name))
                .collect();
            assert_eq!(found, expected, "{namespace:?} after {after:?}");
        }
        assert_eq!(snapshot.range("none", None, None).count(), 0);
    }

    #[test]
    fn counts_follow_puts_and_removals_and_nothing_empty_stays() {
        let mut objects =
            snapshot(&[("pods", "a", "1"), ("pods", "a", "1"), ("pods", "b", "1")]).objects;
        let count = |objects: &Objects<()>, namespace| {
            Snapshot::new(Revision(3), objects.clone()).count("pods", namespace)
        };
        assert_eq!((count(&objects, None), count(&objects, Some("a"))), (2, 1));
        assert!(objects.remove(&Key::new("pods", "a", "1")).is_some());
        assert!(objects.remove(&Key::new("pods", "a", "1")).is_none());
        assert_eq!((count(&objects, None), count(&objects, Some("a"))), (1, 0));
        assert!(objects.remove(&Key::new("pods", "b", "1")).is_some());
        assert_eq!(Snapshot::new(Revision(3), objects).buckets().count(), 0);
    }
}
