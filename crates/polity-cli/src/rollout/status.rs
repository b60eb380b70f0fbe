//! `polity rollout status`: how far a rollout on a live hub is.

use polity_runtime::clock::Clock;

use super::live::{LiveRollout, NamedRollout};
use super::plan::whole_seconds;
use super::view::RolloutView;
use crate::exit::Exit;
use crate::output::{OutputArgs, Paint};

/// Show how far a rollout is: which clusters enforce, soak, failed or wait, and for what
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity rollout status limits
  polity rollout status limits -n policies -o json

Reads the root policy, its PlacementBindings, the PlacementDecisions and the
replicas in the namespaces of the clusters from the hub.

Exit codes: 0 fine, 1 the rollout has failed or its strategy is refused,
2 error.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    rollout: NamedRollout,
}

impl StatusArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self { output, rollout } = self;
        let rollout = rollout.find().await?;
        let view = look(&rollout, &Clock::system()).await?;
        output.print(&view, |view| view.table(Paint::for_stdout()))?;
        Ok(if view.is("Failed") {
            Exit::Findings
        } else {
            Exit::Fine
        })
    }
}

/// The rollout as it is now.
pub(super) async fn look(rollout: &LiveRollout, clock: &Clock) -> anyhow::Result<RolloutView> {
    let hub = rollout.read().await?;
    let now = whole_seconds(clock.now());
    let view = RolloutView::new(&hub, &rollout.key, now);
    view.ok_or_else(|| anyhow::anyhow!("the policy {} was deleted", rollout.key))
}

#[cfg(test)]
mod cluster_tests;
