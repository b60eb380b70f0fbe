//! `polity rollout`: how far a rollout on a hub is, what it would do next, and how it would go.

mod live;
mod plan;
mod simulate;
mod status;
mod timeline;
mod view;

use crate::exit::Exit;

/// Follow, plan and simulate rollouts of policies over clusters
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity rollout status limits
  polity rollout plan limits -m policies/
  polity rollout simulate docs/scenarios/canary.yaml")]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RolloutCommand {
    Status(status::StatusArgs),
    Plan(plan::PlanArgs),
    Simulate(simulate::SimulateArgs),
}

impl RolloutArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            RolloutCommand::Status(args) => args.run().await,
            RolloutCommand::Plan(args) => args.run(),
            RolloutCommand::Simulate(args) => args.run(),
        }
    }
}
