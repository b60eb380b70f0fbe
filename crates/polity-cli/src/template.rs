//! `polity template`: templates resolved and looked over without anything that runs.

mod lint;
mod resolve;

use crate::exit::Exit;

/// Resolve and check the templates in policies
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity template lint policies/*.yaml
  polity template resolve policy.yaml --resources cluster/")]
pub struct TemplateArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Resolve(Box<resolve::ResolveArgs>),
    Lint(lint::LintArgs),
}

impl TemplateArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self { command } = self;
        match command {
            Command::Resolve(args) => args.run().await,
            Command::Lint(args) => args.run(),
        }
    }
}
