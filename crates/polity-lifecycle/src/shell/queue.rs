//! A work queue with delays: each key is queued once, and handled by one worker at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polity_runtime::{Clock, Moment};
use tokio::sync::Notify;

/// Keys to reconcile. A key that is being reconciled is not handed out again before it is done.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    clock: Clock,
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    due: BTreeMap<K, Moment>,
    running: BTreeSet<K>,
}

impl<K: Ord + Clone> Queue<K> {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                due: BTreeMap::new(),
                running: BTreeSet::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Queues a key for now.
    pub(crate) fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Queues a key for later. The earliest of several times counts.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        let when = self.clock.moment() + delay;
        let mut state = self.state();
        let due = state.due.entry(key).or_insert(when);
        *due = (*due).min(when);
        drop(state);
        self.changed.notify_waiters();
    }

    /// The next key that is due; waits for one.
    pub(crate) async fn next(&self) -> K {
        loop {
            // Registered before the check, so that a key added in between is noticed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let soonest = match self.take() {
                Ok(key) => return key,
                Err(soonest) => soonest,
            };
            match soonest {
                Some(when) => tokio::select! {
                    () = changed => {}
                    () = self.clock.sleep_until(when) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Marks a key as handled.
    pub(crate) fn done(&self, key: &K) {
        self.state().running.remove(key);
        self.changed.notify_waiters();
    }

    /// A key that is due, or when the next one is.
    fn take(&self) -> Result<K, Option<Moment>> {
        let now = self.clock.moment();
        let mut state = self.state();
        let State { due, running } = &mut *state;
        let waiting = due.iter().filter(|(key, _)| !running.contains(key));
        let Some((key, when)) = waiting.min_by_key(|(_, when)| **when) else {
            return Err(None);
        };
        if *when > now {
            return Err(Some(*when));
        }
        let key = key.clone();
        due.remove(&key);
        running.insert(key.clone());
        Ok(key)
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // A panic elsewhere cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_key_once_and_one_at_a_time() {
        let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let queue = Queue::new(clock.clone());
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "b", "a is being looked at");
        assert_eq!(queue.take(), Err(None));
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test]
    async fn no_sooner_than_asked_and_the_soonest_counts() {
        let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let queue = Queue::new(clock.clone());
        queue.add_after("late", Duration::from_mins(1));
        queue.add_after("late", Duration::from_mins(2));
        queue.add_after("later", Duration::from_mins(3));
        let (key, ()) = tokio::join!(queue.next(), async {
            clock.wait_for_sleepers(1).await;
            clock.advance(Duration::from_mins(1));
        });
        assert_eq!(key, "late");
        queue.add("later");
        assert_eq!(queue.next().await, "later");
    }
}
