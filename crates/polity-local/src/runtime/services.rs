//! Tells where Pods are: EndpointSlices for those who ask the API, open ports for those who ask the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use polity_reconcile::{WriteError, Writer};
use polity_runtime::Shutdown;
use tracing::{debug, warn};

use super::{RETRY, Running, Shared, WRITE_PATIENCE};
use crate::endpoints::{Backend, routes, says_the_same, slices};
use crate::forward::Forwarder;

const MANAGER: &str = "polity/local";

/// Looks at every Service again and again until the shutdown.
pub(super) async fn run(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut changes = shared.objects.changes();
    let mut services = Services {
        shared,
        forwarder: Forwarder::default(),
        refused: BTreeMap::new(),
    };
    while !shutdown.is_triggered() {
        changes.borrow_and_update();
        let look = tokio::time::timeout(WRITE_PATIENCE, services.look()).await;
        let retry_at = match look {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "an EndpointSlice was not written"
                );
                shared.now().checked_add(RETRY).ok()
            }
            Err(_) => shared.now().checked_add(RETRY).ok(),
        };
        tokio::select! {
            () = shutdown.triggered() => {}
            _ = changes.changed() => {}
            () = shared.sleep_until(retry_at) => {}
        }
    }
}

struct Services<'a> {
    shared: &'a Arc<Shared>,
    forwarder: Forwarder,
    /// What the API server would not have: a real one takes no loopback addresses.
    refused: BTreeMap<(String, String), EndpointSlice>,
}

impl Services<'_> {
    async fn look(&mut self) -> Result<(), WriteError> {
        let pods: Vec<(Arc<Pod>, Running)> = {
            let running = self.shared.running();
            let pods = self.shared.objects.pods.state().into_iter();
            pods.filter_map(|pod| {
                let running = running.get(&pod.uid()?)?.clone();
                Some((pod, running))
            })
            .collect()
        };
        let backends: Vec<Backend<'_>> = pods
            .iter()
            .map(|(pod, running)| Backend {
                pod,
                ports: &running.ports,
                is_ready: running.is_ready,
            })
            .collect();
        let (mut wanted, mut forwarded) = (BTreeMap::new(), BTreeMap::new());
        for service in self.shared.objects.services.state() {
            forwarded.extend(routes(&service, &backends));
            for slice in slices(&service, &backends) {
                wanted.insert(key(&slice), slice);
            }
        }
        // The ports first: they cost nothing, and the API server may be slow.
        self.forwarder.set(&forwarded);
        self.write(wanted).await
    }

    async fn write(
        &mut self,
        wanted: BTreeMap<(String, String), EndpointSlice>,
    ) -> Result<(), WriteError> {
        let writer = Writer::<EndpointSlice>::new(&self.shared.client, MANAGER);
        let found = self.shared.objects.slices.state();
        self.refused
            .retain(|key, slice| wanted.get(key) == Some(&*slice));
        for slice in found
            .iter()
            .filter(|slice| !wanted.contains_key(&key(slice)))
        {
            writer.delete(&slice.metadata).await?;
        }
        for (key, slice) in wanted {
            let is_known = found
                .iter()
                .any(|found| self::key(found) == key && says_the_same(found, &slice));
            if is_known || self.refused.contains_key(&key) {
                continue;
            }
            match writer.apply(&slice).await {
                Ok(_) => {}
                Err(WriteError::Refused { .. }) => {
                    debug!(name = key.1, "the API server takes no loopback endpoints");
                    self.refused.insert(key, slice);
                }
                // Its namespace is going.
                Err(WriteError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn key(slice: &EndpointSlice) -> (String, String) {
    (slice.namespace().unwrap_or_default(), slice.name_any())
}
