//! Lists that watches keep up to date: started at the first host call, shared by equal calls, and stopped when
//! unused.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use polity_eval::ListResources;
use polity_runtime::{Clock, Moment};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::objects::{Change, Objects};
use super::{ClusterError, ClusterLimits, failed};

/// How long a list that was too large is not retried: each attempt transfers the whole list.
const TOO_LARGE_FOR: Duration = Duration::from_mins(1);

/// All watched lists.
pub(super) struct Stores {
    limits: ClusterLimits,
    clock: Clock,
    /// By query: kind, namespace, selectors and masks.
    by_query: Mutex<HashMap<String, Arc<Store>>>,
    n_bytes: Arc<AtomicUsize>,
}

/// One watched list.
struct Store {
    objects: Mutex<Objects>,
    last_asked: Mutex<Moment>,
    phase: watch::Sender<Phase>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The state of a list.
#[derive(Debug, Clone)]
enum Phase {
    /// The first list is being read.
    Listing,
    /// The list is complete.
    Ready,
    /// The API server refused; the request is retried.
    Failed(ClusterError),
}

impl Stores {
    pub(super) fn new(limits: ClusterLimits, clock: Clock) -> Self {
        Self {
            limits,
            clock,
            by_query: Mutex::default(),
            n_bytes: Arc::default(),
        }
    }

    /// The list for a query, after its first read.
    pub(super) async fn list(
        &self,
        query: &ListResources,
        api: Api<DynamicObject>,
    ) -> Result<Vec<u8>, ClusterError> {
        let store = self.store(query, api);
        let mut phase = store.phase.subscribe();
        // The sender is in the store, which outlives this wait.
        let reached = phase
            .wait_for(|phase| !matches!(phase, Phase::Listing))
            .await
            .map_or(Phase::Ready, |phase| phase.clone());
        match reached {
            Phase::Failed(error) => Err(error),
            Phase::Ready | Phase::Listing => Ok(lock(&store.objects).render().to_vec()),
        }
    }

    pub(super) fn n_running(&self) -> usize {
        let stores = lock(&self.by_query);
        stores.values().filter(|store| store.runs()).count()
    }

    /// The store for a query, started if none is running.
    fn store(&self, query: &ListResources, api: Api<DynamicObject>) -> Arc<Store> {
        let key = serde_json::to_string(query).expect("strings serialise");
        let now = self.clock.moment();
        let mut stores = lock(&self.by_query);
        stores.retain(|_, store| store.runs());
        if let Some(store) = stores.get(&key) {
            *lock(&store.last_asked) = now;
            return store.clone();
        }
        while stores.len() >= self.limits.stores.max(1) {
            let oldest = stores
                .iter()
                .min_by_key(|(_, store)| *lock(&store.last_asked))
                .map(|(key, _)| key.clone());
            let Some(evicted) = oldest.and_then(|key| stores.remove(&key)) else {
                break;
            };
            evicted.stop();
        }
        let store = Arc::new(Store {
            objects: Mutex::new(Objects::new(query)),
            last_asked: Mutex::new(now),
            phase: watch::Sender::new(Phase::Listing),
            task: Mutex::default(),
        });
        let keeper = Keeper {
            store: Arc::downgrade(&store),
            doing: format!("list {}", query.kind),
            limits: self.limits,
            clock: self.clock.clone(),
            all_bytes: self.n_bytes.clone(),
            counted: 0,
        };
        let mut config = watcher::Config::default();
        config.label_selector.clone_from(&query.label_selector);
        config.field_selector.clone_from(&query.field_selector);
        let task = tokio::spawn(keeper.run(api, config));
        *lock(&store.task) = Some(task);
        stores.insert(key, store.clone());
        store
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        for store in lock(&self.by_query).values() {
            store.stop();
        }
    }
}

impl Store {
    fn runs(&self) -> bool {
        lock(&self.task)
            .as_ref()
            .is_some_and(|task| !task.is_finished())
    }

    fn stop(&self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// Keeps one store up to date as long as it is used.
struct Keeper {
    store: Weak<Store>,
    doing: String,
    limits: ClusterLimits,
    clock: Clock,
    all_bytes: Arc<AtomicUsize>,
    /// The share of this store in `all_bytes`.
    counted: usize,
}

impl Keeper {
    async fn run(mut self, api: Api<DynamicObject>, config: watcher::Config) {
        let events = watcher(api, config).default_backoff();
        pin_mut!(events);
        loop {
            let Some(idle_at) = self.idle_at() else {
                return;
            };
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if !self.take(event) {
                            break;
                        }
                    }
                    Some(Err(error)) => self.fail(&error),
                    None => return,
                },
                () = self.clock.sleep_until(idle_at) => {
                    if self.idle_at().is_none_or(|at| at <= self.clock.moment()) {
                        return;
                    }
                }
            }
        }
        self.clock.sleep(TOO_LARGE_FOR).await;
    }

    /// When the store has been unused for long enough; `None` if it is dropped.
    fn idle_at(&self) -> Option<Moment> {
        let store = self.store.upgrade()?;
        let last_asked = *lock(&store.last_asked);
        Some(last_asked + self.limits.idle)
    }

    /// Applies an event; false if the store has become too large.
    fn take(&mut self, event: Event<DynamicObject>) -> bool {
        let Some(store) = self.store.upgrade() else {
            return false;
        };
        let (change, n_bytes) = {
            let mut objects = lock(&store.objects);
            (objects.apply(event), objects.n_bytes())
        };
        if self.count(n_bytes) > self.limits.bytes {
            let error = ClusterError::TooLarge {
                doing: self.doing.clone(),
                limit: self.limits.bytes,
            };
            tracing::warn!(error = %error, "watched list dropped");
            store.phase.send_replace(Phase::Failed(error));
            lock(&store.objects).clear();
            self.count(0);
            return false;
        }
        if change == Change::Listed {
            store.phase.send_replace(Phase::Ready);
        }
        true
    }

    /// Updates the size of this store, and returns the size of all stores.
    fn count(&mut self, n_bytes: usize) -> usize {
        self.all_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        let before = self.all_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        let all = before - self.counted;
        self.counted = n_bytes;
        all
    }

    /// A refusal takes effect at once, even if there was a list before: permissions may have been revoked. While the
    /// API server cannot be reached, the last list is used.
    fn fail(&self, error: &watcher::Error) {
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => failed(self.doing.clone(), error),
            watcher::Error::WatchError(status) => ClusterError::Refused {
                doing: self.doing.clone(),
                code: status.code,
                message: status.message.clone(),
            },
            watcher::Error::NoResourceVersion => ClusterError::Refused {
                doing: self.doing.clone(),
                code: 405,
                message: "the kind cannot be watched".to_owned(),
            },
        };
        let is_final = matches!(&error, ClusterError::Refused { code, .. } if matches!(code, 400 | 401 | 403 | 404 | 405));
        tracing::warn!(error = %error, "watch for policies failed, retrying");
        let Some(store) = self.store.upgrade() else {
            return;
        };
        store.phase.send_if_modified(|phase| {
            let tell = is_final || !matches!(phase, Phase::Ready);
            if tell {
                *phase = Phase::Failed(error);
            }
            tell
        });
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
