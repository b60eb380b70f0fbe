//! Child processes that end when this process does, however it ends.
//!
//! Each child leads a process group of its own, which is signalled as a whole and killed when its leader ends, so
//! nothing a child started stays behind. All children are made by one thread that lives as long as the process:
//! the kernel's promise to kill a child with its parent is about the thread that made it.

pub mod launch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, PipeReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::oneshot;
use tracing::warn;

use crate::pod::Exit;

/// What to run.
#[derive(Clone)]
pub struct Program {
    pub binary: PathBuf,
    /// The name it sees itself called by.
    pub called: OsString,
    pub args: Vec<OsString>,
    /// The whole environment: nothing is inherited.
    pub env: BTreeMap<String, String>,
    pub directory: PathBuf,
}

impl fmt::Debug for Program {
    /// Arguments and variables may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("binary", &self.binary)
            .finish_non_exhaustive()
    }
}

/// A process that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("starting {}", binary.display())]
    Spawn { binary: PathBuf, source: io::Error },
    #[error("starting the guard of all processes")]
    Guard(#[source] io::Error),
}

/// Starts processes.
#[derive(Clone)]
pub struct Spawner {
    /// This program, which [`launch::intercept`]s.
    launcher: PathBuf,
    guard: Arc<Mutex<ChildStdin>>,
}

/// A process that was started. Dropping it leaves the process alone.
pub struct Process {
    pid: Pid,
    /// False once it was waited for: its number may be another's then.
    is_there: Arc<Mutex<bool>>,
    /// What it says, on both of its outputs, in the order it says it.
    pub output: PipeReader,
    /// How it ended, once it did and its group is gone.
    pub ended: oneshot::Receiver<Exit>,
}

impl Spawner {
    /// Starts the guard. `launcher` is the program that is asked to [`launch::intercept`]: this one.
    pub fn new(launcher: PathBuf) -> Result<Self, SpawnError> {
        let mut guard = Command::new(&launcher);
        guard
            .arg(launch::GUARD)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the foreground group, and the guard must outlive whom it guards.
            .process_group(0);
        let mut guard = on_the_thread(move || guard.spawn()).map_err(SpawnError::Guard)?;
        let stdin = guard.stdin.take();
        let stdin = stdin.ok_or_else(|| SpawnError::Guard(io::ErrorKind::BrokenPipe.into()))?;
        // It ends when its input does; somebody has to collect it then.
        std::thread::spawn(move || guard.wait());
        Ok(Self {
            launcher,
            guard: Arc::new(Mutex::new(stdin)),
        })
    }

    /// Starts a process.
    pub fn spawn(&self, program: &Program) -> Result<Process, SpawnError> {
        let failed = |source| SpawnError::Spawn {
            binary: program.binary.clone(),
            source,
        };
        let (output, writer) = io::pipe().map_err(failed)?;
        let mut command = Command::new(&self.launcher);
        command
            .arg(launch::CHILD)
            .arg(std::process::id().to_string())
            .args([program.called.clone(), program.binary.clone().into()])
            .args(&program.args)
            .env_clear()
            .envs(&program.env)
            .current_dir(&program.directory)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(failed)?)
            .stderr(writer)
            .process_group(0);
        let child = on_the_thread(move || command.spawn()).map_err(failed)?;
        let pid = Pid::from_child(&child);
        self.tell_guard('+', pid);
        let is_there = Arc::new(Mutex::new(true));
        let (sender, ended) = oneshot::channel();
        let (spawner, still) = (self.clone(), is_there.clone());
        std::thread::spawn(move || {
            let exit = spawner.collect(child, pid, &still);
            // Nobody may be left who wants to know.
            sender.send(exit).ok();
        });
        Ok(Process {
            pid,
            is_there,
            output,
            ended,
        })
    }

    /// Waits for the end of a child, ends its group, and only then gives its number back.
    fn collect(&self, mut child: Child, pid: Pid, is_there: &Mutex<bool>) -> Exit {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        let mut is_there = is_there.lock().unwrap_or_else(PoisonError::into_inner);
        kill_process_group(pid, Signal::KILL).ok();
        self.tell_guard('-', pid);
        *is_there = false;
        match child.wait() {
            Ok(status) => exit_of(status),
            Err(_) => Exit::Code(-1),
        }
    }

    fn tell_guard(&self, sign: char, pid: Pid) {
        let line = format!("{sign}{}\n", pid.as_raw_nonzero());
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = guard.write_all(line.as_bytes()) {
            warn!(
                error = &error as &dyn std::error::Error,
                "the guard of child processes is gone"
            );
        }
    }
}

impl Process {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// A handle that signals it, for as long as it is there.
    pub fn signals(&self) -> Signals {
        Signals {
            pid: self.pid,
            is_there: self.is_there.clone(),
        }
    }
}

/// Signals the process group of a child.
#[derive(Debug, Clone)]
pub struct Signals {
    pid: Pid,
    is_there: Arc<Mutex<bool>>,
}

impl Signals {
    /// Asks it to end.
    pub fn terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Ends it.
    pub fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        let is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_there {
            kill_process_group(self.pid, signal).ok();
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs something on the one thread that makes children.
fn on_the_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    static THREAD: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for job in jobs {
                job();
            }
        });
        sender
    });
    let (sender, result) = mpsc::sync_channel(1);
    let job: Job = Box::new(move || {
        sender.send(work()).ok();
    });
    let gone = || io::Error::other("the thread that makes processes is gone");
    thread.send(job).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}
