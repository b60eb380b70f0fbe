//! Renews the Lease of the cluster on the hub, with a report about the cluster.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use polity_reconcile::Writer;
use polity_runtime::Clock;
use tracing::warn;

use super::Agent;
use super::model::AgentModel;
use crate::{ClusterReport, names};

/// The field manager of these writes.
const MANAGER: &str = "polity/agent";

/// Renews the Lease of one cluster.
pub(crate) struct Heartbeat {
    cluster: String,
    every: Duration,
    clock: Clock,
    managed_client: Client,
    leases: Writer<Lease>,
    model: Arc<AgentModel>,
}

impl Heartbeat {
    pub(super) fn new(agent: &Agent, hub_client: &Client, model: Arc<AgentModel>) -> Self {
        Self {
            cluster: agent.cluster.clone(),
            every: agent.heartbeat,
            clock: agent.clock.clone(),
            managed_client: agent.managed_client.clone(),
            leases: Writer::new(hub_client, MANAGER),
            model,
        }
    }

    /// Renews at once, when the claims change, and every period.
    pub(super) async fn run(self) {
        let mut claims = self.model.claims.subscribe();
        loop {
            self.beat().await;
            claims.mark_unchanged();
            tokio::select! {
                () = self.clock.sleep(self.every) => {}
                _ = claims.changed() => {}
            }
        }
    }

    async fn beat(&self) {
        let report = self.report().await;
        let lease = lease(&self.cluster, &report, self.every, self.clock.now());
        if let Err(error) = self.leases.apply(&lease).await {
            let error = &error as &dyn std::error::Error;
            warn!(
                cluster = self.cluster,
                error, "could not renew the lease of the cluster"
            );
        }
    }

    async fn report(&self) -> ClusterReport {
        let version = self.managed_client.apiserver_version().await;
        ClusterReport {
            is_available: version.is_ok(),
            version: version.map(|info| info.git_version).unwrap_or_default(),
            claims: self.model.claims(),
            ..ClusterReport::default()
        }
    }
}

fn lease(cluster: &str, report: &ClusterReport, every: Duration, now: Timestamp) -> Lease {
    // The report is plain data with text keys.
    let report = serde_json::to_string(report).unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(names::CLUSTER_LEASE.to_owned()),
            namespace: Some(cluster.to_owned()),
            annotations: Some([(names::CLUSTER_REPORT.to_owned(), report)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(names::AGENT.to_owned()),
            lease_duration_seconds: i32::try_from(every.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}
