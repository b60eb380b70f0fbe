//! `cargo xtask up`: from a clone to a running Polity.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{policies, shell};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments of `polity up`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let program = shell::target_folder()?.join("debug/polity");
        if program.exists() {
            eprintln!("building polity (seconds, unless much has changed)");
        } else {
            eprintln!("building polity for the first time (up to ten minutes on two cores, once)");
        }
        // Without the compiler they need there are no samples, and everything else is as it is.
        policies::build()
            .inspect_err(|error| eprintln!("no sample policies: {error:#}"))
            .ok();
        let (built, took) = shell::timed(|| shell::run(&mut build_command()));
        built?;
        eprintln!("built in {}, starting", shell::duration(took));
        // In our place, so that signals and the exit status are Polity's own.
        let error = Command::new(&program).arg("up").args(self.arguments).exec();
        Err(error).with_context(|| format!("starting {}", program.display()))
    }
}

/// With the features of the whole workspace: `-p polity` alone would switch some off in shared dependencies, and the
/// tests would then compile those again.
pub(crate) fn build_command() -> Command {
    shell::cargo(["build", "--workspace", "--bin", "polity"])
}
