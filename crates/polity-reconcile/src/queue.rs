//! A work queue with delays: each key waits once, and one worker at a time reconciles it.
//!
//! Every operation costs O(log n) of the keys that wait. kube-runtime's scheduler does the same on tokio's own clock;
//! this one takes the [`Clock`] of the process, so that tests can drive it, is filled from synchronous code, and counts
//! the failures of each key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polity_runtime::{Clock, Moment};
use tokio::sync::Notify;

use crate::requeue::{FailureBackoff, Requeue, resync_delay};

/// Keys to reconcile. Clones are the same queue.
#[derive(Debug)]
pub struct Queue<K>(Arc<Shared<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    clock: Clock,
    backoff: FailureBackoff,
    state: Mutex<State<K>>,
    changed: Notify,
}

/// A key is in `entries` while it waits or runs, and in `waiting` while it may be handed out.
#[derive(Debug)]
struct State<K> {
    entries: BTreeMap<K, Entry>,
    waiting: BTreeMap<Turn, K>,
    n_added: u64,
}

/// The order of the keys that wait: by time, then first come, first served.
type Turn = (Moment, u64);

#[derive(Debug, Default)]
struct Entry {
    turn: Option<Turn>,
    is_running: bool,
    n_failures: u32,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue whose failed keys come back after these delays.
    pub fn new(clock: Clock, backoff: FailureBackoff) -> Self {
        Self(Arc::new(Shared {
            clock,
            backoff,
            state: Mutex::new(State {
                entries: BTreeMap::new(),
                waiting: BTreeMap::new(),
                n_added: 0,
            }),
            changed: Notify::new(),
        }))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Queues a key for now.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Queues a key for later. The earliest of several times counts. A key that is being reconciled is handed out again
    /// after that reconcile.
    pub fn add_after(&self, key: K, delay: Duration) {
        let when = self.0.clock.moment() + delay;
        self.state().add(key, when);
        self.0.changed.notify_one();
    }

    /// Waits for a key that is due and hands it out. It must be given back with [`Self::finish`].
    pub async fn next(&self) -> K {
        loop {
            // Registered before the check, so that a key that is added in between is noticed.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let soonest = match self.take() {
                Ok(key) => return key,
                Err(soonest) => soonest,
            };
            match soonest {
                Some(when) => tokio::select! {
                    () = changed => {}
                    () = self.0.clock.sleep_until(when) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Gives a key back after its reconcile. Returns how often it has failed in a row.
    pub fn finish(&self, key: &K, requeue: Requeue) -> u32 {
        let now = self.0.clock.moment();
        let mut state = self.state();
        let n_failures = state.finish(key, requeue == Requeue::WithBackoff);
        let delay = match requeue {
            Requeue::Never => None,
            Requeue::After(delay) => Some(delay),
            Requeue::Slowly => Some(resync_delay()),
            Requeue::WithBackoff => Some(self.0.backoff.after(n_failures)),
        };
        match delay {
            Some(delay) => state.add(key.clone(), now + delay),
            None => state.forget_if_idle(key),
        }
        drop(state);
        self.0.changed.notify_one();
        n_failures
    }

    /// How many keys wait, those with a delay included.
    pub fn n_waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// A key that is due, or when the next one is.
    fn take(&self) -> Result<K, Option<Moment>> {
        let now = self.0.clock.moment();
        let mut state = self.state();
        let key = state.take(now)?;
        if !state.waiting.is_empty() {
            // This worker is busy now: another one must watch the time of the keys that remain.
            self.0.changed.notify_one();
        }
        Ok(key)
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // A panic elsewhere cannot leave the state half changed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K, when: Moment) {
        self.n_added += 1;
        let turn = (when, self.n_added);
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.turn {
            Some(before) if before.0 <= when => return,
            Some(before) => {
                self.waiting.remove(&before);
            }
            None => {}
        }
        entry.turn = Some(turn);
        if !entry.is_running {
            self.waiting.insert(turn, key);
        }
    }

    fn take(&mut self, now: Moment) -> Result<K, Option<Moment>> {
        let Some(first) = self.waiting.first_entry() else {
            return Err(None);
        };
        let (when, _) = *first.key();
        if when > now {
            return Err(Some(when));
        }
        let key = first.remove();
        let entry = self.entries.entry(key.clone()).or_default();
        entry.turn = None;
        entry.is_running = true;
        Ok(key)
    }

    fn finish(&mut self, key: &K, has_failed: bool) -> u32 {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.is_running = false;
        entry.n_failures = if has_failed {
            entry.n_failures.saturating_add(1)
        } else {
            0
        };
        let n_failures = entry.n_failures;
        if let Some(turn) = entry.turn {
            self.waiting.insert(turn, key.clone());
        }
        n_failures
    }

    fn forget_if_idle(&mut self, key: &K) {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.turn.is_none())
        {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
