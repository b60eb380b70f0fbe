//! Runs test programs, two at a time: one that mostly waits for processes, and one that computes.
//!
//! The suites of `tests/e2e` start processes and wait for them, which leaves a core idle. They would disturb each
//! other, so they run in sequence. The programs that compute run in sequence too. A program that hangs is killed and
//! reported.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// Time limit for a program. The slowest takes four minutes alone on two cores.
const AT_MOST: Duration = Duration::from_mins(25);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait for more output of a program that has exited.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The package whose suites mostly wait for processes.
const WAITING_PACKAGE: &str = "e2e";
/// Suites that wait so much that they run more tests concurrently than there are cores.
const WAITING_SUITES: [&str; 3] = ["guides", "kubectl", "lifecycle"];
const THREADS: &str = "RUST_TEST_THREADS";

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    package: String,
    /// `lib` or `bin` for the tests beside the code, otherwise the name of the suite.
    suite: String,
    executable: PathBuf,
    /// The folder of the package, in which the tests run.
    folder: PathBuf,
}

impl Program {
    /// Builds the tests with `command`, which prints JSON. Returns the programs in cargo's order.
    pub(super) fn build(command: &mut Command) -> Result<Vec<Self>> {
        let shown = shell::shown(command);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {shown}"))?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let mut programs = Vec::new();
        for line in BufReader::new(stdout).lines() {
            let message: Value = serde_json::from_str(&line?).unwrap_or_default();
            programs.extend(Self::from_message(&message));
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{shown} ended with {status}");
        }
        programs.sort_by(|a, b| (&a.package, &a.suite).cmp(&(&b.package, &b.suite)));
        Ok(programs)
    }

    /// Parses a message of cargo. Returns `None` unless it is about a test program.
    fn from_message(message: &Value) -> Option<Self> {
        let is_test = message["profile"]["test"].as_bool()?;
        let executable = message["executable"].as_str().filter(|_| is_test)?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let kind = message["target"]["kind"][0].as_str()?;
        let name = message["target"]["name"].as_str()?;
        Some(Self {
            // The folder of a package has its name.
            package: folder.file_name()?.to_str()?.to_owned(),
            suite: if kind == "test" { name } else { kind }.to_owned(),
            executable: executable.into(),
            folder: folder.to_owned(),
        })
    }

    fn name(&self) -> String {
        format!("{} {}", self.package, self.suite)
    }

    /// A command with the variables that cargo would set and tests may read.
    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package);
        if self.is_waiting()
            && WAITING_SUITES.contains(&self.suite.as_str())
            && shell::variable(THREADS).is_none()
        {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS, (2 * cores).to_string());
        }
        command
    }

    fn is_waiting(&self) -> bool {
        self.package == WAITING_PACKAGE
    }
}

/// The result of a program.
struct Outcome {
    name: String,
    output: String,
    error: Option<String>,
    took: Duration,
}

/// Runs all programs, and returns an error if one of them fails. The output of a program is printed when it exits. The
/// output of failed programs is repeated at the end.
pub(super) fn run_all(programs: Vec<Program>, arguments: &[String]) -> Result<()> {
    let n_programs = programs.len();
    let (waiting, computing): (VecDeque<_>, VecDeque<_>) =
        programs.into_iter().partition(Program::is_waiting);
    let queues = [Mutex::new(waiting), Mutex::new(computing)];
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for own in 0..queues.len() {
            let (queues, failed) = (&queues, &failed);
            scope.spawn(move || {
                while let Some(program) = next(queues, own) {
                    let outcome = run(&program, arguments);
                    report(&outcome);
                    if outcome.error.is_some() {
                        locked(failed).push(outcome);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return Ok(());
    }
    if n_programs > 1 {
        for outcome in &failed {
            eprintln!("\n== failed: {}\n{}", outcome.name, outcome.output);
        }
    }
    let causes: Vec<_> = failed
        .into_iter()
        .filter_map(|outcome| outcome.error)
        .collect();
    bail!("{}", causes.join("; "))
}

/// Takes the next program of a queue. When one queue is empty, both threads take from the queue of programs that
/// compute.
fn next(queues: &[Mutex<VecDeque<Program>>; 2], own: usize) -> Option<Program> {
    let computing = &queues[1];
    // A separate statement: this lock must be released before the other is taken.
    let own = locked(&queues[own]).pop_front();
    own.or_else(|| locked(computing).pop_front())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(outcome: &Outcome) {
    let Outcome {
        name,
        output,
        error,
        took,
    } = outcome;
    let result = if error.is_some() { "FAILED" } else { "passed" };
    let took = shell::duration(*took);
    // One write, so that the output of two programs is not mixed.
    let text = format!("\n== {name}: {result} in {took}\n{output}");
    std::io::stderr().write_all(text.as_bytes()).ok();
}

fn run(program: &Program, arguments: &[String]) -> Outcome {
    let name = program.name();
    let (result, took) = shell::timed(|| run_to_end(program.command(arguments), AT_MOST));
    let (output, error) = match result {
        Ok((output, Some(status))) if status.success() => (output, None),
        Ok((output, Some(status))) => (output, Some(format!("{name} ended with {status}"))),
        Ok((output, None)) => {
            let limit = shell::duration(AT_MOST);
            let error =
                format!("{name} did not end within {limit}: a test that printed no result hangs");
            (output, Some(error))
        }
        Err(error) => (String::new(), Some(format!("{name}: {error:#}"))),
    };
    Outcome {
        name,
        output,
        error,
        took,
    }
}

/// Runs a program and returns its output and its exit status. There is no status if it was killed after `at_most`.
fn run_to_end(mut command: Command, at_most: Duration) -> Result<(String, Option<ExitStatus>)> {
    // One pipe for both streams keeps their order.
    let (mut reader, writer) = std::io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let program = Path::new(command.get_program());
    let shown = program.file_name().map(OsStr::to_owned).unwrap_or_default();
    let child = command
        .spawn()
        .with_context(|| format!("starting {}", shown.display()));
    // Closes the ends of the pipe in this process.
    drop(command);
    let mut child = child?;
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            sender.send(buffer[..length].to_vec()).ok();
        }
    });
    let status = wait(&mut child, at_most)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    // A process that outlives the program may keep the pipe open.
    let mut bytes = Vec::new();
    while let Ok(chunk) = output.recv_timeout(OUTPUT_TIMEOUT) {
        bytes.extend(chunk);
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), status))
}

/// Waits for a process. Returns `None` if it still runs after `at_most`.
fn wait(child: &mut Child, at_most: Duration) -> Result<Option<ExitStatus>> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= at_most {
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shell_program(package: &str, suite: &str) -> Program {
        Program {
            package: package.to_owned(),
            suite: suite.to_owned(),
            executable: "/bin/sh".into(),
            folder: "/".into(),
        }
    }

    #[test]
    fn messages_of_cargo_name_the_programs() {
        let message = |test: bool, kind: &str, executable: Value| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/w/tests/e2e/Cargo.toml", "profile": {"test": test},
                "target": {"name": "guides", "kind": [kind]}, "executable": executable,
            })
        };
        let program = Program::from_message(&message(true, "test", json!("/t/guides-1"))).unwrap();
        assert_eq!(program.name(), "e2e guides");
        assert_eq!(program.folder, Path::new("/w/tests/e2e"));
        assert!(program.is_waiting());
        let lib = Program::from_message(&message(true, "lib", json!("/t/e2e-1"))).unwrap();
        assert_eq!(lib.name(), "e2e lib");
        assert_eq!(
            Program::from_message(&message(false, "bin", json!("/t/x"))),
            None
        );
        assert_eq!(
            Program::from_message(&message(true, "lib", json!(null))),
            None
        );
        assert_eq!(
            Program::from_message(&json!({"reason": "build-finished"})),
            None
        );
    }

    #[test]
    fn every_program_runs_and_failures_are_named() {
        let programs = vec![
            shell_program("e2e", "guides"),
            shell_program("e2e", "server"),
            shell_program("polity-store", "it"),
        ];
        let script = |text: &str| ["-c".to_owned(), text.to_owned()];
        run_all(programs.clone(), &script("test $CARGO_MANIFEST_DIR = /")).unwrap();
        let error = run_all(programs, &script("test $CARGO_PKG_NAME = e2e")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "polity-store it ended with exit status: 1"
        );
    }

    #[test]
    fn both_streams_of_a_program_are_kept() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let (output, status) = run_to_end(command, AT_MOST).unwrap();
        assert_eq!(output, "one\ntwo\n");
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let mut command = Command::new("/bin/sh");
        // The child of the program keeps the pipe open.
        command.args(["-c", "echo started; sleep 3; echo ended"]);
        let (output, status) = run_to_end(command, Duration::from_millis(200)).unwrap();
        assert_eq!((output.as_str(), status), ("started\n", None));
    }

    #[test]
    fn both_sides_take_programs_that_compute() {
        let queues = [
            Mutex::new(VecDeque::from([shell_program("e2e", "guides")])),
            Mutex::new(VecDeque::from([
                shell_program("a", "lib"),
                shell_program("b", "lib"),
            ])),
        ];
        let taken: Vec<_> = (0..4)
            .map(|_| next(&queues, 0).map(|program| program.package))
            .collect();
        assert_eq!(
            taken,
            [Some("e2e".into()), Some("a".into()), Some("b".into()), None]
        );
        assert_eq!(next(&queues, 1), None);
    }
}
