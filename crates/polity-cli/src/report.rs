//! `polity report`: what policies say about the objects of a cluster, or of files.

mod csv;
mod filter;
mod html;
mod sarif;
mod table;
mod view;

use crate::exit::Exit;

/// Read policy reports
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity report view
  polity report view -n shop --result fail,error --list")]
pub struct ReportArgs {
    #[command(subcommand)]
    command: ReportCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReportCommand {
    View(view::ViewArgs),
}

impl ReportArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            ReportCommand::View(args) => args.run().await,
        }
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;
