//! One real cluster for manual use, which keeps running in the background.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::process::Lifetime;
use crate::tools::kube_cache;

/// The cluster that [`up`] started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The URL of the API server.
    pub url: String,
    /// A kubeconfig with administrator credentials.
    pub kubeconfig: PathBuf,
    /// The kubectl of the same release.
    pub kubectl: PathBuf,
    /// The programs with their process ids.
    pub processes: Vec<(String, u32)>,
}

/// Starts the cluster unless it is running.
pub fn up() -> Result<Running> {
    if let Some(running) = running()? {
        return Ok(running);
    }
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    let cluster = Cluster::start_in(&folder, Lifetime::Detached, &[])?;
    let running = Running {
        url: cluster.url().to_owned(),
        kubeconfig: cluster.kubeconfig().to_owned(),
        kubectl: cluster.kubectl().to_owned(),
        processes: cluster
            .processes()
            .map(|(name, id)| (name.to_owned(), id))
            .collect(),
    };
    fs::write(
        state_file(),
        serde_json::to_string_pretty(&running.to_json())?,
    )?;
    Ok(running)
}

/// Stops the cluster and deletes its data. Returns false if none was running.
pub fn down() -> Result<bool> {
    let Some(running) = running()? else {
        return Ok(false);
    };
    // Stop etcd last, because it was started first.
    for (_, id) in running
        .processes
        .iter()
        .rev()
        .filter(|(name, id)| is_ours(name, *id))
    {
        signal(*id, Signal::KILL);
    }
    fs::remove_dir_all(folder()).context("removing the data of the cluster")?;
    Ok(true)
}

/// Returns the cluster if all its programs are running.
pub fn running() -> Result<Option<Running>> {
    let Ok(text) = fs::read_to_string(state_file()) else {
        return Ok(None);
    };
    let Some(running) = Running::from_json(&serde_json::from_str(&text)?) else {
        bail!("{} is not readable; remove it", state_file().display());
    };
    let alive = running
        .processes
        .iter()
        .filter(|(name, id)| is_ours(name, *id))
        .count();
    if alive == running.processes.len() {
        return Ok(Some(running));
    }
    // A partial cluster is not usable, so the rest is stopped.
    for (_, id) in running
        .processes
        .iter()
        .filter(|(name, id)| is_ours(name, *id))
    {
        signal(*id, Signal::KILL);
    }
    fs::remove_file(state_file())?;
    Ok(None)
}

pub(crate) fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // The process may have exited already.
        let _ = kill_process(pid, signal);
    }
}

/// Whether the process with this id is still the program that was started. The kernel reuses ids.
fn is_ours(name: &str, id: u32) -> bool {
    let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else {
        return false;
    };
    if test_kill_process(pid).is_err() {
        return false;
    }
    let proc = Path::new("/proc").join(id.to_string());
    if !proc.exists() {
        return cfg!(not(target_os = "linux"));
    }
    let command = fs::read(proc.join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command);
    command
        .split('\0')
        .next()
        .is_some_and(|program| program.ends_with(name))
        && command.contains(&*folder().to_string_lossy())
}

fn folder() -> PathBuf {
    kube_cache().join("run")
}

fn state_file() -> PathBuf {
    folder().join("state.json")
}

impl Running {
    fn to_json(&self) -> Value {
        json!({"url": self.url, "kubeconfig": self.kubeconfig, "kubectl": self.kubectl, "processes": self.processes})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            url: text("url")?,
            kubeconfig: text("kubeconfig")?.into(),
            kubectl: text("kubectl")?.into(),
            processes: serde_json::from_value(value["processes"].clone()).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_reads_back() {
        let running = Running {
            url: "https://127.0.0.1:1".to_owned(),
            kubeconfig: "/k".into(),
            kubectl: "/kubectl".into(),
            processes: vec![("etcd".to_owned(), 7)],
        };
        assert_eq!(Running::from_json(&running.to_json()), Some(running));
        assert_eq!(Running::from_json(&json!({"url": 1})), None);
    }

    #[test]
    fn a_process_of_someone_else_is_not_ours() {
        assert!(!is_ours("etcd", std::process::id()));
        assert!(!is_ours("etcd", 0));
    }
}
