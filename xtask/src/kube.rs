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
    /// Build etcd, kube-apiserver, kube-controller-manager and kubectl, once
    Build,
    /// Build kubectl of another release, as v1.29.6
    Kubectl { version: String },
    /// Build the informer of client-go that tests watch with
    Informer,
    /// Start them on loopback, with their own certificates and RBAC
    Up,
    /// Stop them and remove their data
    Down,
    /// Print the lines that point a shell at them
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

/// What the tests compare with, as far as this machine can build it.
pub(crate) fn build_what_tests_need() -> Result<()> {
    if let Err(error) = build::find_go() {
        if tools::in_ci() {
            bail!(error);
        }
        eprintln!("left out: {error:#}");
        return Ok(());
    }
    build::kubernetes(KUBERNETES)?;
    build::kubectl(OLD_KUBECTL)?;
    build::informer()
}

/// By a program of its own: it makes certificates, and xtask should not have to compile cryptography.
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
