//! `cargo xtask test`: everything that can be tested on this machine, and a word about what cannot.

pub(crate) mod program;

use std::process::Command;

use anyhow::{Result, bail};
use peers::{Missing, Tool, tools};

use crate::{policies, shell, up};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run only tests whose name contains this
    filter: Option<String>,

    /// Test only this crate; may be given several times
    #[arg(short, long)]
    package: Vec<String>,

    /// Arguments for the test programs, such as `-- --nocapture`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if self.needs_policies() {
            // Without the crates or the compiler they need, their tests are left out below.
            policies::build()
                .inspect_err(|error| eprintln!("no policies: {error:#}"))
                .ok();
        }
        let missing = missing_tools();
        refuse_in_ci(&missing)?;
        let built = shell::target_folder()?.join("debug/deps").exists();
        let first = "up to ten minutes on two cores the first time";
        eprintln!("testing ({})", if built { "some minutes" } else { first });
        let (outcome, took) = shell::timed(|| {
            // End-to-end tests drive the program, and cargo does not build it for another package's tests.
            if self.drives_the_program() {
                shell::run(&mut up::build_command())?;
            }
            shell::run(&mut self.command(&runner()?))
        });
        tell_left_out(&missing);
        outcome?;
        eprintln!("tests passed in {}", shell::duration(took));
        Ok(())
    }

    /// End-to-end tests do, and cargo does not build a program for another package's tests.
    fn drives_the_program(&self) -> bool {
        self.package.is_empty() || self.package.iter().any(|package| package == "e2e")
    }

    /// Whoever evaluates policies tests with ours.
    fn needs_policies(&self) -> bool {
        let users = ["polity-eval", "polity-admission", "polity-cli", "e2e"];
        self.package.is_empty()
            || self
                .package
                .iter()
                .any(|package| users.contains(&package.as_str()))
    }

    fn command(&self, config: &str) -> Command {
        let mut command = shell::cargo(["--config", config, "test"]);
        if self.package.is_empty() {
            command.arg("--workspace");
        }
        for package in &self.package {
            command.args(["--package", package]);
        }
        command.args(&self.filter);
        if !self.arguments.is_empty() {
            command.arg("--").args(&self.arguments);
        }
        command
    }
}

/// The configuration with which cargo starts every test program through [`program`].
fn runner() -> Result<String> {
    let us = std::env::current_exe()?;
    Ok(format!(
        "target.'cfg(all())'.runner = [{:?}, \"test-program\"]",
        us.display().to_string()
    ))
}

/// The tools that some tests need and that are not there.
pub(crate) fn missing_tools() -> Vec<Missing> {
    Tool::ALL
        .into_iter()
        .filter_map(|tool| tool.find().err())
        .collect()
}

/// With `CI=true` a test that cannot run is a failure.
fn refuse_in_ci(missing: &[Missing]) -> Result<()> {
    if tools::in_ci() && !missing.is_empty() {
        tell_left_out(missing);
        bail!(
            "CI=true and {} would have to be left out",
            count(missing.len())
        );
    }
    Ok(())
}

fn tell_left_out(missing: &[Missing]) {
    if missing.is_empty() {
        return;
    }
    eprintln!("\nLEFT OUT: {}", count(missing.len()));
    for Missing { what, why, mend } in missing {
        eprintln!("  - {what}\n      because {why}\n      to run them: {mend}");
    }
    eprintln!();
}

fn count(n_kinds: usize) -> String {
    if n_kinds == 1 {
        "one kind of tests".to_owned()
    } else {
        format!("{n_kinds} kinds of tests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_runs() {
        let check = |args: Args, expected: &str| {
            let command = args.command("config");
            assert_eq!(
                shell::shown(&command).split_once(' ').unwrap().1,
                format!("--config config {expected}")
            );
        };
        check(Args::default(), "test --workspace");
        let args = Args {
            filter: Some("watch".to_owned()),
            package: vec!["polity-store".to_owned()],
            arguments: vec!["--nocapture".to_owned()],
        };
        check(args, "test --package polity-store watch -- --nocapture");
    }
}
