//! `polity up -d`: the same program again, in the background, watched until it is up.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use polity_cli::exit::Exit;
use polity_cli::local::Local;
use polity_cli::output::Paint;
use polity_runtime::files;

use crate::banner;
use crate::up::{UpArgs, already_running};

/// How long a start may take before the waiting ends; the process goes on.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts `polity up` in the background and waits until it is up, or says why not.
pub(crate) fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    let local = Local::new(args.data_dir.resolve()?);
    files::create_private_dir(local.dir())?;
    if local.is_held()? {
        return Err(already_running(&local));
    }
    local.clear_run()?;
    let log = File::options()
        .create(true)
        .append(true)
        .open(local.log())
        .with_context(|| format!("opening {}", local.log().display()))?;
    let log_start = log.metadata()?.len();
    let mut child = spawn(&log)?;
    eprintln!(
        "starting polity in the background (log: {}) …",
        local.log().display()
    );
    wait(&mut child, &local, log_start)
}

/// The same command line without the flag that led here.
fn spawn(log: &File) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(
        std::env::args_os()
            .skip(1)
            .filter(|arg| arg != "-d" && arg != "--detach"),
    );
    // A group of its own: a Ctrl-C at this terminal is not meant for it.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    command.spawn().context("starting polity in the background")
}

fn wait(child: &mut Child, local: &Local, log_start: u64) -> anyhow::Result<Exit> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(run) = local.running()? {
            eprintln!("{}", banner::text(&run, Paint::for_stderr()));
            return Ok(Exit::Fine);
        }
        if let Some(status) = child.try_wait()? {
            bail!(
                "polity ended at once ({status}); it said:\n{}",
                tail(local, log_start)?.trim_end()
            );
        }
        if waited >= PATIENCE {
            bail!(
                "polity (pid {}) is still starting after {PATIENCE:?}; look at {}",
                child.id(),
                local.log().display()
            );
        }
        std::thread::park_timeout(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

/// What the log says since the start.
fn tail(local: &Local, from: u64) -> anyhow::Result<String> {
    let mut file = File::open(local.log())?;
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
