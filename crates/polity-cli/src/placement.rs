//! `polity placement`: what placements decide, and why.

mod answer;
mod explain;

use crate::exit::Exit;

/// See which clusters a placement chooses, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity placement explain web -m fleet/")]
pub struct PlacementArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Explain(explain::ExplainArgs),
}

impl PlacementArgs {
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Explain(args) => args.run(),
        }
    }
}
