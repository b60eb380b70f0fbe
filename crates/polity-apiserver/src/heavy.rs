//! Keeps large synchronous work off the async workers.
//!
//! Decoding, validating, patching and encoding are synchronous and take time in proportion to their input. A request
//! with a large body or a large response would delay every other request on the same worker, including health checks.
//! Such a request is polled where it may block: the runtime moves the worker's other tasks to another thread for the
//! time of the poll.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::thread;

use polity_store::Snapshot;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tokio_util::sync::PollSemaphore;

/// Input from this size on is large: some milliseconds of work.
pub(crate) const LARGE_BYTES: usize = 64 * 1024;

/// A list with this many objects is large.
const LARGE_COUNT: usize = 500;

/// Whether a bucket, or one namespace of it, has many objects or many bytes. Checks at most [`LARGE_COUNT`] objects.
pub(crate) fn is_large_list<I>(
    snapshot: &Snapshot<I>,
    bucket: &str,
    namespace: Option<&str>,
) -> bool {
    if snapshot.count(bucket, namespace) >= LARGE_COUNT {
        return true;
    }
    let mut n_bytes = 0;
    snapshot.range(bucket, namespace, None).any(|object| {
        n_bytes += object.bytes.len();
        n_bytes >= LARGE_BYTES
    })
}

/// How many large requests compute at the same time, in the whole process. A permit is held for one
/// poll and never while a request waits, so requests that wait for each other do not block.
static SLOTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(n_slots())));

fn n_slots() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The slots of each user that has large requests: one less than there are in all, so that the requests of one user do
/// not hold up those of others.
static SLOTS_OF_USERS: LazyLock<Mutex<HashMap<String, Weak<Semaphore>>>> =
    LazyLock::new(Mutex::default);

/// How many users are remembered before those without large requests are forgotten.
const REMEMBERED_USERS: usize = 256;

/// Runs a future of this user whose polls may take long.
pub(crate) async fn run<F: Future>(user: &str, future: F) -> F::Output {
    run_within(slots_of(user), Arc::clone(&SLOTS), future).await
}

fn slots_of(user: &str) -> Arc<Semaphore> {
    let mut users = SLOTS_OF_USERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(slots) = users.get(user).and_then(Weak::upgrade) {
        return slots;
    }
    if users.len() >= REMEMBERED_USERS {
        users.retain(|_, slots| slots.strong_count() > 0);
    }
    let slots = Arc::new(Semaphore::new(n_slots().saturating_sub(1).max(1)));
    users.insert(user.to_owned(), Arc::downgrade(&slots));
    slots
}

async fn run_within<F: Future>(
    of_user: Arc<Semaphore>,
    of_all: Arc<Semaphore>,
    future: F,
) -> F::Output {
    let (mut of_user, mut of_all) = (PollSemaphore::new(of_user), PollSemaphore::new(of_all));
    let mut permit_of_user = None;
    let mut future = pin!(future);
    poll_fn(|context| {
        if permit_of_user.is_none() {
            permit_of_user = ready!(of_user.poll_acquire(context));
        }
        let permit = ready!(of_all.poll_acquire(context));
        let outcome = may_block(context, |context| future.as_mut().poll(context));
        drop(permit);
        permit_of_user = None;
        outcome
    })
    .await
}

fn may_block<T>(
    context: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    // A runtime with a single thread has no other thread for its tasks.
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        block_in_place(|| poll(context))
    } else {
        poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use polity_store::{Change, Expect, Key, Options, Payload, Store, Write};

    use super::*;

    /// Stores objects of this size in the namespace `a`, and one small object in `b`.
    async fn snapshot(n_objects: usize, n_bytes: usize) -> Snapshot<()> {
        let store = Store::open(&Options::memory()).unwrap();
        let put = |namespace: &str, name: usize, n_bytes: usize| Write {
            key: Key::new("maps", namespace, name.to_string()),
            expect: Expect::Absent,
            change: Change::Put(Payload {
                before: vec![b'x'; n_bytes],
                after: Vec::new(),
            }),
        };
        for name in 0..n_objects {
            store.commit(put("a", name, n_bytes)).await.unwrap();
        }
        store.commit(put("b", 0, 1)).await.unwrap();
        let snapshot = store.current();
        store.close().await;
        snapshot
    }

    #[tokio::test]
    async fn a_list_is_large_by_its_number_of_objects_or_by_their_size() {
        for (n_objects, n_bytes, expected) in [
            (10, 100, false),
            (LARGE_COUNT, 1, true),
            (1, LARGE_BYTES, true),
            (10, LARGE_BYTES / 10, true),
        ] {
            let snapshot = snapshot(n_objects, n_bytes).await;
            let is_large = |namespace| is_large_list(&snapshot, "maps", namespace);
            assert_eq!(is_large(Some("a")), expected, "{n_objects} of {n_bytes}");
            assert_eq!(is_large(None), expected, "{n_objects} of {n_bytes}");
            assert!(!is_large(Some("b")) && !is_large(Some("none")));
        }
    }

    /// More slots than any test has requests.
    fn any() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(100))
    }

    #[tokio::test]
    async fn a_user_with_many_large_requests_does_not_hold_up_another_user() {
        let (of_all, noisy) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(1)));
        // One request of the noisy user computes, and the others wait for that user's slot.
        let computing = Arc::clone(&noisy).try_acquire_owned().unwrap();
        let slot = Arc::clone(&of_all).try_acquire_owned().unwrap();
        let mut waiting: Vec<_> = (0..10)
            .map(|_| Box::pin(run_within(Arc::clone(&noisy), Arc::clone(&of_all), async {})))
            .collect();
        for request in &mut waiting {
            assert!(futures::poll!(request.as_mut()).is_pending());
        }
        run_within(any(), Arc::clone(&of_all), async {}).await;
        drop((computing, slot));
        for request in waiting {
            request.await;
        }
    }

    #[test]
    fn users_share_no_slots_and_are_forgotten() {
        let (a, again, b) = (slots_of("u-a"), slots_of("u-a"), slots_of("u-b"));
        assert!(Arc::ptr_eq(&a, &again) && !Arc::ptr_eq(&a, &b));
        for n in 0..2 * REMEMBERED_USERS {
            drop(slots_of(&format!("u-{n}")));
        }
        let users = SLOTS_OF_USERS.lock().unwrap().len();
        assert!(users <= REMEMBERED_USERS + 1, "{users}");
        assert!(Arc::ptr_eq(&a, &slots_of("u-a")));
    }

    /// The only worker of the runtime is blocked until another task of the same runtime has run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_large_request_computes() {
        let (send, receive) = mpsc::channel();
        let large = tokio::spawn(run("a", async move { receive.recv() }));
        let other = tokio::spawn(async move { send.send("ran") });
        assert_eq!(large.await.unwrap(), Ok("ran"));
        assert!(other.await.unwrap().is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_requests_compute_at_once_than_there_are_slots() {
        let slots = Arc::new(Semaphore::new(2));
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let counters = Arc::new((now, most));
        let requests: Vec<_> = (0..50)
            .map(|_| {
                let counters = Arc::clone(&counters);
                let request = async move {
                    for _ in 0..20 {
                        let n_now = counters.0.fetch_add(1, Ordering::SeqCst) + 1;
                        counters.1.fetch_max(n_now, Ordering::SeqCst);
                        thread::yield_now();
                        counters.0.fetch_sub(1, Ordering::SeqCst);
                        // Waiting gives the slot back.
                        tokio::task::yield_now().await;
                    }
                };
                tokio::spawn(run_within(any(), Arc::clone(&slots), request))
            })
            .collect();
        for request in requests {
            request.await.unwrap();
        }
        assert!(counters.1.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn a_request_that_waits_for_another_does_not_hold_its_slot() {
        let slots = Arc::new(Semaphore::new(1));
        let (send, receive) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(run_within(any(), Arc::clone(&slots), receive));
        let second = tokio::spawn(run_within(any(), slots, async move { send.send(7) }));
        assert_eq!(first.await.unwrap(), Ok(7));
        assert_eq!(second.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_runs_it_in_place() {
        assert_eq!(run("a", async { 7 }).await, 7);
    }
}
