//! `bench`, `chaos` and `differential`: run the benchmarks and long tests of the crates.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{policies, shell, up};

#[derive(clap::Args)]
pub(crate) struct Bench {
    /// The build profile: by default that of published artefacts
    #[arg(long, value_name = "PROFILE", default_value = DIST)]
    profile: String,

    /// What to measure (store, reports, attachment, governance, admission, lifecycle or builds; default store),
    /// followed by arguments for the benchmark: a folder on the disk to measure, a number of results, or the profiles
    /// to build
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The profile of published artefacts. The figures in docs/benchmarks.md use it.
const DIST: &str = "dist";
/// The profiles whose build times are compared.
const COMPARED: [&str; 2] = [DIST, "release"];
/// The name that measures build times instead of running a benchmark.
const BUILDS: &str = "builds";

/// The benchmarks with their name, their crates, and their duration.
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
    /// How often to kill a process that writes to a store
    #[arg(long, default_value_t = 500)]
    crashes: u32,

    /// How often to kill a server that has writers and watchers
    #[arg(long, default_value_t = 300)]
    server_crashes: u32,

    /// How often to change policies under load while servers, controllers and replicas are killed in turn
    #[arg(long, default_value_t = 1000)]
    policy_updates: u32,
}

#[derive(clap::Args, Default)]
pub(crate) struct Differential {
    /// Run only cases whose name contains this text
    filter: Option<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        if self.arguments.first().is_some_and(|word| word == BUILDS) {
            return measure_builds(&self.arguments[1..]);
        }
        let named = self
            .arguments
            .first()
            .and_then(|word| BENCHMARKS.iter().find(|(name, ..)| name == word));
        let n_names = usize::from(named.is_some());
        let (name, packages, time) = named.unwrap_or(&BENCHMARKS[0]);
        eprintln!(
            "running the {name} benchmark ({time}, after a build with the profile {} that takes up to an hour the first time)",
            self.profile
        );
        if matches!(*name, "admission" | "lifecycle") {
            policies::build()?;
        }
        if *name == "lifecycle" {
            // The benchmark starts the binary.
            shell::run(up::build_command().args(["--profile", &self.profile]))?;
        }
        for package in *packages {
            let mut command = shell::cargo([
                "run",
                "--profile",
                &self.profile,
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

/// Builds the binary with each profile into an empty folder, and prints the build times.
fn measure_builds(profiles: &[String]) -> Result<()> {
    let compared = COMPARED.map(str::to_owned);
    let profiles = if profiles.is_empty() {
        &compared
    } else {
        profiles
    };
    let folder = shell::target_folder()?.join("bench-builds");
    // Downloads are not part of the build time.
    shell::run(&mut shell::cargo(["fetch", "--locked"]))?;
    let mut table = String::from("profile       build          program\n");
    for profile in profiles {
        let target = folder.join(profile);
        if target.exists() {
            fs::remove_dir_all(&target)
                .with_context(|| format!("removing {}", target.display()))?;
        }
        eprintln!("building with the profile {profile} (up to an hour)");
        let mut build = shell::cargo(["build", "--quiet", "--locked", "--package", "polity"]);
        build
            .args(["--profile", profile])
            .env("CARGO_TARGET_DIR", &target);
        let (built, took) = shell::timed(|| shell::run(&mut build));
        built?;
        let program = target.join(profile_folder(profile)).join("polity");
        let megabytes = fs::metadata(&program)
            .with_context(|| format!("reading {}", program.display()))?
            .len()
            / 1_000_000;
        let took = shell::duration(took);
        table.push_str(&format!("{profile:<13} {took:<14} {megabytes} MB\n"));
    }
    eprint!("{table}");
    Ok(())
}

/// The subfolder of the target folder for a profile.
fn profile_folder(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

impl Chaos {
    pub(crate) fn run(self) -> Result<()> {
        let Self {
            crashes,
            server_crashes,
            policy_updates,
        } = self;
        eprintln!(
            "killing a process that writes to a store {crashes} times (about a quarter of a second each)"
        );
        let mut store =
            shell::cargo(["test", "--package", "polity-store", "--test", "it", "crash"]);
        store.env("POLITY_STORE_CRASHES", crashes.to_string());
        let took = run_tests(store)?;
        eprintln!("no data was lost in {crashes} crashes of the store ({took})");

        eprintln!("killing a server {server_crashes} times (about half a second each)");
        shell::run(&mut up::build_command())?;
        let mut server = shell::cargo(["test", "--package", "e2e", "--test", "rust", "chaos"]);
        server.env("POLITY_SERVER_CRASHES", server_crashes.to_string());
        let took = run_tests(server)?;
        eprintln!("no data was lost in {server_crashes} crashes of the server ({took})");

        eprintln!(
            "changing policies {policy_updates} times under load while processes are killed (two or three seconds each)"
        );
        policies::build()?;
        let mut stream = shell::cargo(["test", "--package", "e2e", "--test", "chaos"]);
        stream.env("POLITY_POLICY_UPDATES", policy_updates.to_string());
        let took = run_tests(stream)?;
        eprintln!("no request was lost in {policy_updates} policy updates ({took})");
        Ok(())
    }
}

/// Runs tests with their output shown, and returns the duration.
fn run_tests(mut tests: Command) -> Result<String> {
    let (outcome, took) = shell::timed(|| shell::run(tests.args(["--", "--nocapture"])));
    outcome?;
    Ok(shell::duration(took))
}

impl Differential {
    pub(crate) fn run(self) -> Result<()> {
        eprintln!("comparing the embedded API server with the real one (about a minute)");
        let mut command = shell::cargo(["test", "--package", "e2e", "--test", "differential"]);
        command.args(["--", "--nocapture"]);
        if let Some(filter) = self.filter {
            command.env("DIFFERENTIAL", filter);
        }
        shell::run(&mut command)
    }
}
