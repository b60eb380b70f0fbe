//! Starts and stops the binary under test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::cleanup::CleanupGuard;

/// Upper limit for a start or a shutdown.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long to wait for remaining output of a process that has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Prefix of the last line that a server prints when it is ready. The path of the kubeconfig follows.
const READY_PREFIX: &str = "export KUBECONFIG=";

/// `target/debug/polity`, which `cargo xtask test` builds before the tests run.
///
/// # Panics
/// If the binary does not exist.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.ancestors().nth(2).expect("tests lie in debug/deps");
    let binary = folder.join("polity");
    assert!(
        binary.is_file(),
        "{} does not exist; run: cargo build --workspace --bin polity",
        binary.display()
    );
    binary
}

/// A loopback port that was free a moment ago.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.expect("there is a free port").port()
}

/// A temporary folder that is removed when the test ends.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("polity-e2e-")
        .tempdir()
        .expect("there is room for a folder")
}

/// A command that runs the binary with a clean environment and `home` as its home.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(binary());
    command
        .env_clear()
        .env("PATH", crate::kubectl::search_path())
        .env("HOME", home)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Runs the binary until it exits.
pub fn run<A: AsRef<OsStr>>(home: &Path, arguments: impl IntoIterator<Item = A>) -> Output {
    command(home)
        .args(arguments)
        .output()
        .expect("polity can be started")
}

/// A running server process. It is killed when this value is dropped, or when the test process ends for any reason.
#[derive(Debug)]
pub struct Polity {
    child: Child,
    cleanup: CleanupGuard,
    kubeconfig: PathBuf,
    stderr: String,
    lines: Receiver<String>,
}

/// Result of a process that has exited.
#[derive(Debug)]
pub struct ProcessExit {
    pub status: ExitStatus,
    /// Everything that it wrote to standard error.
    pub stderr: String,
}

impl Polity {
    /// Starts `polity apiserver` with a data directory on a free port.
    pub fn apiserver(data_dir: &Path) -> Self {
        Self::serve("apiserver", data_dir)
    }

    /// Starts `polity up` with a data directory on a free port.
    pub fn up(data_dir: &Path) -> Self {
        Self::serve("up", data_dir)
    }

    fn serve(subcommand: &str, data_dir: &Path) -> Self {
        let mut command = command(data_dir);
        command.args([subcommand, "--listen", "127.0.0.1:0", "--data-dir"]);
        Self::start(command.arg(data_dir))
            .unwrap_or_else(|ended| panic!("polity {subcommand} exited: {ended:?}"))
    }

    /// Starts a command that serves an API, and waits until it is ready. Returns `Err` if the process exits first.
    pub fn start(command: &mut Command) -> Result<Self, ProcessExit> {
        let kubeconfig = |line: &str| Some(PathBuf::from(line.trim().strip_prefix(READY_PREFIX)?));
        let (mut polity, kubeconfig) = Self::start_until(command, kubeconfig)?;
        polity.kubeconfig = kubeconfig;
        Ok(polity)
    }

    /// Starts a server command and waits for a line from which `up` extracts a value. Returns `Err` if the process
    /// exits first.
    pub fn start_until<T>(
        command: &mut Command,
        up: impl Fn(&str) -> Option<T>,
    ) -> Result<(Self, T), ProcessExit> {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("polity can be started");
        let cleanup = CleanupGuard::process(child.id()).expect("sh can be started");
        let errors = child.stderr.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut polity = Self {
            child,
            cleanup,
            kubeconfig: PathBuf::new(),
            stderr: String::new(),
            lines,
        };
        loop {
            match polity.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    polity.record_line(&line);
                    if let Some(found) = up(&line) {
                        return Ok((polity, found));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(polity.wait()),
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "polity is not ready after {TIMEOUT:?}; stderr:\n{}",
                        polity.stderr
                    )
                }
            }
        }
    }

    /// The path of the kubeconfig that the process printed when it was ready.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard error up to the moment when the process was ready.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a child has a pid"), signal)
            .expect("our child can be signalled");
    }

    /// Waits until the process exits.
    ///
    /// # Panics
    /// If the process still runs after one minute.
    pub fn wait(mut self) -> ProcessExit {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.record_line(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "polity still runs after {TIMEOUT:?}; stderr:\n{}",
                        self.stderr
                    )
                }
            }
        }
        let status = self.child.wait().expect("our child can be waited for");
        self.cleanup.release();
        ProcessExit {
            status,
            stderr: std::mem::take(&mut self.stderr),
        }
    }

    /// Sends SIGINT, as Ctrl-C does, and waits until the process exits.
    pub fn interrupt(self) -> ProcessExit {
        self.signal(Signal::INT);
        self.wait()
    }

    /// Sends SIGKILL and waits until the process exits.
    pub fn kill(self) -> ProcessExit {
        self.signal(Signal::KILL);
        self.wait()
    }

    fn record_line(&mut self, line: &str) {
        self.stderr.push_str(line);
        self.stderr.push('\n');
    }
}

impl Drop for Polity {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.cleanup.release();
        // When a test fails, print the output of the server as well.
        if thread::panicking() {
            while let Ok(line) = self.lines.recv_timeout(DRAIN_TIMEOUT) {
                self.record_line(&line);
            }
            eprintln!("stderr of polity {}:\n{}", self.child.id(), self.stderr);
        }
    }
}
