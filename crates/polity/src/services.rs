//! The composition point: everything `polity up` runs in its own process.
//!
//! A part that joins gets a client for its cluster and the owner of all tasks, [`Services::tasks`], and meets
//! the other parts only through API objects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use polity_apiserver::AuthorizationMode;
use polity_apiserver::fleet::{Fleet, FleetOptions};
use polity_apiserver::kubeconfig;
use polity_apiserver::metrics::RequestMetrics;
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::Limits;
use polity_runtime::{Clock, Shutdown, Tasks, files};

/// How long tasks may take to end after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(25);

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// `None`: nothing outlives the process.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) hub: String,
    pub(crate) members: Vec<String>,
    pub(crate) authorization: AuthorizationMode,
    /// Where the kubeconfig goes.
    pub(crate) kubeconfig: PathBuf,
}

/// Everything that runs.
pub(crate) struct Services {
    pub(crate) fleet: Fleet,
    tasks: Tasks,
    clock: Clock,
}

impl Services {
    /// Starts everything; when this returns, the API answers and the kubeconfig is written.
    pub(crate) async fn start(plan: Plan, shutdown: Shutdown) -> anyhow::Result<Self> {
        let Plan {
            data_dir,
            listen,
            hub,
            members,
            authorization,
            kubeconfig: kubeconfig_path,
        } = plan;
        let clock = Clock::system();
        let tasks = Tasks::new(shutdown);
        let metrics = Metrics::new()?;
        let rendered = metrics.clone();
        let requests = RequestMetrics::new(&metrics.meter("apiserver"), move || {
            rendered.render().unwrap_or_default()
        });
        let options = FleetOptions {
            data_dir,
            listen,
            hub,
            members,
            authorization,
            clock: clock.clone(),
            limits: Limits::default(),
        };
        let fleet = Fleet::start(options, &tasks, requests).await?;
        files::write_private(&kubeconfig_path, kubeconfig::of(&fleet).as_bytes())
            .context("writing the kubeconfig")?;
        Ok(Self {
            fleet,
            tasks,
            clock,
        })
    }

    /// The owner of all tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Waits for the shutdown, drains, and closes what must be closed.
    pub(crate) async fn run_until_shutdown(self) -> anyhow::Result<()> {
        let ends = self.tasks.finish(&self.clock, PATIENCE).await;
        self.fleet.close().await;
        match ends.into_iter().next() {
            None => Ok(()),
            Some(end) => Err(anyhow::Error::new(end)),
        }
    }
}
