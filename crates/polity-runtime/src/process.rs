//! The frame of a service process: client, metrics, admin port, tasks, and an orderly end.
//!
//! A service gives [`run`] its settings and a function that spawns its tasks; everything around them is here.

use std::net::SocketAddr;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;

use crate::admin::{self, Readiness};
use crate::args::ClientArgs;
use crate::client::{self, ConnectError};
use crate::clock::Clock;
use crate::metrics::{Metrics, MetricsError};
use crate::serve::{BindError, Server};
use crate::shutdown::{Shutdown, TaskEnd, Tasks};

/// How a service process is set up.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The name of the service in telemetry.
    pub service: &'static str,
    /// The addresses that serve probes and metrics; an address that is given twice counts once.
    pub admin: Vec<SocketAddr>,
    /// Whether metrics are also pushed to the collector.
    pub pushes_metrics: bool,
    /// How long the tasks may take to end.
    pub drain: Duration,
}

/// Why a service process failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The client for the cluster cannot be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Metrics could not be set up.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// An address of the admin port is not available.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The service could not start.
    #[error(transparent)]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// A task failed; this is the first one.
    #[error(transparent)]
    Task(#[from] TaskEnd),
}

/// The handles that a service starts with.
#[derive(Debug, Clone)]
pub struct Process {
    pub clock: Clock,
    /// The metrics that the admin port serves.
    pub metrics: Metrics,
    /// The readiness that the admin port reports.
    pub readiness: Readiness,
    /// The owner of the tasks of the service. The process ends when one of them ends.
    pub tasks: Tasks,
}

impl Process {
    /// The shutdown of the process.
    pub fn shutdown(&self) -> &Shutdown {
        self.tasks.shutdown()
    }
}

/// Connects to the cluster, runs a service until the shutdown, and ends it in order.
///
/// Probes and metrics are served from before the start until after the last task has ended. The process is not ready
/// from the shutdown on.
pub async fn run<F, E>(
    settings: ProcessSettings,
    client: &ClientArgs,
    shutdown: Shutdown,
    start: F,
) -> Result<(), ProcessError>
where
    F: AsyncFnOnce(&Process, Client) -> Result<(), E>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let client = client::connect(client).await?;
    let start = async |process: &Process| start(process, client).await;
    Box::pin(run_connected(settings, shutdown, start)).await
}

async fn run_connected<F, E>(
    settings: ProcessSettings,
    shutdown: Shutdown,
    start: F,
) -> Result<(), ProcessError>
where
    F: AsyncFnOnce(&Process) -> Result<(), E>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let metrics = if settings.pushes_metrics {
        Metrics::pushed(settings.service)?
    } else {
        Metrics::new()?
    };
    let process = Process {
        clock: Clock::system(),
        metrics,
        readiness: Readiness::new(),
        tasks: Tasks::new(shutdown.clone()),
    };
    let tasks_ended = Shutdown::new();
    let admin = serve_admin(settings.admin, &process, &tasks_ended).await?;
    let started = start(&process).await;
    if started.is_err() {
        shutdown.trigger();
    }
    shutdown.triggered().await;
    process.readiness.drain();
    let Process {
        clock,
        metrics,
        tasks,
        ..
    } = process;
    let ends = tasks.finish(&clock, settings.drain).await;
    tasks_ended.trigger();
    futures::future::join_all(admin).await;
    if settings.pushes_metrics {
        // It blocks while the collector receives the metrics. The runtime logs a panic there, which affects nothing
        // else.
        let _ = tokio::task::spawn_blocking(move || metrics.finish()).await;
    }
    started.map_err(|error| ProcessError::Start(error.into()))?;
    match ends.into_iter().next() {
        None => Ok(()),
        Some(end) => Err(end.into()),
    }
}

async fn serve_admin(
    mut addresses: Vec<SocketAddr>,
    process: &Process,
    shutdown: &Shutdown,
) -> Result<Vec<JoinHandle<()>>, BindError> {
    addresses.sort_unstable();
    addresses.dedup();
    let mut serving = Vec::new();
    for address in addresses {
        let server = Server::bind(address).await?;
        let router = admin::router(process.readiness.clone(), process.metrics.clone());
        let shutdown = shutdown.clone();
        serving.push(tokio::spawn(async move {
            server.run(router, shutdown).await;
        }));
    }
    Ok(serving)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn settings() -> ProcessSettings {
        ProcessSettings {
            service: "test",
            admin: vec!["127.0.0.1:0".parse().unwrap()],
            pushes_metrics: false,
            drain: Duration::from_secs(10),
        }
    }

    #[tokio::test]
    async fn a_process_runs_until_the_shutdown_and_is_not_ready_while_it_ends() {
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let ended = run_connected(settings(), shutdown, async |process| {
            let part = process.readiness.part("work", "starting");
            part.ready("working");
            assert!(process.readiness.is_ready());
            let (readiness, shutdown) = (process.readiness.clone(), process.shutdown().clone());
            process.tasks.spawn("work", async move {
                stop.trigger();
                shutdown.triggered().await;
                while readiness.is_ready() {
                    tokio::task::yield_now().await;
                }
                Ok::<_, io::Error>(())
            });
            Ok::<_, io::Error>(())
        });
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn a_task_that_fails_ends_the_process() {
        let ended = run_connected(settings(), Shutdown::new(), async |process| {
            let fail = async { Err(io::Error::other("no")) };
            process.tasks.spawn("work", fail);
            Ok::<_, io::Error>(())
        });
        let error = ended.await.unwrap_err();
        assert_eq!(error.to_string(), "task work failed");
    }

    #[tokio::test]
    async fn a_start_that_fails_ends_the_tasks_that_were_started() {
        let ended = run_connected(settings(), Shutdown::new(), async |process| {
            let shutdown = process.shutdown().clone();
            process.tasks.spawn("work", async move {
                shutdown.triggered().await;
                Ok::<_, io::Error>(())
            });
            Err(io::Error::other("bad settings"))
        });
        let error = ended.await.unwrap_err();
        assert_eq!(error.to_string(), "bad settings");
    }
}
