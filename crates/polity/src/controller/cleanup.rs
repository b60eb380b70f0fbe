//! `polity controller --cleanup`: a run for an uninstall job, with its progress on stderr.

use anyhow::bail;
use kube::Client;
use polity_cli::exit::{Exit, Hinted};
use polity_lifecycle::cleanup::{Cleanup, CleanupError};
use polity_runtime::args::HumanDuration;
use polity_runtime::{Clock, Shutdown, env};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Uninstall")]
pub(super) struct CleanupArgs {
    // No variable stands for it: nobody deletes everything because of an environment that was copied.
    /// Delete all policies and policy servers, stop the controller's Deployment, and end; for an uninstall job
    #[arg(long, requires = "controller_deployment_name")]
    pub(super) cleanup: bool,
    /// The Deployment of the controller, in the namespace of the policy servers
    #[arg(long, env = env::CONTROLLER_DEPLOYMENT_NAME, value_name = "NAME")]
    pub(super) controller_deployment_name: Option<String>,
    /// How long the cleanup may take before it says what is left, and why, and fails
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        requires = "cleanup"
    )]
    pub(super) cleanup_timeout: HumanDuration,
}

impl CleanupArgs {
    /// The Deployment to stop, if that is what is asked for.
    pub(super) fn asked_for(&self) -> Option<String> {
        let name = self.controller_deployment_name.clone();
        name.filter(|_| self.cleanup)
    }
}

/// Cleans up, or says what is left.
pub(super) async fn run(
    client: Client,
    namespace: String,
    deployment: String,
    timeout: HumanDuration,
    shutdown: Shutdown,
) -> anyhow::Result<Exit> {
    let cleanup = Cleanup {
        client,
        clock: Clock::system(),
        namespace,
        deployment,
        timeout: timeout.0,
    };
    let outcome = shutdown.run_until(cleanup.run(|progress| eprintln!("{progress}")));
    match outcome.await {
        None => bail!("stopped before everything was gone; run it again to go on"),
        Some(Ok(())) => {
            eprintln!("policies and policy servers are gone");
            Ok(Exit::Fine)
        }
        Some(Err(error @ CleanupError::Deadline { .. })) => {
            let hint = "who set a finalizer that is not kubewarden.io/finalizer has to remove it; run it again to go on";
            Err(Hinted::new(error.to_string(), hint).into())
        }
        Some(Err(error)) => Err(error.into()),
    }
}
