//! `cargo xtask test`: runs every test that the tools on this machine allow, and prints what it skipped.

mod programs;

use std::process::Command;

use anyhow::{Result, bail};
use peers::{Missing, Tool, tools};

use crate::{policies, shell, up};
use programs::Program;

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run only tests whose name contains this text
    filter: Option<String>,

    /// Test only this crate; can be given several times
    #[arg(short, long)]
    package: Vec<String>,

    /// Arguments for the test programs, such as `-- --nocapture`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if self.needs_policies() {
            // Without their compiler the policies are not built, and the tests that need them are skipped and
            // reported.
            policies::build()
                .inspect_err(|error| eprintln!("no policies: {error:#}"))
                .ok();
        }
        let missing = missing_tools();
        refuse_in_ci(&missing)?;
        let built = shell::target_folder()?.join("debug/deps").exists();
        let first = "up to ten minutes on two cores the first time";
        eprintln!("testing ({})", if built { "some minutes" } else { first });
        let (outcome, took) = shell::timed(|| self.build_and_run());
        report_skipped(&missing);
        outcome?;
        eprintln!("tests passed in {}", shell::duration(took));
        Ok(())
    }

    fn build_and_run(&self) -> Result<()> {
        // End-to-end tests start the binary. Cargo does not build it for the tests of another package.
        if self.starts_the_program() {
            shell::run(&mut up::build_command())?;
        }
        let programs = Program::build(&mut self.build_command())?;
        programs::run_all(programs, &self.program_arguments())?;
        // Only cargo can compile and run the examples in doc comments.
        shell::run(&mut self.doc_command())
    }

    fn starts_the_program(&self) -> bool {
        self.package.is_empty() || self.package.iter().any(|package| package == "e2e")
    }

    /// Whether the tests of a selected crate evaluate the sample policies.
    fn needs_policies(&self) -> bool {
        let users = ["polity-eval", "polity-admission", "polity-cli", "e2e"];
        self.package.is_empty()
            || self
                .package
                .iter()
                .any(|package| users.contains(&package.as_str()))
    }

    /// Builds the test programs. Examples are not built, because clippy checks them and linking takes time.
    fn build_command(&self) -> Command {
        let mut command = self.cargo_test();
        command.args([
            "--tests",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
        command
    }

    /// Runs the examples in doc comments.
    fn doc_command(&self) -> Command {
        let mut command = self.cargo_test();
        command.args(["--quiet", "--doc"]).args(&self.filter);
        if !self.arguments.is_empty() {
            command.arg("--").args(&self.arguments);
        }
        command
    }

    fn cargo_test(&self) -> Command {
        let mut command = shell::cargo(["test"]);
        if self.package.is_empty() {
            command.arg("--workspace");
        }
        for package in &self.package {
            command.args(["--package", package]);
        }
        command
    }

    fn program_arguments(&self) -> Vec<String> {
        self.filter.iter().chain(&self.arguments).cloned().collect()
    }
}

/// The tools that some tests need and that are not installed.
pub(crate) fn missing_tools() -> Vec<Missing> {
    Tool::ALL
        .into_iter()
        .filter_map(|tool| tool.find().err())
        .collect()
}

/// With `CI=true`, a skipped test is a failure.
fn refuse_in_ci(missing: &[Missing]) -> Result<()> {
    if tools::in_ci() && !missing.is_empty() {
        report_skipped(missing);
        bail!("CI=true and {} would be skipped", count(missing.len()));
    }
    Ok(())
}

fn report_skipped(missing: &[Missing]) {
    if missing.is_empty() {
        return;
    }
    eprintln!("\nSKIPPED: {}", count(missing.len()));
    for Missing {
        what,
        why,
        install_command,
    } in missing
    {
        eprintln!("  - {what}\n      because {why}\n      to run them: {install_command}");
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
    fn the_commands_that_run() {
        let check = |args: Args, build: &str, doc: &str, arguments: &[&str]| {
            let shown =
                |command: &Command| shell::shown(command).split_once(' ').unwrap().1.to_owned();
            let flags = "--tests --no-run --message-format=json-render-diagnostics";
            assert_eq!(shown(&args.build_command()), format!("{build} {flags}"));
            assert_eq!(shown(&args.doc_command()), doc);
            assert_eq!(args.program_arguments(), arguments);
        };
        let all = "test --workspace";
        check(Args::default(), all, "test --workspace --quiet --doc", &[]);
        let args = Args {
            filter: Some("watch".to_owned()),
            package: vec!["polity-store".to_owned()],
            arguments: vec!["--nocapture".to_owned()],
        };
        check(
            args,
            "test --package polity-store",
            "test --package polity-store --quiet --doc watch -- --nocapture",
            &["watch", "--nocapture"],
        );
    }
}
