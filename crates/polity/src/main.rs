//! The one binary: parses arguments and composes services and commands.
//!
//! Called as `kubectl-polity` it is itself, so that `kubectl polity …` works. Called as `policy-server` it is
//! `polity server`, and as `kwctl` it is `polity policy`, so that unit files, containers and scripts work unchanged.

mod apiserver;
mod backup;
mod banner;
mod controller;
mod defaults;
mod detach;
mod gateway_api;
mod help;
mod hub;
mod install;
mod markdown;
mod pods;
mod samples;
mod server;
mod services;
mod uninstall;
mod up;
mod usage;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, Parser, Subcommand};
use polity_cli::exit::{self, Exit};
use polity_cli::{
    attachment, doctor, down, dryrun, lint, logs, placement, policy, report, reset, rollout,
    status, template, version,
};
use polity_runtime::logs::{LogArgs, LogError, Logging};

use crate::help::CalledAs;

/// The hidden flag by which `polity policy` ends as scripts for kwctl expect it.
const AS_KWCTL: &str = "--as-kwctl";

/// Policy control plane for Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "polity",
    version,
    about = "Polity is a policy control plane for Kubernetes: admission policies, policies over many clusters, reports, and policy attachment",
    after_help = "Start here:\n  polity up            start a Kubernetes API with Polity on this machine\n  polity status        show what runs\n  polity doctor        report problems and how to fix them",
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
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
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
    Uninstall(uninstall::UninstallArgs),
    Server(Box<server::ServerArgs>),
    Template(template::TemplateArgs),
    Version(version::VersionArgs),
    Completion(CompletionArgs),
    /// Show the options that all commands take
    #[command(hide = true)]
    Options,
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

/// Run, inspect, fetch and publish admission policies, and follow those of a cluster
#[derive(Debug, Parser)]
#[command(name = "kwctl", version, propagate_version = true)]
struct Kwctl {
    #[command(flatten)]
    policy: policy::PolicyArgs,
    #[command(flatten)]
    logs: LogArgs,
}

/// Serve policies to the Kubernetes API
#[derive(Debug, Parser)]
#[command(name = "policy-server", version)]
struct PolicyServer {
    #[command(flatten)]
    server: Box<server::ServerArgs>,
    #[command(flatten)]
    logs: LogArgs,
}

fn main() -> ExitCode {
    // Before anything else: a child that is to be a Pod is this program for a moment.
    if let Some(code) = polity_local::process::launch::intercept(std::env::args_os()) {
        return code;
    }
    polity_runtime::tls::install_provider();
    let invocation = match parsed(std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let is_wrong = error.use_stderr();
            error.print().ok();
            return if is_wrong {
                ExitCode::from(64)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(invocation) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}

/// What a command line asks for.
struct Invocation {
    command: Command,
    logs: LogArgs,
    /// Whether the command line or the environment says how to log.
    chooses_logs: bool,
}

/// The command that is meant, by the arguments and by the name that the program was called by.
fn parsed(mut arguments: Vec<OsString>) -> Result<Invocation, clap::Error> {
    let called = called_as(&arguments);
    let (command, logs, chooses_logs) = match called {
        CalledAs::Polity | CalledAs::KubectlPlugin => {
            let (Cli { command, logs }, chooses_logs) = parsed_as(called, arguments)?;
            (command, logs, chooses_logs)
        }
        CalledAs::Kwctl => {
            arguments.insert(1, AS_KWCTL.into());
            let (Kwctl { policy, logs }, chooses_logs) = parsed_as(called, arguments)?;
            (Command::Policy(policy), logs, chooses_logs)
        }
        CalledAs::PolicyServer => {
            let (PolicyServer { server, logs }, chooses_logs) = parsed_as(called, arguments)?;
            (Command::Server(server), logs, chooses_logs)
        }
    };
    Ok(Invocation {
        command,
        logs,
        chooses_logs,
    })
}

/// Parses a command line; also whether it, or the environment, says how to log.
fn parsed_as<P: Parser>(
    called: CalledAs,
    arguments: Vec<OsString>,
) -> Result<(P, bool), clap::Error> {
    let mut command = usage::numbers_may_be_negative(help::dressed(P::command(), called));
    let parsed = command.try_get_matches_from_mut(arguments.clone());
    let mut matches = parsed.map_err(|error| usage::rephrase(error, &command, &arguments))?;
    let is_chosen = |matches: &clap::ArgMatches| {
        ["log_level", "log_fmt"].iter().any(|id| {
            !matches!(
                matches.value_source(id),
                None | Some(ValueSource::DefaultValue)
            )
        })
    };
    let chooses_logs = is_chosen(&matches)
        || matches
            .subcommand()
            .is_some_and(|(_, matches)| is_chosen(matches));
    let parsed =
        P::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    Ok((parsed, chooses_logs))
}

/// Runs `polity up`. Unless the command line or the environment chooses how to log, the log is a file of bounded size in
/// the data directory, and an instance in the foreground prints warnings only.
fn up(mut args: up::UpArgs, logs: &LogArgs, chooses_logs: bool) -> anyhow::Result<Exit> {
    if args.detach {
        return detach::run(&args, chooses_logs);
    }
    if chooses_logs {
        return serve(logs, args.run());
    }
    let log = args.open_log()?;
    block_on(async {
        let logging = if args.in_background {
            logs.init_in_file(&log)?
        } else {
            logs.init_with_file(&log)?
        };
        args.log = Some(log);
        let outcome = Box::pin(args.run()).await;
        logging.finish();
        outcome
    })
}

fn called_as(arguments: &[OsString]) -> CalledAs {
    let program = arguments
        .first()
        .and_then(|program| Path::new(program).file_name()?.to_str());
    CalledAs::of(program)
}

/// The command line of `polity` itself that a call by whatever name stands for.
fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let words: &[&str] = match called_as(&arguments) {
        CalledAs::Polity | CalledAs::KubectlPlugin => &[],
        CalledAs::Kwctl => &["policy", AS_KWCTL],
        CalledAs::PolicyServer => &["server"],
    };
    let after_name = arguments.len().min(1);
    let words = words.iter().map(OsString::from);
    drop(arguments.splice(after_name..after_name, words));
    arguments
}

fn run(invocation: Invocation) -> anyhow::Result<Exit> {
    let Invocation {
        command,
        logs,
        chooses_logs,
    } = invocation;
    let logs = &logs;
    match command {
        Command::Version(args) => args.run(polity_apiserver::version::GIT_VERSION),
        Command::Reset(args) => args.run(),
        Command::Backup(args) => args.run(),
        Command::Restore(args) => block_on(args.run()),
        Command::Rollout(args) => block_on(args.run()),
        Command::Lint(args) => args.run(),
        Command::Placement(args) => args.run(),
        Command::Completion(CompletionArgs { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "polity", &mut script);
            std::io::stdout().lock().write_all(&script)?;
            Ok(Exit::Fine)
        }
        Command::Options => {
            let options = help::common_options(&Cli::command());
            std::io::stdout().lock().write_all(options.as_bytes())?;
            Ok(Exit::Fine)
        }
        Command::MarkdownHelp => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(markdown::page(Cli::command()).as_bytes())?;
            Ok(Exit::Fine)
        }
        Command::Up(args) => up(args, logs, chooses_logs),
        Command::Apiserver(args) => serve(logs, args.run()),
        Command::Controller(args) => serve(logs, args.run()),
        Command::Install(args) => block_on(args.run()),
        Command::Uninstall(args) => block_on(args.run()),
        Command::Server(args) => args.run(logs),
        Command::Down(args) => block_on(args.run()),
        Command::Status(args) => block_on(args.run()),
        Command::Doctor(args) => block_on(args.run()),
        Command::Logs(args) => block_on(args.run()),
        Command::Dryrun(args) => block_on(args.run()),
        Command::Attachment(command) => block_on(command.run()),
        Command::Policy(args) => with_logs(|| logs.init_command(), args.run()),
        Command::Report(args) => block_on(args.run()),
        Command::Template(args) => block_on(args.run()),
    }
}

/// Runs a process with its logs.
fn serve(
    logs: &LogArgs,
    future: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    with_logs(|| logs.init("polity"), future)
}

/// Runs a process or a command with logs, which are set up within the runtime that pushes them.
fn with_logs(
    logs: impl FnOnce() -> Result<Logging, LogError>,
    future: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    block_on(async {
        let logging = logs()?;
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
