//! The binary under test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::leash::Leash;

/// How long a start or an end may take before something is wrong.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the last line of a process that is gone may be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What a process that serves says last when it is up, with the kubeconfig after it.
const UP: &str = "export KUBECONFIG=";

/// `target/debug/polity`, which `cargo xtask test` builds before the tests run.
///
/// # Panics
/// When it is not there.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.ancestors().nth(2).expect("tests lie in debug/deps");
    let binary = folder.join("polity");
    assert!(
        binary.is_file(),
        "{} is not there; run: cargo build --workspace --bin polity",
        binary.display()
    );
    binary
}

/// A port of this machine that was free a moment ago.
///
/// # Panics
/// When no port is free.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.expect("there is a free port").port()
}

/// A folder that goes with the test.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("polity-e2e-")
        .tempdir()
        .expect("there is room for a folder")
}

/// The program with an environment of its own, whose home is `home`.
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

/// Runs a command that ends by itself.
pub fn run<A: AsRef<OsStr>>(home: &Path, arguments: impl IntoIterator<Item = A>) -> Output {
    command(home)
        .args(arguments)
        .output()
        .expect("polity can be started")
}

/// A serving process. It ends when this is dropped, and when our process ends in whatever way.
#[derive(Debug)]
pub struct Polity {
    child: Child,
    leash: Leash,
    kubeconfig: PathBuf,
    said: String,
    lines: Receiver<String>,
}

/// How a process that should have served, or was told to stop, ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything that it wrote to standard error.
    pub said: String,
}

impl Polity {
    /// Starts `polity apiserver` on a data directory, on a port that is free.
    pub fn apiserver(data_dir: &Path) -> Self {
        Self::serve("apiserver", data_dir)
    }

    /// Starts `polity up` on a data directory, on a port that is free.
    pub fn up(data_dir: &Path) -> Self {
        Self::serve("up", data_dir)
    }

    fn serve(word: &str, data_dir: &Path) -> Self {
        let mut command = command(data_dir);
        command.args([word, "--listen", "127.0.0.1:0", "--data-dir"]);
        Self::start(command.arg(data_dir))
            .unwrap_or_else(|ended| panic!("polity {word} ended: {ended:?}"))
    }

    /// Starts a command that serves an API and waits until it says that it is up; `Err` when it ended instead.
    pub fn start(command: &mut Command) -> Result<Self, Ended> {
        let kubeconfig = |line: &str| Some(PathBuf::from(line.trim().strip_prefix(UP)?));
        let (mut polity, kubeconfig) = Self::start_until(command, kubeconfig)?;
        polity.kubeconfig = kubeconfig;
        Ok(polity)
    }

    /// Starts a serving command and waits for the line that says what there is to know; `Err` when it ended instead.
    pub fn start_until<T>(
        command: &mut Command,
        up: impl Fn(&str) -> Option<T>,
    ) -> Result<(Self, T), Ended> {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("polity can be started");
        let leash = Leash::process(child.id()).expect("sh can be started");
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
            leash,
            kubeconfig: PathBuf::new(),
            said: String::new(),
            lines,
        };
        loop {
            match polity.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    polity.hear(&line);
                    if let Some(found) = up(&line) {
                        return Ok((polity, found));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(polity.wait()),
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "polity is not up after {PATIENCE:?}; it said:\n{}",
                        polity.said
                    )
                }
            }
        }
    }

    /// The kubeconfig that it named.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said until it was up.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        rustix::process::kill_process(pid.expect("a child has a pid"), signal)
            .expect("our child can be signalled");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it goes on for a minute.
    pub fn wait(mut self) -> Ended {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.hear(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("polity goes on after {PATIENCE:?}; it said:\n{}", self.said)
                }
            }
        }
        let status = self.child.wait().expect("our child can be waited for");
        self.leash.release();
        Ended {
            status,
            said: std::mem::take(&mut self.said),
        }
    }

    /// Ctrl-C, and its end.
    pub fn interrupt(self) -> Ended {
        self.signal(Signal::INT);
        self.wait()
    }

    /// SIGKILL, and its end.
    pub fn kill(self) -> Ended {
        self.signal(Signal::KILL);
        self.wait()
    }

    fn hear(&mut self, line: &str) {
        self.said.push_str(line);
        self.said.push('\n');
    }
}

impl Drop for Polity {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.leash.release();
        // Of a test that fails, both sides should be heard.
        if thread::panicking() {
            while let Ok(line) = self.lines.recv_timeout(LAST_WORDS) {
                self.hear(&line);
            }
            eprintln!("polity {} said:\n{}", self.child.id(), self.said);
        }
    }
}
