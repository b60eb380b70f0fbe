//! `cargo xtask kube`: the real Kubernetes, built once from its Go modules and run on loopback.

mod build;
mod recipe;

use std::os::unix::process::CommandExt;
use std::process;

use anyhow::{Context, Result, bail};
use peers::tools::{self, KUBERNETES, OLD_KUBECTL};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Build etcd, kube-apiserver, kube-controller-manager and kubectl (only once)
    Build,
    /// Build kubectl of another release, such as v1.29.6
    Kubectl { version: String },
    /// Build the client-go informer that tests use
    Informer,
    /// Start the cluster on loopback, with its own certificates and RBAC
    Up,
    /// Stop the cluster and remove its data
    Down,
    /// Print the shell variables to use the cluster
    Env,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            Command::Build => build::kubernetes(KUBERNETES),
            Command::Kubectl { version } => build::kubectl(&version),
            Command::Informer => build::informer(),
            Command::Up => {
                build::kubernetes(KUBERNETES)?;
                peers("up")
            }
            Command::Down => peers("down"),
            Command::Env => peers("env"),
        }
    }
}

/// Builds the tools that tests compare with, as far as this machine can build them.
pub(crate) fn build_what_tests_need() -> Result<()> {
    if let Err(error) = build::find_go() {
        if tools::in_ci() {
            bail!(error);
        }
        eprintln!("skipped: {error:#}");
        return Ok(());
    }
    build::kubernetes(KUBERNETES)?;
    build::kubectl(OLD_KUBECTL)?;
    build::informer()
}

/// Runs the `peers` binary, so that xtask does not compile cryptography for certificates.
fn peers(command: &str) -> Result<()> {
    let build = [
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "peers",
        "--features",
        "peers/cluster",
    ];
    shell::run(&mut shell::cargo(build))?;
    let program = shell::target_folder()?.join("debug/peers");
    let error = process::Command::new(&program).arg(command).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}
