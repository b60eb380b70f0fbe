//! A watch that is restarted whenever it breaks.

use std::fmt::Debug;

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

/// Watches objects and calls `see` for each event. Never ends: a broken watch is restarted.
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
            // A watcher restarts by itself, so its stream has no end.
            None => std::future::pending().await,
        }
    }
}
