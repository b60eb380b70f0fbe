//! The work queue of the garbage collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::object::Stored;

/// If more changes are waiting, the collector checks all objects instead.
const INBOX_LIMIT: usize = 100_000;

/// Changes the collector has not seen yet.
#[derive(Debug, Default)]
pub struct GarbageInbox {
    changes: Mutex<Vec<(Stored, bool)>>,
    overflowed: AtomicBool,
    pub(crate) bell: Notify,
}

impl GarbageInbox {
    /// Records a commit. Any commit may affect owners or dependents.
    pub fn committed(&self, stored: &Stored, deleted: bool) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() < INBOX_LIMIT {
            changes.push((stored.clone(), deleted));
        } else {
            self.overflowed.store(true, Ordering::Relaxed);
        }
        drop(changes);
        self.bell.notify_one();
    }

    pub(crate) fn take(&self) -> (Vec<(Stored, bool)>, bool) {
        let changes =
            std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        (changes, self.overflowed.swap(false, Ordering::Relaxed))
    }
}
