//! A policy server as a process, whether its policies come from a file or from a cluster: its options, its start and its
//! stop.
//!
//! - The start order is: open the ports, load the policies, become ready.
//! - The stop order is: become not ready, go on serving for a while, drain, end. The admin port stays up throughout.

mod modules;
mod open;

use std::net::SocketAddr;
use std::time::Duration;

use polity_eval::{EngineError, EngineOptions};
use polity_fetch::SourcesError;
use polity_runtime::admin::Readiness;
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::BindError;
use polity_runtime::shutdown::TaskEnd;
use polity_runtime::tls::{TlsError, TlsFiles};
use polity_runtime::{Clock, Shutdown, Tasks};
use tracing::info;

pub use self::modules::ModuleOptions;
pub(crate) use self::modules::beyond_this_machine;
pub(crate) use self::open::OpenServer;
use crate::review::RequestLimits;

/// How long requests in flight may take after the server stopped listening.
const DRAIN: Duration = Duration::from_secs(30);
/// How much longer the tasks that serve them get to end.
const END: Duration = Duration::from_secs(2);

/// How many threads the runtime of a server needs. Evaluations run on them, one for each: more threads would only
/// find every place taken and wake each other. A guest that takes long gives its thread's other work away, so
/// connections are served whatever guests do. Never fewer than two: a single one would have to wait for every handover.
pub fn runtime_threads(workers: usize) -> usize {
    workers.max(2)
}

/// The options of every policy server, wherever its policies come from.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address for admission reviews.
    pub listen: SocketAddr,
    /// The address of the admin port: readiness, liveness and metrics.
    pub readiness_listen: SocketAddr,
    /// Certificate and key for reviews; `None` serves plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The limits of guests.
    pub engine: EngineOptions,
    /// Where modules come from, and the directory they are kept in.
    pub modules: ModuleOptions,
    /// How long an evaluation may take; `None` limits nothing in time.
    pub policy_timeout: Option<Duration>,
    /// Requests for this namespace are allowed without evaluation.
    pub always_accept_namespace: Option<String>,
    /// The limits of requests.
    pub limits: RequestLimits,
    /// How long to go on serving after the order to stop, until callers no longer send requests here.
    pub shutdown_delay: Duration,
    /// The registry of metrics that the admin port shows.
    pub metrics: Metrics,
    /// The source of time, which tests control.
    pub clock: Clock,
}

/// Why the parts that all servers share did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `sources.yml` cannot be used.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// The certificate cannot be used.
    #[error("setting up TLS")]
    Tls(#[from] TlsError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The Wasm engine cannot be configured with these limits.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The tasks of a server, grouped by when they end.
#[derive(Debug, Clone)]
pub(crate) struct TaskGroups {
    /// The tasks that keep the policies up to date: they end first.
    pub(crate) control: Tasks,
    /// The tasks that serve requests.
    pub(crate) serving: Tasks,
    /// The admin port: it ends last.
    pub(crate) admin: Tasks,
}

impl TaskGroups {
    /// Runs a start. If it fails, the tasks that it spawned end.
    pub(crate) async fn start<T, E>(start: impl AsyncFnOnce(Self) -> Result<T, E>) -> Result<T, E> {
        let tasks = || Tasks::new(Shutdown::new());
        let groups = Self {
            control: tasks(),
            serving: tasks(),
            admin: tasks(),
        };
        let started = start(groups.clone()).await;
        if started.is_err() {
            for tasks in [&groups.control, &groups.serving, &groups.admin] {
                tasks.shutdown().trigger();
            }
        }
        started
    }
}

/// A policy server whose ports are open. It is ready as soon as its policies are loaded.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    readiness_address: SocketAddr,
    readiness: Readiness,
    tasks: TaskGroups,
    shutdown_delay: Duration,
    clock: Clock,
}

impl RunningServer {
    /// The address for admission reviews.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the admin port.
    pub fn readiness_address(&self) -> SocketAddr {
        self.readiness_address
    }

    /// Serves until the shutdown or until a task fails, then stops in order. Returns the first failure.
    pub async fn run_until(self, shutdown: Shutdown) -> Result<(), TaskEnd> {
        let TaskGroups {
            control,
            serving,
            admin,
        } = self.tasks;
        let is_told = tokio::select! {
            () = shutdown.triggered() => true,
            () = control.shutdown().triggered() => false,
            () = serving.shutdown().triggered() => false,
        };
        self.readiness.drain();
        control.shutdown().trigger();
        if is_told {
            info!(delay = ?self.shutdown_delay, "not ready any more, serving until the delay is over");
            let delay = self.clock.sleep(self.shutdown_delay);
            serving.shutdown().run_until(delay).await;
        }
        serving.shutdown().trigger();
        let mut ends = control.finish(&self.clock, DRAIN).await;
        ends.extend(serving.finish(&self.clock, DRAIN + END).await);
        admin.shutdown().trigger();
        ends.extend(admin.finish(&self.clock, END).await);
        info!("stopped");
        ends.into_iter().next().map_or(Ok(()), Err)
    }
}
