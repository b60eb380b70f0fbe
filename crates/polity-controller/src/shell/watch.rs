//! One watch, taken up again whenever it breaks.

use std::fmt::Debug;

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

/// One watch, from which each change is seen. Never ends: what breaks is taken up again.
pub(crate) async fn watch<K>(
    api: Api<K>,
    kind: K::DynamicType,
    config: watcher::Config,
    mut see: impl FnMut(&watcher::Event<K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Debug,
{
    // On the heap: a task that watches a dozen kinds would not fit on a thread's stack.
    let mut events = Box::pin(watcher(api, config).default_backoff());
    loop {
        match events.next().await {
            Some(Ok(event)) => see(&event),
            Some(Err(error)) => {
                debug!(kind = %K::kind(&kind), error = &error as &dyn std::error::Error, "a watch broke");
            }
            // A watcher takes up again whatever breaks, so it has no end.
            None => std::future::pending().await,
        }
    }
}
