//! One test program, as cargo starts it through us: one that hangs is ended and named, and suites that mostly wait for
//! others run more tests at once than there are cores.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The slowest takes four minutes on two cores.
const AT_MOST: Duration = Duration::from_mins(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// They start processes and wait for what becomes of them.
const WAITING_SUITES: [&str; 3] = ["guides", "kubectl", "lifecycle"];
const THREADS: &str = "RUST_TEST_THREADS";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let (program, arguments) = self.command.split_first().context("no program")?;
        let name = suite(Path::new(program));
        let mut command = Command::new(program);
        command.args(arguments);
        if WAITING_SUITES.contains(&name.as_str()) && shell::variable(THREADS).is_none() {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS, (2 * cores).to_string());
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        match wait(&mut child, AT_MOST)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("{name} ended with {status}"),
            None => {
                child.kill()?;
                child.wait()?;
                bail!(
                    "{name} did not end within {}: one of the tests above that said nothing hangs",
                    shell::duration(AT_MOST)
                )
            }
        }
    }
}

/// What the program was before cargo gave it a number: `lifecycle` of `lifecycle-0123456789abcdef`.
fn suite(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('-') {
        Some((suite, _)) => suite.to_owned(),
        None => name.into_owned(),
    }
}

/// Its status; `None` if it goes on.
fn wait(child: &mut Child, at_most: Duration) -> Result<Option<ExitStatus>> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= at_most {
            return Ok(None);
        }
        thread::sleep(BETWEEN_LOOKS);
        waited += BETWEEN_LOOKS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_of_their_folders() {
        for (program, expected) in [
            ("/t/debug/deps/lifecycle-557f56dd7b583aec", "lifecycle"),
            ("polity_store-1", "polity_store"),
            ("plain", "plain"),
        ] {
            assert_eq!(suite(Path::new(program)), expected);
        }
    }

    #[test]
    fn what_goes_on_too_long_is_noticed() {
        let mut quick = Command::new("true").spawn().unwrap();
        let status = wait(&mut quick, Duration::from_mins(1)).unwrap().unwrap();
        assert!(status.success());

        let mut endless = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(wait(&mut endless, Duration::ZERO).unwrap().is_none());
        endless.kill().unwrap();
        endless.wait().unwrap();
    }
}
