//! One controller: its watches, its queue and its workers.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! # use kube::{Client, ResourceExt as _};
//! # use polity_reconcile::{Controller, Requeue, Term, Watch};
//! # use polity_runtime::Clock;
//! # async fn reconcile(client: Client, name: String) -> Result<Requeue, kube::Error> { Ok(Requeue::Slowly) }
//! # async fn run(client: Client, clock: Clock, term: Term) {
//! let mut controller = Controller::new("greetings", clock);
//! // The root kind: its own name is the key.
//! controller.watch(
//!     Watch::<ConfigMap>::namespaced(&client, "default"),
//!     |map| Some(map.name_any()),
//!     |queue, name, _| queue.add(name.clone()),
//! );
//! // Another kind leads to the root by a label.
//! controller.watch(
//!     Watch::<Pod>::namespaced(&client, "default").labels("greeting"),
//!     |pod| pod.labels().get("greeting").cloned(),
//!     |queue, name, _| queue.add_after(name.clone(), Duration::from_secs(1)),
//! );
//! let client = term.guard(&client);
//! controller.run(&term, move |name| reconcile(client.clone(), name)).await;
//! # }
//! ```

use std::error::Error;
use std::fmt::{Debug, Display};

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use polity_core::ObjectKey;
use polity_runtime::Clock;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::{Instrument as _, info_span, warn};

use crate::cache::{Cache, Change, SharedCache};
use crate::metrics::ControllerMetrics;
use crate::queue::Queue;
use crate::requeue::{FailureBackoff, Requeue};
use crate::term::Term;
use crate::watch::{Feed, Intake, Watch, object_key};

/// What happened to a watched object that leads to keys of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It was created or changed.
    Applied,
    /// It was deleted, or does not lead there any more.
    Deleted,
}

/// A controller whose objects have keys of type `K`.
pub struct Controller<K> {
    name: &'static str,
    n_workers: usize,
    queue: Queue<K>,
    metrics: ControllerMetrics,
    tasks: Vec<BoxFuture<'static, ()>>,
    /// Each ends with the first list of one watch.
    first_lists: Vec<BoxFuture<'static, ()>>,
    waits_for_lists: bool,
}

/// What is kept of an object that leads to keys: enough to notice a change, and where it leads.
#[derive(Debug, Clone, PartialEq)]
struct Link<L> {
    uid: Option<String>,
    resource_version: Option<String>,
    link: L,
}

impl<K: Ord + Clone + Display + Send + Sync + 'static> Controller<K> {
    /// A controller with one worker and nothing to watch. Its name is in logs and metrics.
    pub fn new(name: &'static str, clock: Clock) -> Self {
        Self {
            name,
            n_workers: 1,
            queue: Queue::new(clock, FailureBackoff::default()),
            metrics: ControllerMetrics::default(),
            tasks: Vec::new(),
            first_lists: Vec::new(),
            waits_for_lists: false,
        }
    }

    /// Reconciles this many keys at the same time.
    #[must_use]
    pub fn with_workers(mut self, n_workers: usize) -> Self {
        self.n_workers = n_workers;
        self
    }

    /// Counts in these metrics. To be called before anything is watched.
    #[must_use]
    pub fn with_metrics(mut self, metrics: ControllerMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Retries failed keys after these delays instead of the default ones. To be called before anything is watched.
    #[must_use]
    pub fn with_backoff(mut self, backoff: FailureBackoff) -> Self {
        self.queue = Queue::new(self.queue.clock().clone(), backoff);
        self
    }

    /// Starts the workers when every watch has listed its objects once. A controller that deletes what it does not find in
    /// its caches needs this: before the first list it would find nothing.
    #[must_use]
    pub fn after_first_lists(mut self) -> Self {
        self.waits_for_lists = true;
        self
    }

    /// The keys that wait. Whatever is not watched can queue a key too.
    pub fn queue(&self) -> Queue<K> {
        self.queue.clone()
    }

    /// Watches objects that lead to keys. `link` says where an object leads, such as the value of a label; `wake` queues
    /// the keys. An object that is deleted, or leads elsewhere after a change, wakes the keys that it led to before.
    pub fn watch<O, L>(
        &mut self,
        watch: Watch<O>,
        link: impl Fn(&O) -> Option<L> + Send + 'static,
        wake: impl Fn(&Queue<K>, &L, Seen) + Send + 'static,
    ) where
        O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        O::DynamicType: Send + Sync,
        L: PartialEq + Clone + Send + 'static,
    {
        let cache = SharedCache::new(Cache::<ObjectKey, Link<L>>::default());
        let value_of = move |object: &O| {
            Some(Link {
                uid: object.meta().uid.clone(),
                resource_version: object.meta().resource_version.clone(),
                link: link(object)?,
            })
        };
        self.keep(watch, &cache, object_key, value_of, move |queue, change| {
            let Change { before, now, .. } = change;
            if let Some(before) = before
                && now.as_ref().is_none_or(|now| now.link != before.link)
            {
                wake(queue, &before.link, Seen::Deleted);
            }
            if let Some(now) = now {
                wake(queue, &now.link, Seen::Applied);
            }
        });
    }

    /// Watches objects and keeps what `value_of` takes of them in a cache. `on_change` queues keys when a value changes;
    /// an object without a value counts as deleted. Several watches can fill one cache.
    pub fn keep<O, C, V, I>(
        &mut self,
        watch: Watch<O>,
        cache: &SharedCache<C, V, I>,
        key_of: impl Fn(&ObjectMeta) -> C + Send + 'static,
        value_of: impl Fn(&O) -> Option<V> + Send + 'static,
        on_change: impl Fn(&Queue<K>, Change<C, V>) + Send + 'static,
    ) where
        O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        O::DynamicType: Send + Sync,
        C: Ord + Clone + Send + 'static,
        V: PartialEq + Clone + Send + 'static,
        I: Ord + Send + 'static,
    {
        let queue = self.queue.clone();
        let span = info_span!("watch", controller = self.name, kind = watch.kind());
        let feed = Feed {
            controller: self.name,
            watch,
            metrics: self.metrics.clone(),
            intake: Intake::new(cache.clone(), key_of, value_of),
        };
        let cache = cache.clone();
        self.first_lists
            .push(async move { cache.listed().await }.boxed());
        let watching = feed.run(move |change| on_change(&queue, change));
        self.tasks.push(watching.instrument(span).boxed());
    }

    /// Runs something beside the workers that ends with the term, such as a timer that queues keys.
    pub fn background(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(task.boxed());
    }

    /// Watches and reconciles until the term ends.
    ///
    /// A failed reconcile is logged here and retried with a back-off per key.
    ///
    /// # Panics
    /// When a reconcile or a callback panics.
    pub async fn run<F, Fut, E>(self, term: &Term, reconcile: F)
    where
        F: Fn(K) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Requeue, E>> + Send + 'static,
        E: Error + Send + 'static,
    {
        let Self {
            name,
            n_workers,
            queue,
            metrics,
            tasks,
            first_lists,
            waits_for_lists,
        } = self;
        let mut running = JoinSet::new();
        for task in tasks {
            running.spawn(task);
        }
        let first_lists = if waits_for_lists {
            first_lists
        } else {
            Vec::new()
        };
        let listed = join_all(first_lists).map(drop).shared();
        for _ in 0..n_workers {
            let worker = Worker {
                controller: name,
                queue: queue.clone(),
                metrics: metrics.clone(),
                reconcile: reconcile.clone(),
            };
            let listed = listed.clone();
            running.spawn(async move {
                listed.await;
                worker.run().await;
            });
        }
        let panicked = term.run_until(first_panic(&mut running)).await;
        running.shutdown().await;
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Waits for a task that panics. Watches and workers do not end otherwise, and background tasks may.
async fn first_panic(running: &mut JoinSet<()>) -> Box<dyn std::any::Any + Send> {
    while let Some(ended) = running.join_next().await {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            return panic;
        }
    }
    std::future::pending().await
}

struct Worker<K, F> {
    controller: &'static str,
    queue: Queue<K>,
    metrics: ControllerMetrics,
    reconcile: F,
}

impl<K, F, Fut, E> Worker<K, F>
where
    K: Ord + Clone + Display,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Result<Requeue, E>>,
    E: Error + 'static,
{
    async fn run(self) {
        loop {
            let key = self.queue.next().await;
            // On the heap: the future of a reconcile is large.
            let result = Box::pin((self.reconcile)(key.clone())).await;
            self.metrics
                .count_reconcile(self.controller, result.is_err());
            match result {
                Ok(requeue) => {
                    self.queue.finish(&key, requeue);
                }
                Err(error) => {
                    let n_failures = self.queue.finish(&key, Requeue::WithBackoff);
                    warn!(
                        controller = self.controller,
                        key = %key,
                        n_failures,
                        error = &error as &dyn Error,
                        "reconcile failed"
                    );
                }
            }
        }
    }
}
