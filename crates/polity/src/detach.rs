//! `polity up -d`: the same program again, in the background, watched until it is up.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use polity_cli::exit::Exit;
use polity_cli::local::Local;
use polity_cli::output::Paint;
use polity_runtime::logs::rotate;

use crate::banner::{self, Facts};
use crate::up::{self, UpArgs};

/// How long a start may take before the waiting ends; the process goes on.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts `polity up` in the background and waits until it is up, or says why not.
pub(crate) fn run(args: &UpArgs, chooses_logs: bool) -> anyhow::Result<Exit> {
    let local = Local::new(args.data_dir.resolve()?);
    let log_path = args.open_log()?;
    local.clear_run()?;
    rotate(&log_path).with_context(|| format!("rotating {}", log_path.display()))?;
    let log = File::options()
        .create(true)
        .append(true)
        .open(local.log())
        .with_context(|| format!("opening {}", local.log().display()))?;
    let log_start = log.metadata()?.len();
    args.cluster_count(&local).print();
    let arguments = background_arguments(std::env::args_os().skip(1), chooses_logs);
    let mut child = spawn(&log, arguments)?;
    eprintln!(
        "starting polity in the background (log: {}) …",
        local.log().display()
    );
    wait(&mut child, &local, log_start)?;
    let Some(run) = local.running()? else {
        bail!("polity ended; look at {}", local.log().display());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let facts = runtime.block_on(Facts::of(&run, &local, Some(log_path), args.is_exposed()));
    eprintln!("{}", banner::text(&run, &facts, Paint::for_stderr()));
    Ok(Exit::Fine)
}

/// The command line of the instance in the background: the same without the flag that led here. It writes its log file
/// itself, which limits the size of the file, unless the command line or the environment chooses how to log.
fn background_arguments(
    given: impl Iterator<Item = OsString>,
    chooses_logs: bool,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given
        .filter(|argument| argument != "-d" && argument != "--detach")
        .collect();
    if !chooses_logs {
        arguments.push(up::IN_BACKGROUND.into());
    }
    arguments
}

/// Starts the instance. What it prints, such as the reason of a failed start, is appended to the log file.
fn spawn(log: &File, arguments: Vec<OsString>) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(arguments);
    // A group of its own: a Ctrl-C at this terminal is not meant for it.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    command.spawn().context("starting polity in the background")
}

/// Waits until the child says that it runs.
fn wait(child: &mut Child, local: &Local, log_start: u64) -> anyhow::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        if local.running()?.is_some() {
            return Ok(());
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
    let mut file =
        File::open(local.log()).with_context(|| format!("opening {}", local.log().display()))?;
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn background(given: &[&str], chooses_logs: bool) -> Vec<OsString> {
        background_arguments(given.iter().map(OsString::from), chooses_logs)
    }

    #[test]
    fn the_instance_writes_its_own_log_file_unless_logs_are_chosen() {
        let given = ["up", "-d", "--clusters", "2"];
        assert_eq!(
            background(&given, false),
            ["up", "--clusters", "2", "--in-background"]
        );
        let given = ["up", "--detach", "--log-level", "debug"];
        assert_eq!(background(&given, true), ["up", "--log-level", "debug"]);
    }
}
