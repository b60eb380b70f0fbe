//! The objects of watches as plain values in memory, with an index.
//!
//! A [`Cache`] holds what a controller needs of each object, not the object itself. [`SharedCache`] is a cache that
//! watches fill and reconciles read; no lock of it is held over an `.await`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;

/// Values by key, with an index that several keys can share an entry of.
///
/// One function gives all index entries of a value. A cache with several indexes has an enum as `I`, with a variant for
/// each of them.
///
/// ```
/// use polity_reconcile::Cache;
///
/// let mut servers_of_policies = Cache::new(|_: &&str, server: &&str| vec![*server]);
/// assert!(servers_of_policies.apply("policy-1", "default").is_some());
/// assert!(servers_of_policies.apply("policy-1", "default").is_none(), "nothing changed");
/// servers_of_policies.apply("policy-2", "default");
/// let found: Vec<_> = servers_of_policies.find(&"default").collect();
/// assert_eq!(found, [&"policy-1", &"policy-2"]);
/// ```
#[derive(Debug, Clone)]
pub struct Cache<K, V, I = ()> {
    values: BTreeMap<K, V>,
    index: BTreeMap<I, BTreeSet<K>>,
    entries_of: fn(&K, &V) -> Vec<I>,
    version_of: fn(&V) -> Option<u128>,
    n_changes: u64,
}

/// A change of one value of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<K, V> {
    /// The key of the value.
    pub key: K,
    /// The value before, if there was one.
    pub before: Option<V>,
    /// The value now; `None` after a deletion.
    pub now: Option<V>,
}

impl<K, V> Default for Cache<K, V, ()> {
    /// An empty cache without an index.
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            index: BTreeMap::new(),
            entries_of: |_, _| Vec::new(),
            version_of: |_| None,
            n_changes: 0,
        }
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone, I: Ord> Cache<K, V, I> {
    /// An empty cache. `entries_of` gives the index entries of a value.
    pub fn new(entries_of: fn(&K, &V) -> Vec<I>) -> Self {
        Self {
            values: BTreeMap::new(),
            index: BTreeMap::new(),
            entries_of,
            version_of: |_| None,
            n_changes: 0,
        }
    }

    /// Ignores values that are older than the one that is there: a watch lags behind the answers to the writes of this
    /// process. `version_of` gives the resource version of a value as a number; see [`resource_version`]. Where one of
    /// two values has none, the later one counts.
    #[must_use]
    pub fn newest_by(mut self, version_of: fn(&V) -> Option<u128>) -> Self {
        self.version_of = version_of;
        self
    }

    /// Adds or replaces a value; `None` when it is the same as before, or older.
    pub fn apply(&mut self, key: K, value: V) -> Option<Change<K, V>> {
        let is_known = |known: &V| *known == value || self.is_newer(known, &value);
        if self.values.get(&key).is_some_and(is_known) {
            return None;
        }
        let before = self.remove(&key);
        self.n_changes += 1;
        for entry in (self.entries_of)(&key, &value) {
            self.index.entry(entry).or_default().insert(key.clone());
        }
        self.values.insert(key.clone(), value.clone());
        Some(Change {
            key,
            before,
            now: Some(value),
        })
    }

    /// Replaces a value that is there, as with the answer to a write of this process. A deleted object is not added
    /// again.
    pub fn refresh(&mut self, key: K, value: V) -> Option<Change<K, V>> {
        if self.values.contains_key(&key) {
            self.apply(key, value)
        } else {
            None
        }
    }

    /// Removes a value; `None` when there is none.
    pub fn delete(&mut self, key: &K) -> Option<Change<K, V>> {
        let before = self.remove(key)?;
        self.n_changes += 1;
        Some(Change {
            key: key.clone(),
            before: Some(before),
            now: None,
        })
    }

    /// Replaces all values whose key is in scope, as after a list of one kind. Returns what changed: a value that is not
    /// listed any more is deleted.
    pub fn reset(
        &mut self,
        is_in_scope: impl Fn(&K) -> bool,
        all: BTreeMap<K, V>,
    ) -> Vec<Change<K, V>> {
        let known = self.values.keys();
        let gone = known.filter(|key| is_in_scope(key) && !all.contains_key(*key));
        let gone: Vec<K> = gone.cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| self.delete(key)).collect();
        changes.extend(
            all.into_iter()
                .filter_map(|(key, value)| self.apply(key, value)),
        );
        changes
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.values.iter()
    }

    /// The keys that have this index entry.
    pub fn find(&self, entry: &I) -> impl Iterator<Item = &K> {
        self.index.get(entry).into_iter().flatten()
    }

    fn is_newer(&self, one: &V, other: &V) -> bool {
        match ((self.version_of)(one), (self.version_of)(other)) {
            (Some(one), Some(other)) => one > other,
            _ => false,
        }
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.values.remove(key)?;
        for entry in (self.entries_of)(key, &value) {
            if let Some(keys) = self.index.get_mut(&entry) {
                keys.remove(key);
                if keys.is_empty() {
                    self.index.remove(&entry);
                }
            }
        }
        Some(value)
    }
}

/// The resource version of an object as a number; `None` for API servers whose versions cannot be compared.
pub fn resource_version(metadata: &ObjectMeta) -> Option<u128> {
    metadata.resource_version.as_ref()?.parse().ok()
}

/// A cache that watches fill and reconciles read. Clones are the same cache.
#[derive(Debug)]
pub struct SharedCache<K, V, I = ()> {
    cache: Arc<Mutex<Cache<K, V, I>>>,
    changed: Arc<watch::Sender<()>>,
    /// How many of the watches that fill it have not listed their objects yet.
    n_unlisted: Arc<watch::Sender<usize>>,
}

impl<K, V, I> Clone for SharedCache<K, V, I> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            changed: self.changed.clone(),
            n_unlisted: self.n_unlisted.clone(),
        }
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone, I: Ord> SharedCache<K, V, I> {
    /// Shares a cache.
    pub fn new(cache: Cache<K, V, I>) -> Self {
        Self {
            cache: Arc::new(Mutex::new(cache)),
            changed: Arc::new(watch::Sender::new(())),
            n_unlisted: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Reads the cache.
    pub fn read<T>(&self, read: impl FnOnce(&Cache<K, V, I>) -> T) -> T {
        read(&self.lock())
    }

    /// Changes the cache.
    pub fn write<T>(&self, write: impl FnOnce(&mut Cache<K, V, I>) -> T) -> T {
        let mut cache = self.lock();
        let n_before = cache.n_changes;
        let result = write(&mut cache);
        let has_changed = cache.n_changes != n_before;
        drop(cache);
        if has_changed {
            self.changed.send_replace(());
        }
        result
    }

    /// Is notified when a value changes, and when the first list of all watches is complete.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether every watch that fills this cache has listed its objects once. Before that, a missing value does not mean a
    /// deleted object.
    pub fn is_listed(&self) -> bool {
        *self.n_unlisted.borrow() == 0
    }

    /// Waits until every watch that fills this cache has listed its objects once. A controller that deletes what it does
    /// not find in a cache must wait for this first.
    pub async fn listed(&self) {
        let mut n_unlisted = self.n_unlisted.subscribe();
        // The sender lives as long as this handle.
        let _ = n_unlisted.wait_for(|n| *n == 0).await;
    }

    /// Notes that one more watch fills this cache.
    pub(crate) fn expect_list(&self) {
        self.n_unlisted.send_modify(|n| *n += 1);
    }

    /// Notes that such a watch has listed its objects for the first time.
    pub(crate) fn has_listed(&self) {
        self.n_unlisted.send_modify(|n| *n = n.saturating_sub(1));
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Cache<K, V, I>> {
        // Every change of a cache is complete or has not begun.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Kinded = (&'static str, u8);

    /// Values indexed by their first letter.
    fn cache() -> Cache<Kinded, &'static str, char> {
        Cache::new(|_, value| value.chars().take(1).collect())
    }

    fn change(
        key: Kinded,
        before: Option<&'static str>,
        now: Option<&'static str>,
    ) -> Change<Kinded, &'static str> {
        Change { key, before, now }
    }

    fn found(cache: &Cache<Kinded, &'static str, char>, letter: char) -> Vec<Kinded> {
        cache.find(&letter).copied().collect()
    }

    #[test]
    fn every_change_is_reported_once_and_moves_the_index() {
        let mut cache = cache();
        let a = ("pod", 1);
        assert_eq!(cache.apply(a, "x1"), Some(change(a, None, Some("x1"))));
        assert_eq!(cache.apply(a, "x1"), None);
        assert_eq!(found(&cache, 'x'), [a]);
        assert_eq!(
            cache.apply(a, "y1"),
            Some(change(a, Some("x1"), Some("y1")))
        );
        assert_eq!((found(&cache, 'x'), found(&cache, 'y')), (vec![], vec![a]));
        assert_eq!(cache.delete(&a), Some(change(a, Some("y1"), None)));
        assert_eq!(cache.delete(&a), None);
        assert!(cache.values.is_empty() && cache.index.is_empty());
    }

    #[test]
    fn a_list_deletes_what_it_lacks_and_leaves_other_kinds_alone() {
        let mut cache = cache();
        for (key, value) in [
            (("pod", 1), "a"),
            (("pod", 2), "b"),
            (("pod", 3), "c"),
            (("set", 1), "d"),
        ] {
            cache.apply(key, value);
        }
        let listed = [(("pod", 2), "b"), (("pod", 3), "c2"), (("pod", 4), "e")];
        let changes = cache.reset(|(kind, _)| *kind == "pod", listed.into());
        let expected = [
            change(("pod", 1), Some("a"), None),
            change(("pod", 3), Some("c"), Some("c2")),
            change(("pod", 4), None, Some("e")),
        ];
        assert_eq!(changes, expected);
        let all: Vec<_> = cache.iter().map(|(key, value)| (*key, *value)).collect();
        let expected = [
            (("pod", 2), "b"),
            (("pod", 3), "c2"),
            (("pod", 4), "e"),
            (("set", 1), "d"),
        ];
        assert_eq!(all, expected);
        assert_eq!(found(&cache, 'd'), [("set", 1)]);
    }

    /// Values `version:text`.
    fn versioned() -> Cache<u8, &'static str> {
        Cache::default().newest_by(|value| value.split(':').next()?.parse().ok())
    }

    #[test]
    fn older_values_change_nothing() {
        let mut cache = versioned();
        cache.reset(|_| true, [(1, "5:a")].into());
        assert!(cache.refresh(1, "7:b").is_some());
        assert!(cache.apply(1, "6:a").is_none(), "the watch is behind");
        let list = cache.reset(|_| true, [(1, "6:a")].into());
        assert!(list.is_empty(), "so is a list");
        assert!(cache.apply(1, "8:c").is_some());
        assert!(
            cache.apply(1, "x:d").is_some(),
            "no number: the later one counts"
        );
        assert!(cache.apply(1, "1:e").is_some());
    }

    #[test]
    fn a_deleted_value_is_not_refreshed() {
        let mut cache = versioned();
        cache.apply(1, "5:a");
        cache.delete(&1);
        assert!(cache.refresh(1, "6:b").is_none());
        assert_eq!(cache.get(&1), None);
    }

    #[test]
    fn readers_are_notified_of_changes_only() {
        let cache = SharedCache::new(versioned());
        cache.expect_list();
        let mut reader = cache.subscribe();
        cache.write(|cache| cache.apply(1, "5:a"));
        assert!(reader.has_changed().unwrap());
        reader.mark_unchanged();
        cache.write(|cache| {
            cache.apply(1, "5:a");
            cache.apply(1, "4:b");
            cache.delete(&9);
        });
        assert!(!reader.has_changed().unwrap());
        assert!(!cache.is_listed());
        cache.has_listed();
        assert!(reader.has_changed().unwrap() && cache.is_listed());
    }

    #[tokio::test]
    async fn a_cache_is_listed_when_all_its_watches_have_listed() {
        let cache = SharedCache::new(cache());
        cache.listed().await;
        cache.expect_list();
        cache.expect_list();
        cache.has_listed();
        let mut listed = Box::pin(cache.listed());
        assert!(futures::poll!(&mut listed).is_pending());
        cache.has_listed();
        listed.await;
    }
}
