//! Starts and stops the real Kubernetes for manual use. `cargo xtask kube` runs it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use peers::detached::{self, Running};

#[derive(Parser)]
#[command(about = "Run the real Kubernetes on loopback")]
enum Args {
    /// Start the cluster unless it is running
    Up,
    /// Stop the cluster and remove its data
    Down,
    /// Print the shell variables to use the cluster
    Env,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    match args {
        Args::Up => {
            eprintln!(
                "starting etcd, kube-apiserver and kube-controller-manager (about five seconds)"
            );
            let running = detached::up()?;
            for (name, id) in &running.processes {
                eprintln!("  {name} (process {id})");
            }
            eprintln!("ready at {}", running.url);
            eprintln!("next: eval \"$(cargo xtask kube env)\" && kubectl get namespaces");
        }
        Args::Down => {
            let stopped = detached::down()?;
            eprintln!(
                "{}",
                if stopped {
                    "stopped, and its data was removed"
                } else {
                    "no cluster was running"
                }
            );
        }
        Args::Env => match detached::running()? {
            Some(running) => print_env(&running)?,
            None => bail!("no cluster is running; run: cargo xtask kube up"),
        },
    }
    Ok(())
}

/// Prints to standard output, for `eval`.
fn print_env(running: &Running) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "export KUBECONFIG='{}'", running.kubeconfig.display())?;
    if let Some(folder) = running.kubectl.parent() {
        writeln!(out, "export PATH='{}':\"$PATH\"", folder.display())?;
    }
    Ok(())
}
