//! The recent history of each bucket, in the same kind of persistent maps as the objects.
//!
//! All watchers read from one history, and each event is created once and shared. A watcher is only a position in it,
//! so a slow one costs nothing and delays no other reader. When events that it has not seen are dropped, it detects
//! that at its next read.

use std::{fmt, ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;

use crate::{HistoryError, HistoryLimits, Object, Revision};

/// One committed write, as watchers see it.
pub struct Event<I> {
    /// The write's revision, which is also the object's.
    pub revision: Revision,
    /// The version that was written; of a deletion, the last state with the deletion's own
    /// revision.
    pub object: Arc<Object<I>>,
    /// The previous version, if there was one.
    pub previous: Option<Arc<Object<I>>>,
    /// Whether the object was removed.
    pub deleted: bool,
    /// When it was written, in milliseconds since 1970.
    pub(crate) at_millis: u64,
}

impl<I> fmt::Debug for Event<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("object", &self.object)
            .field("previous", &self.previous)
            .field("deleted", &self.deleted)
            .finish_non_exhaustive()
    }
}

/// The events of all buckets.
pub(crate) struct History<I> {
    buckets: RedBlackTreeMapSync<Arc<str>, Past<I>>,
    /// The oldest revision after an explicit compaction. Earlier events are hidden even if they are still in memory.
    floor: Revision,
}

/// The events of one bucket.
struct Past<I> {
    events: RedBlackTreeMapSync<Revision, Arc<Event<I>>>,
    /// The bytes of the versions in `events`.
    n_bytes: usize,
    /// The newest event that was dropped: the past is complete after it.
    dropped: Revision,
}

impl<I> History<I> {
    pub(crate) fn new(floor: Revision) -> Self {
        Self {
            buckets: RedBlackTreeMapSync::new_sync(),
            floor,
        }
    }

    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The newest event that was dropped from a bucket.
    pub(crate) fn dropped(&self, bucket: &str) -> Revision {
        self.buckets
            .get(bucket)
            .map_or(Revision(0), |past| past.dropped)
    }

    /// The oldest available revision of a bucket.
    pub(crate) fn oldest_of(&self, bucket: &str) -> Revision {
        self.dropped(bucket).max(self.floor)
    }

    /// The oldest available revision of the whole store.
    pub(crate) fn oldest(&self) -> Revision {
        self.buckets
            .values()
            .map(|past| past.dropped)
            .fold(self.floor, Revision::max)
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.buckets.keys()
    }

    /// Whether the events of a bucket after a revision are all here.
    pub(crate) fn check(&self, bucket: &str, after: Revision) -> Result<(), HistoryError> {
        let oldest = self.oldest_of(bucket);
        if after < oldest {
            Err(HistoryError::Compacted { oldest })
        } else {
            Ok(())
        }
    }

    /// The events of a bucket after a revision, oldest first.
    pub(crate) fn after(
        &self,
        bucket: &str,
        after: Revision,
    ) -> impl DoubleEndedIterator<Item = &Arc<Event<I>>> + use<'_, I> {
        self.buckets
            .get(bucket)
            .into_iter()
            .flat_map(move |past| {
                past.events
                    .range((Bound::Excluded(after), Bound::Unbounded))
            })
            .map(|(_, event)| event)
    }

    pub(crate) fn push(&mut self, event: Arc<Event<I>>) {
        let past = self.past_mut(&event.object.key.bucket);
        past.n_bytes += event.object.bytes.len();
        past.events.insert_mut(event.revision, event);
    }

    /// Notes, while loading, up to where a bucket's past is gone.
    pub(crate) fn set_dropped(&mut self, bucket: &Arc<str>, dropped: Revision) {
        self.past_mut(bucket).dropped = dropped;
    }

    /// Drops everything up to and including a revision, regardless of the limits.
    pub(crate) fn forget(&mut self, up_to: Revision) -> Vec<Arc<Event<I>>> {
        self.floor = self.floor.max(up_to);
        self.drop_where(usize::MAX, |_, event| event.revision <= up_to)
    }

    /// Drops events beyond the limits, the oldest first, at most `most` events.
    pub(crate) fn enforce(
        &mut self,
        limits: &HistoryLimits,
        now_millis: u64,
        most: usize,
    ) -> Vec<Arc<Event<I>>> {
        let keep_millis = u64::try_from(limits.keep.as_millis()).unwrap_or(u64::MAX);
        self.drop_where(most, |past, event| {
            let n_events = past.events.size();
            n_events > limits.at_least
                && (n_events > limits.per_bucket
                    || past.n_bytes > limits.bytes_per_bucket
                    || now_millis.saturating_sub(event.at_millis) > keep_millis)
        })
    }

    /// Drops from each bucket its oldest events as long as the condition holds for the oldest one
    /// left.
    fn drop_where(
        &mut self,
        mut most: usize,
        condition: impl Fn(&Past<I>, &Event<I>) -> bool,
    ) -> Vec<Arc<Event<I>>> {
        let is_due = |past: &Past<I>| {
            past.events
                .first()
                .is_some_and(|(_, event)| condition(past, event))
        };
        let due: Vec<_> = self
            .buckets
            .iter()
            .filter(|(_, past)| is_due(past))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let mut gone = Vec::new();
        for bucket in due {
            let past = self.past_mut(&bucket);
            while most > 0 && is_due(past) {
                gone.extend(past.drop_oldest());
                most -= 1;
            }
        }
        gone
    }

    fn past_mut(&mut self, bucket: &Arc<str>) -> &mut Past<I> {
        if !self.buckets.contains_key(&**bucket) {
            self.buckets.insert_mut(Arc::clone(bucket), Past::new());
        }
        self.buckets
            .get_mut(&**bucket)
            .expect("the bucket was put there above")
    }
}

impl<I> Clone for History<I> {
    fn clone(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            floor: self.floor,
        }
    }
}

impl<I> Past<I> {
    fn new() -> Self {
        Self {
            events: RedBlackTreeMapSync::new_sync(),
            n_bytes: 0,
            dropped: Revision(0),
        }
    }

    fn drop_oldest(&mut self) -> Option<Arc<Event<I>>> {
        let event = Arc::clone(self.events.first()?.1);
        self.events.remove_mut(&event.revision);
        self.n_bytes -= event.object.bytes.len();
        self.dropped = event.revision;
        Some(event)
    }
}

impl<I> Clone for Past<I> {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
            n_bytes: self.n_bytes,
            dropped: self.dropped,
        }
    }
}
