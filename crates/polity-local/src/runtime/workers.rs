//! One worker for each Pod of this node in the namespace of policy servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use polity_runtime::Shutdown;
use tokio::task::{Id, JoinSet};
use tracing::error;

use super::strangers::is_stranger;
use super::worker::Worker;
use super::{RETRY, Shared};

/// Runs workers until the shutdown, and comes back when the last has stopped its process.
pub(super) async fn run(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut changes = shared.objects.changes();
    let mut workers = JoinSet::new();
    let mut by_uid: BTreeMap<String, Id> = BTreeMap::new();
    while !shutdown.is_triggered() {
        changes.borrow_and_update();
        let pods = &shared.objects.pods;
        for pod in pods.state_filter(|pod| !is_stranger(shared, pod)) {
            let Some(uid) = pod.uid() else { continue };
            by_uid.entry(uid).or_insert_with(|| {
                let worker = Worker::new(shared.clone(), &pod);
                workers.spawn(worker.run(shutdown.clone())).id()
            });
        }
        tokio::select! {
            () = shutdown.triggered() => {}
            _ = changes.changed() => {}
            Some(ended) = workers.join_next_with_id() => {
                let id = match &ended {
                    Ok((id, ())) => *id,
                    Err(failure) => {
                        error!(error = failure as &dyn std::error::Error, "the worker of a Pod failed");
                        shared.options.clock.sleep(RETRY).await;
                        failure.id()
                    }
                };
                // Only now may the Pod, if it is still there, have another worker.
                by_uid.retain(|_, worker| *worker != id);
            }
        }
    }
    while workers.join_next().await.is_some() {}
}
