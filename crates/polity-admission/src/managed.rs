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

use std::path::PathBuf;

use kube::Client;
use polity_runtime::lease::{BadTiming, LeaseTiming};

pub use self::cache::shared::CacheOptions;
use crate::server::{RunningServer, ServerOptions, StartError, TaskGroups};

/// The options of a server in a cluster: one replica of a PolicyServer.
pub struct ManagedOptions {
    /// The options that every server has.
    pub server: ServerOptions,
    /// The PolicyServer, and which of its replicas this is.
    pub identity: ReplicaIdentity,
    /// The client of the cluster that holds the revisions, and that policies may read.
    pub client: Client,
    /// The cache that the replicas share; `None` keeps modules on this replica's disk only.
    pub cache: Option<CacheOptions>,
    /// The path of `server.yml`.
    pub server_config: PathBuf,
    /// How long the lease is held and how often it is renewed.
    pub lease: LeaseTiming,
}

/// Identifies a replica of a PolicyServer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaIdentity {
    /// The name of the PolicyServer.
    pub server: String,
    /// The namespace of its revisions and its lease.
    pub namespace: String,
    /// The name of the pod, `<set>-<ordinal>`.
    pub pod_name: String,
    /// The UID of the pod: a StatefulSet gives the same name to the next pod.
    pub pod_uid: String,
}

impl ReplicaIdentity {
    /// The StatefulSet that owns the pod.
    pub(crate) fn stateful_set(&self) -> &str {
        let set = self.pod_name.rsplit_once('-');
        set.map_or(&self.pod_name, |(set, _)| set)
    }

    /// The ordinal of the pod in its StatefulSet.
    pub fn ordinal(&self) -> Option<i32> {
        let (_, ordinal) = self.pod_name.rsplit_once('-')?;
        ordinal.parse().ok().filter(|ordinal| *ordinal >= 0)
    }
}

/// Why a server in a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// The name of the pod has no ordinal.
    #[error("{pod:?} is not the name of a replica: it does not end in a dash and a number")]
    NoOrdinal {
        /// The name of the pod.
        pod: String,
    },
    /// The timing of the lease is inconsistent.
    #[error(transparent)]
    Lease(#[from] BadTiming),
    /// A part that every server has did not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl ManagedOptions {
    /// Starts a server. When this returns, the ports are open and revisions are being loaded.
    pub async fn start(self) -> Result<RunningServer, ManagedError> {
        TaskGroups::start(async |tasks| assemble::start(self, tasks).await).await
    }
}
