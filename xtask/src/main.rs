//! Repository chores: build, test, tidy, generate, and the real Kubernetes peers.
//!
//! Everything that CI or a contributor runs is a command here; the `justfile` is a menu of it. Messages go to standard
//! error, with the time that each step took.

mod ci;
mod env;
mod features;
mod gateway_api;
mod generate;
mod kube;
mod policies;
mod runners;
mod shell;
mod test;
mod tidy;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and maintain Polity
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build Polity and run `polity up` with the given arguments
    // `--help` too is for polity; `cargo xtask help up` is ours.
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  cargo xtask up\n  cargo xtask up --clusters 2\n  cargo xtask up --help"
    )]
    Up(up::Args),
    /// Print the variables with which a shell finds `polity` and its other names
    #[command(after_help = "Example:\n  eval \"$(cargo xtask env)\"")]
    Env(env::Args),
    /// Run every test that the tools on this machine allow
    #[command(
        after_help = "Examples:\n  cargo xtask test\n  cargo xtask test watch\n  cargo xtask test -p polity-store"
    )]
    Test(test::Args),
    /// Run every check that a change must pass before it is merged
    Ci(ci::Args),
    /// Send the same requests to a real API server and to ours, and compare the responses
    #[command(
        after_help = "Examples:\n  cargo xtask differential\n  cargo xtask differential \"apply: conflicts\""
    )]
    Differential(runners::Differential),
    /// Check what the compiler does not: dependencies between crates, versions, features, file headers, links
    Tidy(tidy::Args),
    /// Write the files that are made from code: config/crd and docs/reference
    Generate(generate::Args),
    /// Write crates/workspace-hack, after a change of dependencies
    Features(features::Args),
    /// Write config/gateway-api from the Go module of Gateway API
    GatewayApi(gateway_api::Args),
    /// Build or run the real Kubernetes, to compare with
    #[command(
        after_help = "Examples:\n  cargo xtask kube build\n  cargo xtask kube kubectl v1.29.6\n  \
        cargo xtask kube up && eval \"$(cargo xtask kube env)\"\n  cargo xtask kube down"
    )]
    Kube(kube::Args),
    /// Build our own policies for Wasm
    Policies(policies::Args),
    /// Measure the store, policy servers or builds, with the profile of published artefacts
    #[command(
        after_help = "Examples:\n  cargo xtask bench admission\n  cargo xtask bench --profile release admission\n  cargo xtask bench builds"
    )]
    Bench(runners::Bench),
    /// Kill processes that write, again and again, and verify that nothing is lost
    Chaos(runners::Chaos),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Up(args) => args.run(),
        Command::Env(args) => args.run(),
        Command::Test(args) => args.run(),
        Command::Ci(args) => args.run(),
        Command::Differential(args) => args.run(),
        Command::Tidy(args) => args.run(),
        Command::Generate(args) => args.run(),
        Command::Features(args) => args.run(),
        Command::GatewayApi(args) => args.run(),
        Command::Kube(args) => args.run(),
        Command::Policies(args) => args.run(),
        Command::Bench(args) => args.run(),
        Command::Chaos(args) => args.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
