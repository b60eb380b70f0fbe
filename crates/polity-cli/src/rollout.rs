//! `polity rollout`: what a rollout would do next, and how it would go, without a cluster.

mod plan;
mod simulate;
mod timeline;

use crate::exit::Exit;

/// Plan and simulate rollouts of policies over clusters
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity rollout plan limits -m policies/
  polity rollout simulate docs/scenarios/canary.yaml")]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RolloutCommand {
    Plan(plan::PlanArgs),
    Simulate(simulate::SimulateArgs),
}

impl RolloutArgs {
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            RolloutCommand::Plan(args) => args.run(),
            RolloutCommand::Simulate(args) => args.run(),
        }
    }
}
