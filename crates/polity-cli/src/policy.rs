//! `polity policy`: admission policies. Modules are run without a server, inspected, fetched and published; policies of a
//! cluster are followed and rolled back.

mod annotate;
mod bench;
mod digest;
mod inspect;
mod judge;
pub(crate) mod lifecycle;
mod list;
mod progress;
mod pull;
mod push;
mod reference;
mod remove;
mod request;
mod run;
mod sources;
mod subject;
mod verification;

use crate::exit::Exit;

/// Run, inspect and publish admission policies; follow those of a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What does a policy decide about a request?
  polity policy run ./policy.wasm -r request.json \\
      --settings-json '{\"exempt\": [\"edge\"]}'

  # Describe it, publish it, and pin what was published
  polity policy annotate mine.wasm -m metadata.yml -o policy.wasm
  polity policy push ./policy.wasm registry.example.com/policies/mine:v1
  polity policy digest registry.example.com/policies/mine:v1

  # In a cluster: is the change active, and why not? Roll it back
  polity policy status team-label -n shop
  polity policy rollback team-label -n shop --wait

A module is named by a file, by the beginning of its SHA-256 once it was
fetched, or by its source: registry://host/name:tag (the scheme may be left
out), https://, file://.
A link to this program with the name `kwctl` is this command; its `run` has exit
code 0 also for a rejected request.")]
pub struct PolicyArgs {
    /// Use the exit codes of kwctl
    #[arg(long, hide = true)]
    as_kwctl: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Bench(Box<bench::BenchArgs>),
    Inspect(inspect::InspectArgs),
    Pull(pull::PullArgs),
    Push(push::PushArgs),
    Digest(digest::DigestArgs),
    Annotate(annotate::AnnotateArgs),
    #[command(visible_alias = "policies")]
    Modules(list::ListArgs),
    Rm(remove::RemoveArgs),
    Status(lifecycle::StatusArgs),
    History(lifecycle::HistoryArgs),
    Wait(lifecycle::WaitArgs),
    Rollback(lifecycle::RollbackArgs),
}

/// How a rejected request ends the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Finding,
    /// Scripts for `kwctl` read the verdict, and take a code other than 0 for a failure.
    Answer,
}

impl PolicyArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self { as_kwctl, command } = self;
        let refusal = if as_kwctl {
            Refusal::Answer
        } else {
            Refusal::Finding
        };
        match command {
            Command::Run(args) => args.run(refusal).await,
            Command::Bench(args) => args.run().await,
            Command::Inspect(args) => args.run().await,
            Command::Pull(args) => args.run().await,
            Command::Push(args) => args.run().await,
            Command::Digest(args) => args.run().await,
            Command::Annotate(args) => args.run().await,
            Command::Modules(args) => args.run(),
            Command::Rm(args) => args.run(),
            Command::Status(args) => args.run().await,
            Command::History(args) => args.run().await,
            Command::Wait(args) => args.run().await,
            Command::Rollback(args) => args.run().await,
        }
    }
}
