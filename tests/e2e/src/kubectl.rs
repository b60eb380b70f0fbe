//! Runs the real kubectl with its own home and discovery cache.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cleanup::CleanupGuard;

/// Upper limit for every command in a scenario, also on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A kubectl program with its kubeconfig and namespace. Command lines are split at spaces, as a shell does; single
/// quotes keep an argument together.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Also holds the discovery cache, which is empty at first.
    home: Arc<TempDir>,
    namespace: String,
    flags: Vec<String>,
}

/// Exit code and output of a kubectl command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    /// A kubectl in namespace `default`.
    pub fn new(program: &Path, kubeconfig: &Path) -> Self {
        let home = tempfile::Builder::new().prefix("polity-kubectl-").tempdir();
        Self {
            program: program.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            home: Arc::new(home.expect("there is room for a folder")),
            namespace: "default".to_owned(),
            flags: Vec::new(),
        }
    }

    /// A copy that works in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// A copy that adds flags to every command, such as `--as jane`.
    #[must_use]
    pub fn with(&self, flags: &str) -> Self {
        let mut next = self.clone();
        next.flags.extend(split(flags));
        next
    }

    /// The namespace in which commands run.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The kubeconfig of the API server.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A temporary folder for the files of a scenario.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs a command until it exits, with any exit code.
    pub fn run(&self, line: &str, input: &str) -> CommandOutput {
        let mut child = self.spawn(line);
        let mut stdin = child.stdin.take().expect("it is piped");
        let stdout = gather(child.stdout.take().expect("it is piped"));
        let stderr = gather(child.stderr.take().expect("it is piped"));
        // A command may exit without reading its input.
        stdin.write_all(input.as_bytes()).ok();
        drop(stdin);
        let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(TIMEOUT), stderr.recv_timeout(TIMEOUT))
        else {
            child.kill().ok();
            panic!("kubectl {line} still runs after {TIMEOUT:?}")
        };
        let code = child.wait().expect("our child can be waited for").code();
        CommandOutput {
            code,
            stdout,
            stderr,
        }
    }

    /// Runs a command that must succeed. Returns its standard output without trailing whitespace.
    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        self.ok_with_input(line, "")
    }

    /// Like [`Self::ok`], with standard input.
    #[track_caller]
    pub fn ok_with_input(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input);
        assert_eq!(
            output.code,
            Some(0),
            "kubectl {line}: {output:?}\ninput: {input}"
        );
        output.stdout.trim_end().to_owned()
    }

    /// Runs a command that must fail with exit code 1. Returns its standard error.
    #[track_caller]
    pub fn fails(&self, line: &str) -> String {
        self.fails_with_input(line, "")
    }

    /// Like [`Self::fails`], with standard input.
    #[track_caller]
    pub fn fails_with_input(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input);
        assert_eq!(
            output.code,
            Some(1),
            "kubectl {line}: {output:?}\ninput: {input}"
        );
        output.stderr.trim_end().to_owned()
    }

    /// Runs a command with `-o json` and parses its output.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        let text = self.ok(&format!("{line} -o json"));
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("kubectl {line}: {error} in {text}"))
    }

    /// Reads fields of an object with kubectl's jsonpath, such as `.metadata.uid`. Several paths are separated by
    /// spaces.
    #[track_caller]
    pub fn field(&self, object: &str, paths: &str) -> String {
        let template: Vec<String> = paths.split(' ').map(|path| format!("{{{path}}}")).collect();
        self.ok(&format!(
            "get {object} -o 'jsonpath={}'",
            template.join(" ")
        ))
    }

    /// Runs `describe` and collapses the column padding to one space, because the padding differs between releases.
    #[track_caller]
    pub fn describe(&self, object: &str) -> String {
        let text = self.ok(&format!("describe {object}"));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect::<Vec<_>>().join("\n")
    }

    /// Applies a manifest with client-side apply.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.ok_with_input("apply -f -", manifest)
    }

    /// Starts a command that runs until it exits or is dropped.
    pub fn start(&self, line: &str) -> RunningCommand {
        let mut child = self.spawn(line);
        let cleanup = CleanupGuard::process(child.id()).expect("sh can be started");
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = gather(child.stderr.take().expect("it is piped"));
        RunningCommand {
            line: line.to_owned(),
            child,
            cleanup,
            lines,
            stderr,
        }
    }

    fn spawn(&self, line: &str) -> Child {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .args(["--namespace", &self.namespace])
            .args(&self.flags)
            .args(split(line))
            .current_dir(self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // `kubectl edit` calls this script, which the scenario puts into its folder.
        command.env("KUBE_EDITOR", self.home.path().join("editor"));
        command
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", self.program.display()))
    }
}

/// A command that keeps running, such as `get --watch`.
#[derive(Debug)]
pub struct RunningCommand {
    line: String,
    child: Child,
    cleanup: CleanupGuard,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl RunningCommand {
    /// Waits for the next line of standard output.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines
            .recv_timeout(TIMEOUT)
            .unwrap_or_else(|error| panic!("kubectl {}: no more lines: {error}", self.line))
    }

    /// A line that the command has already printed, if any.
    pub fn line_so_far(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Waits until the command exits. Returns the rest of its standard output, and its standard error.
    #[track_caller]
    pub fn finish(mut self) -> CommandOutput {
        let mut stdout = String::new();
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => stdout.extend([line.as_str(), "\n"]),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("kubectl {} still runs", self.line),
            }
        }
        let code = self
            .child
            .wait()
            .expect("our child can be waited for")
            .code();
        let stderr = self.stderr.recv_timeout(TIMEOUT).unwrap_or_default();
        CommandOutput {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.cleanup.release();
    }
}

/// `PATH` of the test process: kubectl runs `diff`, and edit scripts run other programs.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Reads a pipe to its end in a thread.
fn gather(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).ok();
        sender
            .send(String::from_utf8_lossy(&bytes).into_owned())
            .ok();
    });
    receiver
}

/// Splits a command line into arguments.
fn split(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut argument: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                argument.get_or_insert_default();
            }
            ' ' | '\n' if !quoted => arguments.extend(argument.take()),
            other => argument.get_or_insert_default().push(other),
        }
    }
    arguments.extend(argument);
    arguments
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_line_is_split_as_a_shell_would() {
        let cases: [(&str, &[&str]); 4] = [
            ("get  cm a", &["get", "cm", "a"]),
            (
                "patch -p '{\"a\": 1}' x",
                &["patch", "-p", "{\"a\": 1}", "x"],
            ),
            ("-o 'jsonpath={.a b}'", &["-o", "jsonpath={.a b}"]),
            ("a ''", &["a", ""]),
        ];
        for (line, expected) in cases {
            assert_eq!(split(line), expected, "{line}");
        }
    }
}
