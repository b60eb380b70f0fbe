//! `cargo xtask test`: everything that can be tested on this machine, and a word about what cannot.

use anyhow::{Result, bail};
use peers::{Missing, Tool, tools};

use crate::shell;

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run only tests whose name contains this
    filter: Option<String>,

    /// Arguments for cargo test, such as `-p polity-store` or `-- --nocapture`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let missing = missing_tools();
        refuse_in_ci(&missing)?;
        let built = shell::target_folder()?.join("debug/deps").exists();
        let first = "up to ten minutes on two cores the first time";
        eprintln!(
            "testing the workspace ({})",
            if built { "some minutes" } else { first }
        );
        let mut command = shell::cargo(["test", "--workspace"]);
        command.args(self.filter).args(self.arguments);
        let (outcome, took) = shell::timed(|| shell::run(&mut command));
        tell_left_out(&missing);
        outcome?;
        eprintln!("tests passed in {}", shell::duration(took));
        Ok(())
    }
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
