//! `polity down`: stops what `polity up` started.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::exit::{Exit, Hinted};
use crate::local::{DataDirArgs, Local};

/// Stop the local instance; its data stays
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  polity down\n  polity down --data-dir /tmp/try")]
pub struct DownArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// How long to wait for it to stop
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: polity_runtime::args::HumanDuration,
}

impl DownArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self { data_dir, timeout } = self;
        let local = Local::new(data_dir.resolve()?);
        let Some(run) = local.running()? else {
            local.clear_run().ok();
            eprintln!("polity is not running in {}", local.dir().display());
            return Ok(Exit::Fine);
        };
        let pid = Pid::from_raw(run.pid).context("the state file names no process")?;
        kill_process(pid, Signal::TERM).with_context(|| format!("stopping process {}", run.pid))?;
        eprintln!("stopping polity (pid {}) …", run.pid);
        if !stopped(&local, timeout.0).await? {
            let message = format!("polity (pid {}) did not stop within {timeout}", run.pid);
            return Err(Hinted::new(
                message,
                format!(
                    "it may be finishing requests; to end it at once: kill -9 {}",
                    run.pid
                ),
            )
            .into());
        }
        eprintln!("stopped");
        Ok(Exit::Fine)
    }
}

/// Waits until the directory is free again.
async fn stopped(local: &Local, patience: Duration) -> anyhow::Result<bool> {
    let deadline = tokio::time::Instant::now() + patience;
    while local.is_held()? {
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(true)
}
