//! `cargo xtask ci`: the checks that a change must pass. Fast checks run first.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::{generate, kube, runners, shell, test, tidy};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start at this step
    #[arg(long)]
    from: Option<String>,
}

/// One check with its name.
struct Step {
    name: &'static str,
    work: Box<dyn FnOnce() -> Result<()>>,
}

/// The result of a check.
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut steps = steps();
        if let Some(from) = self.from {
            let Some(first) = steps.iter().position(|step| step.name == from) else {
                let names: Vec<_> = steps.iter().map(|step| step.name).collect();
                bail!("no step {from}; the steps are {}", names.join(", "));
            };
            steps.drain(..first);
        }
        let (outcomes, error) = run_all(steps);
        eprint!("{}", summary(&outcomes));
        match error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

fn steps() -> Vec<Step> {
    vec![
        step("fmt", || {
            shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))
        }),
        step("tidy", || tidy::Args {}.run()),
        step("clippy", || {
            shell::run(&mut shell::cargo([
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]))
        }),
        step("doc", || {
            let mut command = shell::cargo(["doc", "--workspace", "--no-deps"]);
            shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
        }),
        step("generate", || generate::Args { check: true }.run()),
        step("peers", kube::build_what_tests_need),
        step("test", || test::Args::default().run()),
        step("differential", || runners::Differential::default().run()),
    ]
}

fn step(name: &'static str, work: impl FnOnce() -> Result<()> + 'static) -> Step {
    Step {
        name,
        work: Box::new(work),
    }
}

/// Runs the checks in order and stops at the first failure.
fn run_all(steps: Vec<Step>) -> (Vec<(&'static str, Outcome)>, Option<anyhow::Error>) {
    let mut outcomes = Vec::new();
    let mut failure = None;
    for Step { name, work } in steps {
        if failure.is_some() {
            outcomes.push((name, Outcome::NotRun));
            continue;
        }
        eprintln!("\n== {name}");
        let (result, took) = shell::timed(work);
        match result {
            Ok(()) => outcomes.push((name, Outcome::Passed(took))),
            Err(error) => {
                outcomes.push((name, Outcome::Failed(took)));
                failure = Some(error.context(format!("step {name} failed")));
            }
        }
    }
    (outcomes, failure)
}

fn summary(outcomes: &[(&'static str, Outcome)]) -> String {
    let mut text = String::from("\nstep          result   time\n");
    for (name, outcome) in outcomes {
        let (result, took) = match outcome {
            Outcome::Passed(took) => ("passed", shell::duration(*took)),
            Outcome::Failed(took) => ("FAILED", shell::duration(*took)),
            Outcome::NotRun => ("not run", String::new()),
        };
        text.push_str(format!("{name:<13} {result:<8} {took}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_first_failure_and_names_the_rest() {
        let steps = vec![
            step("good", || Ok(())),
            step("bad", || bail!("no")),
            step("late", || panic!("must not run")),
        ];
        let (outcomes, failure) = run_all(steps);
        let failure = format!("{:#}", failure.unwrap());
        assert_eq!(failure, "step bad failed: no");
        let summary = summary(&outcomes);
        let lines: Vec<_> = summary.lines().skip(2).collect();
        assert!(lines[0].starts_with("good          passed"), "{summary}");
        assert!(lines[1].starts_with("bad           FAILED"), "{summary}");
        assert_eq!(lines[2], "late          not run");
    }
}
