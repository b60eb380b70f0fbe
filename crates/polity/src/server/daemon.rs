//! `--daemon`: the same program again, in the background, watched until it serves.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use polity_cli::exit::Exit;
use polity_runtime::{admin, env};

/// How long a start may take before the waiting ends; the process goes on.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Background")]
pub(super) struct DaemonArgs {
    /// Run in the background
    #[arg(long, env = env::DAEMON)]
    pub(super) daemon: bool,
    /// File for the PID of the background process
    #[arg(long, env = env::DAEMON_PID_FILE, value_name = "FILE", default_value = "policy-server.pid")]
    daemon_pid_file: PathBuf,
    /// File for the standard output of the background process
    #[arg(long, env = env::DAEMON_STDOUT_FILE, value_name = "FILE")]
    daemon_stdout_file: Option<PathBuf>,
    /// File for the standard error of the background process, which has its log
    #[arg(long, env = env::DAEMON_STDERR_FILE, value_name = "FILE")]
    daemon_stderr_file: Option<PathBuf>,
}

impl DaemonArgs {
    /// Starts the background process, and ends when it serves or has ended.
    pub(super) fn start(&self, readiness: SocketAddr) -> anyhow::Result<Exit> {
        let mut child = self.spawn()?;
        match wait(&mut child, readiness)? {
            Waited::Serves => eprintln!("serving in the background (pid {})", child.id()),
            Waited::StillStarts => eprintln!(
                "still starting in the background (pid {}) after {PATIENCE:?}",
                child.id()
            ),
        }
        // Only now: a start that failed leaves the file of the one that runs.
        std::fs::write(&self.daemon_pid_file, format!("{}\n", child.id()))
            .with_context(|| format!("writing {}", self.daemon_pid_file.display()))?;
        Ok(Exit::Fine)
    }

    /// The same command line without the flag that led here.
    fn spawn(&self) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        let given = std::env::args_os();
        let arguments = crate::arguments(given)
            .into_iter()
            .skip(1)
            .filter(|argument| argument != "--daemon" && argument != "--daemon=true");
        // A group of its own: a Ctrl-C at this terminal is not meant for it.
        command
            .args(arguments)
            .env_remove(env::DAEMON)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output(self.daemon_stdout_file.as_deref())?)
            .stderr(output(self.daemon_stderr_file.as_deref())?);
        command.spawn().context("starting in the background")
    }
}

fn output(path: Option<&Path>) -> anyhow::Result<Stdio> {
    let Some(path) = path else {
        return Ok(Stdio::null());
    };
    let file = File::options().create(true).append(true).open(path);
    Ok(file
        .with_context(|| format!("opening {}", path.display()))?
        .into())
}

enum Waited {
    Serves,
    StillStarts,
}

fn wait(child: &mut Child, readiness: SocketAddr) -> anyhow::Result<Waited> {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        if let Some(status) = child.try_wait()? {
            bail!(
                "the background process ended at once ({status}); its standard error says why \
                 (--daemon-stderr-file)"
            );
        }
        // A port that the system chooses is not known here.
        if readiness.port() == 0 || admin::is_ready(readiness, "/readiness") {
            return Ok(Waited::Serves);
        }
        std::thread::park_timeout(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
    Ok(Waited::StillStarts)
}
