//! Running commands and saying how long they take.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Between two signs of life of a silent command.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The cargo that runs us, in the folder of the workspace.
pub(crate) fn cargo<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    command.args(arguments).current_dir(root());
    command
}

/// What cargo knows about the workspace; `with_dependencies` also about every package in the lock file.
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

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = metadata(false)?;
    let folder = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(folder.into())
}

/// Runs a command whose output the user sees, and fails if it fails.
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

/// The command as it would be typed.
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

/// Runs `work` and returns how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = now();
    let value = work();
    (value, now().duration_since(started))
}

/// Runs `work`, which says nothing itself, and every now and then that it still goes on.
pub(crate) fn patiently<T>(
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

/// A span of time for people: `0.4 s`, `12 s`, `3 min 5 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// A variable of the environment, if it is set to something.
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
