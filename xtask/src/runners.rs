//! `bench`, `chaos` and `differential`: thin runners of what the crates themselves provide.

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Bench {
    /// Arguments for the benchmark: a folder on the disk to measure
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Chaos {
    /// How often the writing process is killed
    #[arg(long, default_value_t = 500)]
    crashes: u32,
}

#[derive(clap::Args, Default)]
pub(crate) struct Differential {
    /// Run only cases whose name contains this
    filter: Option<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        eprintln!(
            "measuring the store (two minutes; before it a release build, some minutes the first time)"
        );
        let mut command = shell::cargo([
            "run",
            "--release",
            "--package",
            "polity-store",
            "--example",
            "bench",
            "--",
        ]);
        shell::run(command.args(self.arguments))
    }
}

impl Chaos {
    pub(crate) fn run(self) -> Result<()> {
        eprintln!(
            "killing a writing process {} times (about a quarter of a second each)",
            self.crashes
        );
        let mut command =
            shell::cargo(["test", "--package", "polity-store", "--test", "it", "crash"]);
        let command = command.env("POLITY_STORE_CRASHES", self.crashes.to_string());
        let (outcome, took) = shell::timed(|| shell::run(command.args(["--", "--nocapture"])));
        outcome?;
        eprintln!(
            "nothing was lost in {} crashes; it took {}",
            self.crashes,
            shell::duration(took)
        );
        Ok(())
    }
}

impl Differential {
    pub(crate) fn run(self) -> Result<()> {
        eprintln!("comparing our API server with the real one (about a minute)");
        let mut command = shell::cargo(["test", "--package", "e2e", "--test", "differential"]);
        command.args(["--", "--nocapture"]);
        if let Some(filter) = self.filter {
            command.env("DIFFERENTIAL", filter);
        }
        shell::run(&mut command)
    }
}
