//! Deduplicates concurrent work: callers with the same key wait for the same result.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

/// Running work by key. A result is dropped when its last caller has it.
#[derive(Debug)]
pub(super) struct InFlight<K, V>(Mutex<HashMap<K, Weak<OnceCell<V>>>>);

impl<K, V> Default for InFlight<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> InFlight<K, V> {
    /// Does the work, or waits for the caller that does it already. If that caller is cancelled, a waiting one takes
    /// over.
    pub(super) async fn once<F: Future<Output = V>>(&self, key: K, work: impl FnOnce() -> F) -> V {
        let cell = self.join(key);
        cell.get_or_init(work).await.clone()
    }

    fn join(&self, key: K) -> Arc<OnceCell<V>> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|_, cell| cell.strong_count() > 0);
        if let Some(cell) = cells.get(&key).and_then(Weak::upgrade) {
            return cell;
        }
        let cell = Arc::new(OnceCell::new());
        cells.insert(key, Arc::downgrade(&cell));
        cell
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_is_done_once_for_all_waiters() {
        let flights = InFlight::<&str, usize>::default();
        let n_done = AtomicUsize::new(0);
        let work = || async {
            tokio::task::yield_now().await;
            n_done.fetch_add(1, Ordering::Relaxed)
        };
        let (a, b, c) = tokio::join!(
            flights.once("a", work),
            flights.once("a", work),
            flights.once("c", work)
        );
        assert_eq!((a, b), (a, a));
        assert_ne!(a, c);
        assert_eq!(n_done.load(Ordering::Relaxed), 2);
        flights.once("a", work).await;
        assert_eq!(n_done.load(Ordering::Relaxed), 3, "nothing is remembered");
    }

    #[tokio::test]
    async fn a_waiter_takes_over_cancelled_work() {
        let flights = Arc::new(InFlight::<&str, &str>::default());
        let started = Arc::new(Notify::new());
        let first = tokio::spawn({
            let (flights, started) = (flights.clone(), started.clone());
            async move {
                flights
                    .once("a", || async {
                        started.notify_one();
                        std::future::pending().await
                    })
                    .await
            }
        });
        started.notified().await;
        let second = flights.once("a", || async { "second" });
        first.abort();
        assert_eq!(second.await, "second");
    }
}
