//! Pods of other namespaces that name this node. None of them is run: each gets an Event, and is removed when it is
//! deleted, as a kubelet would do.
//!
//! One task for all of them: anybody who may create Pods somewhere can create many, and a worker for each would be woken
//! by every change of any object.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use polity_runtime::Shutdown;

use super::{RETRY, Shared, events};
use crate::permit::Refusal;

/// Runs until the shutdown.
pub(super) async fn run(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut changes = shared.objects.changes();
    let mut reported = BTreeSet::new();
    while !shutdown.is_triggered() {
        changes.borrow_and_update();
        let all_done = tokio::select! {
            () = shutdown.triggered() => return,
            all_done = look(shared, &mut reported) => all_done,
        };
        let retry = async {
            match all_done {
                true => std::future::pending().await,
                false => shared.options.clock.sleep(RETRY).await,
            }
        };
        tokio::select! {
            () = shutdown.triggered() => {}
            _ = changes.changed() => {}
            () = retry => {}
        }
    }
}

/// Reports what is new and removes what is deleted; whether every removal succeeded.
async fn look(shared: &Shared, reported: &mut BTreeSet<String>) -> bool {
    let pods = shared
        .objects
        .pods
        .state_filter(|pod| is_stranger(shared, pod));
    let present: BTreeSet<String> = pods.iter().filter_map(|pod| pod.uid()).collect();
    reported.retain(|uid| present.contains(uid));
    let mut all_done = true;
    for pod in pods {
        if pod.metadata.deletion_timestamp.is_some() {
            all_done &= shared.forget(&pod).await;
        } else if reported.insert(pod.uid().unwrap_or_default()) {
            let refusal = Refusal::Namespace {
                found: pod.namespace().unwrap_or_default(),
                wanted: shared.options.permit.namespace.clone(),
            };
            events::forbidden(shared, &*pod, &refusal.to_string()).await;
        }
    }
    all_done
}

/// Whether a Pod is of another namespace than that of policy servers.
pub(super) fn is_stranger(shared: &Shared, pod: &Pod) -> bool {
    pod.metadata.namespace.as_deref() != Some(&shared.options.permit.namespace)
}
