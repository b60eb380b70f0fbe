//! Repository tasks: build, test, tidy, generate, and the real Kubernetes.
//!
//! Everything that CI or a contributor runs is a command here, and the `justfile` lists them. Messages go to standard
//! error, with the duration of each step.

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
    // Without clap's `--help`, so that it is passed to polity; `cargo xtask help up` shows ours.
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  cargo xtask up\n  cargo xtask up --clusters 2\n  cargo xtask up --help"
    )]
    Up(up::Args),
    /// Print the shell variables that make `polity` and its other names available
    #[command(after_help = "Example:\n  eval \"$(cargo xtask env)\"")]
    Env(env::Args),
    /// Run every test that the tools on this machine allow
    #[command(
        after_help = "Examples:\n  cargo xtask test\n  cargo xtask test watch\n  cargo xtask test -p polity-store"
    )]
    Test(test::Args),
    /// Run every check that a change must pass before it is merged
    Ci(ci::Args),
    /// Send the same requests to a real API server and to the embedded one, and compare the responses
    #[command(
        after_help = "Examples:\n  cargo xtask differential\n  cargo xtask differential \"apply: conflicts\""
    )]
    Differential(runners::Differential),
    /// Check rules beyond the compiler: dependencies between crates, versions, features, file headers, links
    Tidy(tidy::Args),
    /// Write the files that are generated from code: config/crd, config/install and docs/reference
    Generate(generate::Args),
    /// Write crates/workspace-hack after a change of dependencies
    Features(features::Args),
    /// Write config/gateway-api from the Go module of Gateway API
    GatewayApi(gateway_api::Args),
    /// Build or run the real Kubernetes that tests compare with
    #[command(
        after_help = "Examples:\n  cargo xtask kube build\n  cargo xtask kube kubectl v1.29.6\n  \
        cargo xtask kube up && eval \"$(cargo xtask kube env)\"\n  cargo xtask kube down"
    )]
    Kube(kube::Args),
    /// Build our policies to Wasm
    Policies(policies::Args),
    /// Run benchmarks with the profile of published artefacts
    #[command(
        after_help = "Examples:\n  cargo xtask bench admission\n  cargo xtask bench --profile release admission\n  cargo xtask bench builds"
    )]
    Bench(runners::Bench),
    /// Kill writing processes repeatedly and verify that no data is lost
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
