//! `bench`, `chaos` and `differential`: thin runners of what the crates themselves provide.

use std::process::Command;

use anyhow::Result;

use crate::{policies, shell, up};

#[derive(clap::Args)]
pub(crate) struct Bench {
    /// What to measure (store, reports, attachment, governance, admission, lifecycle; the store if it is left out), and arguments for the
    /// benchmark: a folder on the disk to measure, a number of results
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What can be measured, in which crates, and how long that takes.
const BENCHMARKS: &[(&str, &[&str], &str)] = &[
    ("store", &["polity-store"], "two minutes"),
    ("reports", &["polity-report"], "seconds"),
    ("attachment", &["polity-attach"], "half a minute"),
    (
        "governance",
        &[
            "polity-rollout",
            "polity-govern",
            "polity-comply",
            "polity-template",
        ],
        "a minute",
    ),
    ("admission", &["polity-admission"], "seven minutes"),
    ("lifecycle", &["e2e"], "fifteen minutes; quick: four"),
];

#[derive(clap::Args)]
pub(crate) struct Chaos {
    /// How often a process that writes to a store is killed
    #[arg(long, default_value_t = 500)]
    crashes: u32,

    /// How often a server is killed under its writers and watchers
    #[arg(long, default_value_t = 300)]
    server_crashes: u32,

    /// How often policies are changed under a stream of requests while everybody is killed in turn
    #[arg(long, default_value_t = 1000)]
    policy_updates: u32,
}

#[derive(clap::Args, Default)]
pub(crate) struct Differential {
    /// Run only cases whose name contains this
    filter: Option<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        let named = self
            .arguments
            .first()
            .and_then(|word| BENCHMARKS.iter().find(|(name, ..)| name == word));
        let n_names = usize::from(named.is_some());
        let (name, packages, time) = named.unwrap_or(&BENCHMARKS[0]);
        eprintln!(
            "measuring the {name} ({time}; before it a release build, up to an hour the first time)"
        );
        if matches!(*name, "admission" | "lifecycle") {
            policies::build()?;
        }
        if *name == "lifecycle" {
            // It starts the program itself.
            shell::run(up::build_command().arg("--release"))?;
        }
        for package in *packages {
            let mut command = shell::cargo([
                "run",
                "--release",
                "--package",
                package,
                "--example",
                "bench",
                "--",
            ]);
            shell::run(command.args(&self.arguments[n_names..]))?;
        }
        Ok(())
    }
}

impl Chaos {
    pub(crate) fn run(self) -> Result<()> {
        let Self {
            crashes,
            server_crashes,
            policy_updates,
        } = self;
        eprintln!("killing a writing process {crashes} times (about a quarter of a second each)");
        let mut store =
            shell::cargo(["test", "--package", "polity-store", "--test", "it", "crash"]);
        store.env("POLITY_STORE_CRASHES", crashes.to_string());
        let took = pass(store)?;
        eprintln!("nothing was lost in {crashes} crashes of the store; it took {took}");

        eprintln!("killing a server {server_crashes} times (about half a second each)");
        shell::run(&mut up::build_command())?;
        let mut server = shell::cargo(["test", "--package", "e2e", "--test", "rust", "chaos"]);
        server.env("POLITY_SERVER_CRASHES", server_crashes.to_string());
        let took = pass(server)?;
        eprintln!("nothing was lost in {server_crashes} crashes of the server; it took {took}");

        eprintln!(
            "changing policies {policy_updates} times under load and trouble (two or three seconds each)"
        );
        policies::build()?;
        let mut stream = shell::cargo(["test", "--package", "e2e", "--test", "chaos"]);
        stream.env("POLITY_POLICY_UPDATES", policy_updates.to_string());
        let took = pass(stream)?;
        eprintln!("no request was lost in {policy_updates} updates of policies; it took {took}");
        Ok(())
    }
}

/// Runs tests whose output is shown, and says how long they took.
fn pass(mut tests: Command) -> Result<String> {
    let (outcome, took) = shell::timed(|| shell::run(tests.args(["--", "--nocapture"])));
    outcome?;
    Ok(shell::duration(took))
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
