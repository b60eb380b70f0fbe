//! `cargo xtask up`: builds Polity in a clone and runs it.

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
        // Without their compiler the sample policies are not built, and polity starts without them.
        policies::build()
            .inspect_err(|error| eprintln!("no sample policies: {error:#}"))
            .ok();
        let (built, took) = shell::timed(|| shell::run(&mut build_command()));
        built?;
        eprintln!("built in {}, starting", shell::duration(took));
        // Replaces this process, so that signals and the exit status are those of polity.
        let error = Command::new(&program).arg("up").args(self.arguments).exec();
        Err(error).with_context(|| format!("starting {}", program.display()))
    }
}

/// Builds with the features of the whole workspace. `-p polity` alone would disable some in shared dependencies, and
/// the tests would compile these again.
pub(crate) fn build_command() -> Command {
    shell::cargo(["build", "--workspace", "--bin", "polity"])
}
