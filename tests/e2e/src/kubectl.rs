//! Real kubectl with a home and a cache of its own.

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

use crate::leash::Leash;

/// No command of a scenario takes longer on any machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A kubectl, the server it talks to and the namespace it works in. Command lines are split at spaces as a shell would
/// do it; single quotes keep an argument together.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Also holds the cache of discovery, which is empty at first.
    home: Arc<TempDir>,
    namespace: String,
    flags: Vec<String>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    /// Works in namespace `default`.
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

    /// The same in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The same with more flags in every command, such as `--as jane`.
    #[must_use]
    pub fn with(&self, flags: &str) -> Self {
        let mut next = self.clone();
        next.flags.extend(split(flags));
        next
    }

    /// The namespace that it works in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The server's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder for files of a scenario.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs a command to its end, whatever that is.
    pub fn run(&self, line: &str, input: &str) -> Outcome {
        let mut child = self.spawn(line);
        let mut stdin = child.stdin.take().expect("it is piped");
        let stdout = gather(child.stdout.take().expect("it is piped"));
        let stderr = gather(child.stderr.take().expect("it is piped"));
        // A command that does not read its input is no failure.
        stdin.write_all(input.as_bytes()).ok();
        drop(stdin);
        let (Ok(stdout), Ok(stderr)) =
            (stdout.recv_timeout(PATIENCE), stderr.recv_timeout(PATIENCE))
        else {
            child.kill().ok();
            panic!("kubectl {line} goes on after {PATIENCE:?}")
        };
        let code = child.wait().expect("our child can be waited for").code();
        Outcome {
            code,
            stdout,
            stderr,
        }
    }

    /// What a command that succeeds says on standard output, without the last line's end.
    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        self.feed(line, "")
    }

    /// [`Self::ok`] with something on standard input.
    #[track_caller]
    pub fn feed(&self, line: &str, input: &str) -> String {
        let outcome = self.run(line, input);
        assert_eq!(
            outcome.code,
            Some(0),
            "kubectl {line}: {outcome:?}\ninput: {input}"
        );
        outcome.stdout.trim_end().to_owned()
    }

    /// What a command that fails says on standard error.
    #[track_caller]
    pub fn fails(&self, line: &str) -> String {
        self.feed_fails(line, "")
    }

    /// [`Self::fails`] with something on standard input.
    #[track_caller]
    pub fn feed_fails(&self, line: &str, input: &str) -> String {
        let outcome = self.run(line, input);
        assert_eq!(
            outcome.code,
            Some(1),
            "kubectl {line}: {outcome:?}\ninput: {input}"
        );
        outcome.stderr.trim_end().to_owned()
    }

    /// What a command prints as JSON; `-o json` is added.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        let text = self.ok(&format!("{line} -o json"));
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("kubectl {line}: {error} in {text}"))
    }

    /// Fields of an object by kubectl's own jsonpath, such as `.metadata.uid`; several with spaces between them.
    #[track_caller]
    pub fn field(&self, object: &str, paths: &str) -> String {
        let template: Vec<String> = paths.split(' ').map(|path| format!("{{{path}}}")).collect();
        self.ok(&format!(
            "get {object} -o 'jsonpath={}'",
            template.join(" ")
        ))
    }

    /// `describe`, with one space where kubectl lines up columns: how many differs from release to release.
    #[track_caller]
    pub fn describe(&self, object: &str) -> String {
        let text = self.ok(&format!("describe {object}"));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect::<Vec<_>>().join("\n")
    }

    /// Creates or changes what the text says, with client-side apply.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.feed("apply -f -", manifest)
    }

    /// Starts a command that goes on until it is dropped.
    pub fn start(&self, line: &str) -> Ongoing {
        let mut child = self.spawn(line);
        let leash = Leash::process(child.id()).expect("sh can be started");
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
        Ongoing {
            line: line.to_owned(),
            child,
            leash,
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
        // An editor is a program that changes a file; this one is in the scenario's folder.
        command.env("KUBE_EDITOR", self.home.path().join("editor"));
        command
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", self.program.display()))
    }
}

/// A command that goes on, such as `get --watch`.
#[derive(Debug)]
pub struct Ongoing {
    line: String,
    child: Child,
    leash: Leash,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl Ongoing {
    /// The next line that it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("kubectl {}: no more lines: {error}", self.line))
    }

    /// A line that it has printed already.
    pub fn line_so_far(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Waits for its end; the rest of its standard output, and its standard error.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let mut stdout = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => stdout.extend([line.as_str(), "\n"]),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("kubectl {} goes on", self.line),
            }
        }
        let code = self
            .child
            .wait()
            .expect("our child can be waited for")
            .code();
        let stderr = self.stderr.recv_timeout(PATIENCE).unwrap_or_default();
        Outcome {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.leash.release();
    }
}

/// `PATH`: kubectl runs `diff`, and editors run what they need.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Everything that comes out of a pipe, once it is closed.
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

/// A command line's arguments.
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
