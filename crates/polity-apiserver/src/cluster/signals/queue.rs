//! A work queue that contains each name at most once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Names that wait to be processed. Bounded by the number of existing names.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: Mutex<BTreeSet<T>>,
    bell: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(BTreeSet::new()),
            bell: Notify::new(),
        }
    }
}

impl<T: Ord> Queue<T> {
    pub fn push(&self, item: T) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(item);
        self.bell.notify_one();
    }

    /// The next name, as soon as there is one.
    pub async fn next(&self) -> T {
        loop {
            let first = self
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_first();
            match first {
                Some(item) => return item,
                None => self.bell.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_is_pushed_twice_is_processed_once() {
        let queue = Queue::default();
        for name in ["b", "a", "b"] {
            queue.push(name);
        }
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        queue.push("c");
        assert_eq!(queue.next().await, "c");
    }
}
