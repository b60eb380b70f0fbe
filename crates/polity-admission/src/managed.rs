//! The server in a cluster: it serves the PolicyRevisions of its PolicyServer.
//!
//! - [`revision`]: a PolicyRevision as a value, and the store that a watch keeps.
//! - [`leader`]: the replica that holds the lease initialises new revisions. [`leader::plan`] decides, [`leader`] acts.
//! - [`replica`]: every replica loads the enabled, initialised revisions and reports which ones it serves.
//!   [`replica::plan`] decides, [`replica`] acts.
//! - [`prepare`]: turns a revision into a policy that can be evaluated; the leader and the replicas use it.
//! - [`cache`]: where the modules of a revision come from, in memory, on this replica's disk, or on a shared volume.
//! - [`status`]: the changes that leader and replicas make to a revision's status, and the writer that stores them.
//! - [`assemble`]: starts all of the above.

mod assemble;
mod cache;
mod leader;
mod prepare;
mod replica;
mod retry;
mod revision;
mod status;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use polity_eval::{EngineError, EngineOptions};
use polity_fetch::SourcesError;
use polity_runtime::admin::Readiness;
use polity_runtime::lease::{BadTiming, LeaseTiming};
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::BindError;
use polity_runtime::shutdown::TaskEnd;
use polity_runtime::tls::{TlsError, TlsFiles};
use polity_runtime::{Clock, Shutdown};
use tracing::info;

use self::assemble::Groups;
pub use self::cache::shared::CacheOptions;
use crate::process::{DRAIN, ModuleOptions};
use crate::webhook::WebhookLimits;

/// Everything a server is told.
pub struct ManagedOptions {
    /// Whose revisions are served, and by which replica.
    pub identity: ReplicaIdentity,
    /// The cluster: where revisions are, and what policies may ask about.
    pub client: Client,
    /// Where requests come in.
    pub listen: SocketAddr,
    /// Where readiness, liveness and metrics are told.
    pub readiness_listen: SocketAddr,
    /// Without: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Limits of guests.
    pub engine: EngineOptions,
    /// Where modules come from, and where this replica keeps things for itself.
    pub modules: ModuleOptions,
    /// The cache that the replicas share; `None`: each keeps what it needs for itself.
    pub cache: Option<CacheOptions>,
    /// `server.yml`.
    pub server_config: PathBuf,
    /// How long an evaluation may take; `None`: nothing is limited in time.
    pub policy_timeout: Option<Duration>,
    /// Requests for this namespace are let through unseen.
    pub always_accept_namespace: Option<String>,
    /// What requests may take.
    pub limits: WebhookLimits,
    /// How long to go on serving after the order to stop, while callers learn of it.
    pub shutdown_delay: Duration,
    /// The timing of the lease.
    pub lease: LeaseTiming,
    /// Where things are counted.
    pub metrics: Metrics,
    /// What time it is.
    pub clock: Clock,
}

/// Who a replica is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaIdentity {
    /// The PolicyServer.
    pub server: String,
    /// Where its revisions and its lease are.
    pub namespace: String,
    /// The pod, `<set>-<ordinal>`.
    pub pod_name: String,
    /// The pod's UID: names come back in a StatefulSet.
    pub pod_uid: String,
}

impl ReplicaIdentity {
    /// The StatefulSet that the pod is of.
    pub(crate) fn stateful_set(&self) -> &str {
        let set = self.pod_name.rsplit_once('-');
        set.map_or(&self.pod_name, |(set, _)| set)
    }

    /// The number of the replica.
    pub fn ordinal(&self) -> Option<i32> {
        let (_, ordinal) = self.pod_name.rsplit_once('-')?;
        ordinal.parse().ok().filter(|ordinal| *ordinal >= 0)
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// A replica must have a number.
    #[error("{pod:?} is not the name of a replica: it does not end in a dash and a number")]
    NoOrdinal {
        /// The name.
        pod: String,
    },
    /// `sources.yml` cannot be used.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// The certificate cannot be used.
    #[error("setting up TLS")]
    Tls(#[from] TlsError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The Wasm engine cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The lease cannot be held so.
    #[error(transparent)]
    Lease(#[from] BadTiming),
}

/// A server that runs. It becomes ready when all that serves is loaded.
#[derive(Debug)]
pub struct Managed {
    address: SocketAddr,
    readiness_address: SocketAddr,
    readiness: Readiness,
    groups: Groups,
    shutdown_delay: Duration,
    clock: Clock,
}

impl Managed {
    /// Starts: when this returns, the ports are open and revisions are being loaded.
    pub async fn start(options: ManagedOptions) -> Result<Self, ManagedError> {
        let groups = Groups::new();
        let started = assemble::start(options, groups.clone()).await;
        if started.is_err() {
            groups.stop();
        }
        started
    }

    /// Where requests come in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where readiness, liveness and metrics are told.
    pub fn readiness_address(&self) -> SocketAddr {
        self.readiness_address
    }

    /// Serves until the shutdown, then: not ready and no longer leading, goes on for a while, finishes what runs, ends.
    /// Answers what went wrong first, if anything did.
    pub async fn run_until(self, shutdown: Shutdown) -> Result<(), TaskEnd> {
        let Groups {
            control,
            serving,
            admin,
        } = self.groups;
        let is_told = tokio::select! {
            () = shutdown.triggered() => true,
            () = control.shutdown().triggered() => false,
            () = serving.shutdown().triggered() => false,
        };
        self.readiness.drain();
        control.shutdown().trigger();
        if is_told {
            info!(delay = ?self.shutdown_delay, "not ready any more, serving on for a while");
            let delay = self.clock.sleep(self.shutdown_delay);
            serving.shutdown().run_until(delay).await;
        }
        serving.shutdown().trigger();
        let mut ends = control.finish(&self.clock, DRAIN).await;
        let patience = DRAIN + Duration::from_secs(2);
        ends.extend(serving.finish(&self.clock, patience).await);
        admin.shutdown().trigger();
        ends.extend(admin.finish(&self.clock, Duration::from_secs(2)).await);
        info!("stopped");
        ends.into_iter().next().map_or(Ok(()), Err)
    }
}
