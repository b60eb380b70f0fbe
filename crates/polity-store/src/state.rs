//! The state of a store at one revision, as one value, and the rules by which a write leads to the next state.
//!
//! Nothing here uses a disk, a clock or a thread: the writer computes the next state, makes it durable and then
//! publishes it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Change, CommitError, Event, Expect, HistoryError, Index, Object, Revision, SizeLimits,
    Snapshot, Write, history::History, record::Record, snapshot::Objects,
};

/// The objects and the recent past at one revision. Cheap to clone.
pub(crate) struct State<I> {
    pub(crate) revision: Revision,
    pub(crate) objects: Objects<I>,
    pub(crate) history: History<I>,
}

impl<I> Clone for State<I> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            objects: self.objects.clone(),
            history: self.history.clone(),
        }
    }
}

impl<I> State<I> {
    /// A state without objects and without events.
    pub(crate) fn empty(revision: Revision, floor: Revision) -> Self {
        Self {
            revision,
            objects: Objects::new(),
            history: History::new(floor),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot<I> {
        Snapshot::new(self.revision, self.objects.clone())
    }

    /// The objects of one bucket as they were at an earlier revision; the other buckets as they
    /// are.
    pub(crate) fn snapshot_of(
        &self,
        bucket: &str,
        revision: Revision,
    ) -> Result<Snapshot<I>, HistoryError> {
        self.check_reached(revision)?;
        self.history.check(bucket, revision)?;
        let mut objects = self.objects.clone();
        self.undo(&mut objects, bucket, revision);
        Ok(Snapshot::new(revision, objects))
    }

    /// All objects as they were at an earlier revision.
    pub(crate) fn snapshot_at(&self, revision: Revision) -> Result<Snapshot<I>, HistoryError> {
        self.check_reached(revision)?;
        let oldest = self.history.oldest();
        if revision < oldest {
            return Err(HistoryError::Compacted { oldest });
        }
        let mut objects = self.objects.clone();
        for bucket in self.history.buckets() {
            self.undo(&mut objects, bucket, revision);
        }
        Ok(Snapshot::new(revision, objects))
    }

    fn check_reached(&self, revision: Revision) -> Result<(), HistoryError> {
        if revision > self.revision {
            return Err(HistoryError::Future {
                newest: self.revision,
            });
        }
        Ok(())
    }

    fn undo(&self, objects: &mut Objects<I>, bucket: &str, revision: Revision) {
        for event in self.history.after(bucket, revision).rev() {
            match &event.previous {
                Some(previous) => objects.put(Arc::clone(previous)),
                None => objects.remove(&event.object.key),
            };
        }
    }
}

impl<I: Index> State<I> {
    /// Applies a write. On an error the state is unchanged.
    pub(crate) fn apply(
        &mut self,
        write: Write,
        now_millis: u64,
        sizes: &SizeLimits,
    ) -> Result<Arc<Event<I>>, CommitError<I>> {
        check_sizes(&write, sizes)?;
        let current = self.objects.get(&write.key).cloned();
        let deleted = matches!(write.change, Change::Delete(_));
        match (write.expect, current) {
            (Expect::Absent, Some(current)) => return Err(CommitError::Exists { current }),
            (Expect::Exactly(expected), Some(current)) if current.revision != expected => {
                return Err(CommitError::Changed {
                    key: write.key,
                    current: Some(current),
                });
            }
            (Expect::Exactly(_), None) => {
                return Err(CommitError::Changed {
                    key: write.key,
                    current: None,
                });
            }
            (Expect::Absent | Expect::Anything, None) if deleted => {
                return Err(CommitError::Missing { key: write.key });
            }
            (Expect::Absent | Expect::Anything, None)
            | (Expect::Exactly(_) | Expect::Anything, Some(_)) => {}
        }
        let revision = self.revision.next();
        let (Change::Put(payload) | Change::Delete(payload)) = write.change;
        let key = self.objects.intern(write.key);
        let bytes = payload.splice(revision);
        let created = self
            .objects
            .get(&key)
            .map_or(revision, |current| current.created);
        let index = I::index(&key, &bytes);
        let object = Arc::new(Object {
            key,
            bytes,
            revision,
            created,
            index,
        });
        self.revision = revision;
        Ok(self.record(object, deleted, now_millis, true))
    }

    /// Adds a version from the engine. Versions arrive in the order of their revisions.
    pub(crate) fn restore(
        &mut self,
        revision: Revision,
        record: &Record<'_>,
    ) -> Result<(), String> {
        let key = self.objects.intern(record.key());
        let newest = self.revision;
        let previous = self.objects.get(&key).map(|object| object.revision);
        let is_event = revision > self.history.dropped(&key.bucket);
        // The version before an event that is kept is kept as well. That of an older one may be
        // gone.
        if revision > newest || (is_event && previous != record.previous) {
            return Err(format!(
                "version {revision} of {key} does not follow from what is before it"
            ));
        }
        let object = Arc::new(Object {
            index: I::index(&key, record.bytes),
            key,
            bytes: Bytes::copy_from_slice(record.bytes),
            revision,
            created: record.created,
        });
        self.record(object, record.deleted, record.at_millis, is_event);
        Ok(())
    }

    /// Puts a version in its place and, if it is still an event, into the history.
    fn record(
        &mut self,
        object: Arc<Object<I>>,
        deleted: bool,
        at_millis: u64,
        is_event: bool,
    ) -> Arc<Event<I>> {
        let previous = if deleted {
            self.objects.remove(&object.key)
        } else {
            self.objects.put(Arc::clone(&object))
        };
        let event = Arc::new(Event {
            revision: object.revision,
            object,
            previous,
            deleted,
            at_millis,
        });
        if is_event {
            self.history.push(Arc::clone(&event));
        }
        event
    }
}

fn check_sizes<I>(write: &Write, sizes: &SizeLimits) -> Result<(), CommitError<I>> {
    let (Change::Put(payload) | Change::Delete(payload)) = &write.change;
    if payload.len() > sizes.value {
        return Err(CommitError::ValueTooLarge {
            size: payload.len(),
            limit: sizes.value,
        });
    }
    // The stored form counts the bytes of a part in 16 bits.
    let limit = sizes.key_part.min(usize::from(u16::MAX));
    let longest = [&write.key.bucket, &write.key.namespace, &write.key.name].map(|part| part.len());
    match longest.into_iter().max() {
        Some(size) if size > limit => Err(CommitError::KeyTooLong { size, limit }),
        _ => Ok(()),
    }
}
