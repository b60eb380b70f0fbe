//! The shell: watches objects, asks the engines, carries out the answers.
//!
//! Four loops that meet only through objects and one table: `sets` makes Pods of StatefulSets, `workers` runs each Pod
//! of the deployment namespace in a task of its own, `strangers` reports the Pods of other namespaces, and `services`
//! publishes where Pods listen. Each looks at everything again whenever anything changed, so nothing is lost when one of
//! them was late or this process died.

mod absence;
mod events;
mod objects;
mod places;
mod services;
mod sets;
mod strangers;
mod worker;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::{Client, ResourceExt as _};
use polity_runtime::files::{FileError, create_private_dir};
use polity_runtime::{Clock, Shutdown};
use tokio::task::JoinSet;

use crate::access::Api;
use crate::ask::Prober;
use crate::container::Ports;
use crate::images::Images;
use crate::logs::{Limits, Logs};
use crate::permit::Permit;
use crate::process::{SpawnError, Spawner};
use objects::Objects;
use places::Places;

/// A write that takes longer is given up, and tried again.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failed write everything is looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where volumes, claims and logs are.
    pub data_dir: PathBuf,
    /// The name under which this machine runs Pods.
    pub node: String,
    /// Which Pods are run.
    pub permit: Permit,
    /// Which binaries images stand for.
    pub images: Images,
    /// This program, whose `main` begins with [`crate::process::launch::intercept`].
    pub launcher: PathBuf,
    /// Where Pods find the API.
    pub api: Api,
    /// Variables every process has, unless its Pod says otherwise.
    pub env: BTreeMap<String, String>,
    /// How much of what Pods say is kept.
    pub log_limits: Limits,
    /// What processes have at most to end when the runtime does; their Pods may give them less.
    pub stop_grace: Duration,
    pub clock: Clock,
}

/// A runtime that did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Folder(#[from] FileError),
    #[error("resolving {}", path.display())]
    Path {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Guard(#[from] SpawnError),
    #[error("making the client for probes")]
    Prober(#[source] reqwest::Error),
    #[error("the watch of objects ended before it began")]
    Watch,
}

/// A runtime that ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[error("the watch of objects ended")]
pub struct WatchEnded;

/// What all loops share.
struct Shared {
    client: Client,
    options: Options,
    objects: Objects,
    places: Places,
    spawner: Spawner,
    prober: Prober,
    logs: Logs,
    /// The Pods that have a process, by uid.
    running: Mutex<BTreeMap<String, Running>>,
}

/// Where a Pod listens, and whether it may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    ports: Ports,
    is_ready: bool,
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is known of a Pod's process; the others look again if that is news.
    fn publish(&self, uid: &str, running: Option<Running>) {
        let mut all = self.running();
        let before = match &running {
            Some(running) => all.insert(uid.to_owned(), running.clone()),
            None => all.remove(uid),
        };
        drop(all);
        if before != running {
            self.objects.look_again();
        }
    }

    /// Lets the API forget a Pod of which nothing is left; whether it did.
    async fn forget(&self, pod: &Pod) -> bool {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default().preconditions(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            })
        };
        let namespace = pod.namespace().unwrap_or_default();
        let api: kube::Api<Pod> = kube::Api::namespaced(self.client.clone(), &namespace);
        let name = pod.name_any();
        let delete = api.delete(&name, &params);
        match tokio::time::timeout(WRITE_PATIENCE, delete).await {
            Ok(Ok(_)) => true,
            Ok(Err(kube::Error::Api(status))) => matches!(status.code, 404 | 409),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Sleeps until a time; for ever without one.
    async fn sleep_until(&self, at: Option<Timestamp>) {
        let Some(at) = at else {
            return std::future::pending().await;
        };
        let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or(Duration::ZERO);
        self.options.clock.sleep(wait).await;
    }
}

/// The local runtime. Dropping it ends every process it started.
pub struct Local {
    shared: Arc<Shared>,
    watches: JoinSet<()>,
}

impl Local {
    /// Starts watching, and comes back when every object is known. Nothing is run yet.
    pub async fn start(client: Client, mut options: Options) -> Result<Self, StartError> {
        create_private_dir(&options.data_dir)?;
        // Processes have directories of their own, and paths in their variables are compared with those of volumes.
        options.data_dir = options.data_dir.canonicalize().map_err(|source| {
            let path = options.data_dir.clone();
            StartError::Path { path, source }
        })?;
        let places = Places::new(&options.data_dir);
        let spawner = Spawner::new(options.launcher.clone())?;
        let prober = Prober::new().map_err(StartError::Prober)?;
        let mut watches = JoinSet::new();
        let objects = Objects::watch(&client, &options.node, &mut watches);
        objects.known().await.map_err(|_| StartError::Watch)?;
        places.prune(&objects);
        let logs = Logs::new(places.logs(), options.log_limits, options.clock.clone());
        let shared = Shared {
            client,
            options,
            objects,
            places,
            spawner,
            prober,
            logs,
            running: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            watches,
        })
    }

    /// What the Pods say. Clones are the same logs.
    pub fn logs(&self) -> Logs {
        self.shared.logs.clone()
    }

    /// Runs until the shutdown, and comes back when no process is left.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), WatchEnded> {
        let ours = shutdown.child();
        let loops = async {
            tokio::join!(
                sets::run(&self.shared, &ours),
                workers::run(&self.shared, &ours),
                strangers::run(&self.shared, &ours),
                services::run(&self.shared, &ours),
            );
        };
        tokio::pin!(loops);
        tokio::select! {
            () = &mut loops => return Ok(()),
            () = shutdown.triggered() => {}
            Some(_) = self.watches.join_next() => {
                ours.trigger();
                loops.await;
                return Err(WatchEnded);
            }
        }
        // What is left is to end processes. The API may be going too: nobody need look for it.
        self.watches.abort_all();
        loops.await;
        Ok(())
    }
}
