//! The one binary: parses arguments and composes services and commands.
//!
//! Called as `kubectl-polity` it is itself, so that `kubectl polity …` works; called as
//! `policy-server` it is `polity server`, and as `kwctl` it is `polity policy`, so that unit files,
//! containers and scripts need no other words.

mod apiserver;
mod banner;
mod controller;
mod defaults;
mod detach;
mod hub;
mod install;
mod markdown;
mod pods;
mod samples;
mod server;
mod services;
mod up;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use polity_cli::exit::{self, Exit};
use polity_cli::{
    attachment, doctor, down, dryrun, lint, logs, placement, policy, report, reset, rollout,
    status, template, version,
};
use polity_runtime::logs::LogArgs;

/// Policy control plane for Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "polity",
    version,
    about = "Polity governs Kubernetes by policy: at admission, over many clusters, with reports, and with an answer for every object owner",
    after_help = "Start here:\n  polity up            a Kubernetes API with everything in it, on this machine\n  polity status        what runs, and where\n  polity doctor        what is wrong, and what to do about it",
    propagate_version = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::UpArgs),
    Down(down::DownArgs),
    Status(status::StatusArgs),
    Reset(reset::ResetArgs),
    Doctor(doctor::DoctorArgs),
    Logs(logs::LogsArgs),
    Dryrun(dryrun::DryrunArgs),
    Placement(placement::PlacementArgs),
    Policy(policy::PolicyArgs),
    Rollout(rollout::RolloutArgs),
    Lint(lint::LintArgs),
    Report(report::ReportArgs),
    #[command(flatten)]
    Attachment(attachment::AttachmentCommand),
    Apiserver(apiserver::ApiserverArgs),
    Controller(Box<controller::ControllerArgs>),
    Install(install::InstallArgs),
    Server(Box<server::ServerArgs>),
    Template(template::TemplateArgs),
    Version(version::VersionArgs),
    Completion(CompletionArgs),
    /// Print the command reference as Markdown
    #[command(name = "markdown-help", hide = true)]
    MarkdownHelp,
}

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  source <(polity completion bash)\n  polity completion zsh > ~/.zfunc/_polity"
)]
struct CompletionArgs {
    shell: clap_complete::Shell,
}

fn main() -> ExitCode {
    // Before anything else: a child that is to be a Pod is this program for a moment.
    if let Some(code) = polity_local::process::launch::intercept(std::env::args_os()) {
        return code;
    }
    polity_runtime::tls::install_provider();
    let Cli { command, logs } = match Cli::try_parse_from(arguments(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            let wrong = error.use_stderr();
            error.print().ok();
            return if wrong {
                ExitCode::from(64)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(command, &logs) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}

/// The command line, with the words that the program's name stands for.
fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let name = arguments
        .first()
        .and_then(|program| Path::new(program).file_name()?.to_str());
    let words: &[&str] = match name {
        Some("policy-server") => &["server"],
        Some("kwctl") => &["policy", "--as-kwctl"],
        _ => &[],
    };
    let after_name = arguments.len().min(1);
    let words = words.iter().map(OsString::from);
    drop(arguments.splice(after_name..after_name, words));
    arguments
}

fn run(command: Command, logs: &LogArgs) -> anyhow::Result<Exit> {
    match command {
        Command::Version(args) => args.run(polity_apiserver::version::GIT_VERSION),
        Command::Reset(args) => args.run(),
        Command::Rollout(args) => args.run(),
        Command::Lint(args) => args.run(),
        Command::Placement(args) => args.run(),
        Command::Completion(CompletionArgs { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "polity", &mut script);
            std::io::stdout().lock().write_all(&script)?;
            Ok(Exit::Fine)
        }
        Command::MarkdownHelp => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(markdown::page(Cli::command()).as_bytes())?;
            Ok(Exit::Fine)
        }
        Command::Up(args) if args.detach => detach::run(&args),
        Command::Up(args) => serve(logs, args.run()),
        Command::Apiserver(args) => serve(logs, args.run()),
        Command::Controller(args) => serve(logs, args.run()),
        Command::Install(args) => block_on(args.run()),
        Command::Server(args) => args.run(logs),
        Command::Down(args) => block_on(args.run()),
        Command::Status(args) => block_on(args.run()),
        Command::Doctor(args) => block_on(args.run()),
        Command::Logs(args) => block_on(args.run()),
        Command::Dryrun(args) => block_on(args.run()),
        Command::Attachment(command) => block_on(command.run()),
        Command::Policy(args) => serve(logs, args.run()),
        Command::Report(args) => block_on(args.run()),
        Command::Template(args) => block_on(args.run()),
    }
}

/// Runs a process, or what policies log in: with logs.
fn serve(
    logs: &LogArgs,
    future: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    block_on(async {
        let logging = logs.init("polity")?;
        let outcome = future.await;
        logging.finish();
        outcome
    })
}

fn block_on(future: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}
