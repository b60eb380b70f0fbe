//! Runs commands and measures their duration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Interval of progress messages for a silent command.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// The root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The cargo that runs xtask, in the root folder of the workspace.
pub(crate) fn cargo<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs `cargo metadata`. `with_dependencies` includes every package in the lock file.
pub(crate) fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut command = cargo(["metadata", "--format-version=1"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The target folder of cargo.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = metadata(false)?;
    let folder = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(folder.into())
}

/// Runs a command with visible output. Returns an error if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        bail!("{} ended with {status}", shown(command))
    }
}

/// The command line as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs `work` and returns its duration.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = now();
    let value = work();
    (value, now().duration_since(started))
}

/// Runs `work`, which prints nothing itself, and prints regularly that it is still running.
pub(crate) fn with_progress<T>(
    what: &str,
    how_long: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    eprintln!("{what} ({how_long})");
    let (stop, stopped) = mpsc::channel::<()>();
    let name = what.to_owned();
    let heart = thread::spawn(move || {
        let mut beats = 0;
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(HEARTBEAT) {
            beats += 1;
            eprintln!("  still {name}, {} so far", duration(HEARTBEAT * beats));
        }
    });
    let (outcome, took) = timed(work);
    drop(stop);
    let _ = heart.join();
    if outcome.is_ok() {
        eprintln!("  done in {}", duration(took));
    }
    outcome
}

/// Formats a duration: `0.4 s`, `12 s`, `3 min 5 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// An environment variable, unless it is empty.
#[expect(
    clippy::disallowed_methods,
    reason = "a build tool speaks the environment's language"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time a step took is printed and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (400, "0.4 s"),
            (9_900, "9.9 s"),
            (12_300, "12 s"),
            (185_000, "3 min 5 s"),
        ];
        for (millis, expected) in cases {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn failure_is_told_with_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("sh -c exit 3 ended with"), "{error}");
    }
}
