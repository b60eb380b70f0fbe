//! The instance that runs on this machine: its data directory, its lock, and the state that it recorded.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use polity_store::OpenError;
use serde::{Deserialize, Serialize};

/// `--data-dir`, for every command about the local instance.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DataDirArgs {
    /// The data directory [default: ~/.local/share/polity]
    #[arg(long, value_name = "DIR", env = polity_runtime::env::DATA_DIR)]
    pub data_dir: Option<PathBuf>,
}

impl DataDirArgs {
    /// The directory, absolute.
    pub fn resolve(&self) -> anyhow::Result<PathBuf> {
        let dir = match &self.data_dir {
            Some(dir) => dir.clone(),
            None => polity_runtime::dirs::data_dir()?,
        };
        std::path::absolute(&dir).with_context(|| format!("finding {}", dir.display()))
    }
}

/// What a running `polity up` writes about itself into its data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    pub pid: i32,
    pub version: String,
    pub started: Timestamp,
    pub kubeconfig: PathBuf,
    /// The hub first.
    pub clusters: Vec<ClusterState>,
}

/// One cluster of a running instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    pub name: String,
    pub server: String,
    pub context: String,
}

/// How to continue when the store of a cluster of `local` cannot be opened.
pub fn store_hint(cluster: &str, error: &OpenError, local: &Local) -> Option<String> {
    if let Some(file) = error.damaged_file() {
        return Some(format!(
            "restore a backup with `{}`; without one, move {} away and cluster {cluster:?} \
             starts empty, or delete everything with `{}`",
            local.command("restore FILE --force"),
            file.display(),
            local.command("reset")
        ));
    }
    match error {
        OpenError::ReadOnly { .. } => Some(format!(
            "{} must be writable for this user",
            local.dir().display()
        )),
        OpenError::Full { .. } => Some("free some space, then start again".to_owned()),
        OpenError::Format { .. } => Some(
            "start the version that wrote it, or name another directory with --data-dir".to_owned(),
        ),
        OpenError::Damaged { .. }
        | OpenError::Foreign { .. }
        | OpenError::InUse { .. }
        | OpenError::Io { .. } => None,
    }
}

/// A command about the instance in a data directory; in the usual one without a directory.
pub fn command_in(data_dir: Option<&Path>, command: &str) -> String {
    match data_dir {
        Some(dir) => format!("polity {command} --data-dir {}", quoted(dir)),
        None => format!("polity {command}"),
    }
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%,=".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What a folder that `polity restore` works with holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreFolder {
    /// The content of a backup, which is not checked yet.
    Unpacked,
    /// The data from before a restore that has not finished.
    Replaced,
    /// The data from before a restore that has finished.
    Discarded,
}

impl RestoreFolder {
    const ALL: [Self; 3] = [Self::Unpacked, Self::Replaced, Self::Discarded];

    /// How the names of these folders begin.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Unpacked => ".restore-",
            Self::Replaced => ".replaced-",
            Self::Discarded => ".discarded-",
        }
    }
}

/// A data directory.
#[derive(Debug, Clone)]
pub struct Local {
    dir: PathBuf,
}

/// The lock of the process that runs on a data directory. The system releases it when the process ends.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

impl Local {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory, if commands need `--data-dir` to find it.
    pub fn unusual_dir(&self) -> Option<&Path> {
        let usual = match polity_runtime::env::read(polity_runtime::env::DATA_DIR) {
            Some(named) => std::path::absolute(named).ok(),
            None => polity_runtime::dirs::data_dir().ok(),
        };
        (usual.as_deref() != Some(self.dir())).then_some(self.dir())
    }

    /// A command about this instance, as a user can copy it into a shell.
    pub fn command(&self, command: &str) -> String {
        command_in(self.unusual_dir(), command)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The log file of an instance.
    pub fn log(&self) -> PathBuf {
        self.dir.join("polity.log")
    }

    /// The folders of restores that were interrupted.
    pub fn restore_folders(&self) -> anyhow::Result<Vec<(RestoreFolder, PathBuf)>> {
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            Err(error) => {
                return Err(error).with_context(|| format!("reading {}", self.dir.display()));
            }
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let folder = RestoreFolder::ALL
                .into_iter()
                .find(|folder| name.starts_with(folder.prefix()));
            found.extend(folder.map(|folder| (folder, entry.path())));
        }
        Ok(found)
    }

    fn state_file(&self) -> PathBuf {
        self.dir.join("run.json")
    }

    fn lock_file(&self) -> PathBuf {
        self.dir.join("run.lock")
    }

    /// Locks the directory for this process; `None` when another process holds it.
    pub fn hold(&self) -> anyhow::Result<Option<Held>> {
        let path = self.lock_file();
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Held { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("locking {}", path.display())),
        }
    }

    /// Whether some process runs on the directory.
    pub fn is_held(&self) -> anyhow::Result<bool> {
        if !self.lock_file().exists() {
            return Ok(false);
        }
        Ok(self.hold()?.is_none())
    }

    /// The state that the last run recorded, running or not.
    pub fn last_run(&self) -> anyhow::Result<Option<RunState>> {
        let path = self.state_file();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is damaged", path.display()))
    }

    /// Records what runs here.
    pub fn write_run(&self, state: &RunState) -> anyhow::Result<()> {
        let path = self.state_file();
        let text = serde_json::to_vec_pretty(state)?;
        polity_runtime::files::write_private(&path, &text)?;
        Ok(())
    }

    /// Records that the instance has stopped.
    pub fn clear_run(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(self.state_file()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What runs here now.
    pub fn running(&self) -> anyhow::Result<Option<RunState>> {
        if self.is_held()? {
            self.last_run()
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> RunState {
        RunState {
            pid: 42,
            version: "0.1.0".into(),
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            kubeconfig: "/x/kubeconfig".into(),
            clusters: vec![ClusterState {
                name: "hub".into(),
                server: "https://127.0.0.1:6443".into(),
                context: "polity".into(),
            }],
        }
    }

    #[test]
    fn a_directory_is_held_by_one_and_free_when_it_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        assert!(!local.is_held().unwrap());
        let held = local.hold().unwrap().expect("free at first");
        local.write_run(&state()).unwrap();
        assert!(local.hold().unwrap().is_none(), "taken");
        assert_eq!(local.running().unwrap(), Some(state()));
        drop(held);
        assert_eq!(
            local.running().unwrap(),
            None,
            "a state file without its process is no running instance"
        );
        assert_eq!(local.last_run().unwrap(), Some(state()));
        local.clear_run().unwrap();
        assert_eq!(local.last_run().unwrap(), None);
    }

    #[test]
    fn commands_name_a_data_directory_that_is_not_the_usual_one() {
        let elsewhere = Local::new("/my data");
        assert_eq!(
            elsewhere.command("reset --yes"),
            "polity reset --yes --data-dir '/my data'"
        );
        let usual = Local::new(polity_runtime::dirs::data_dir().unwrap());
        assert_eq!(usual.command("reset --yes"), "polity reset --yes");
    }

    #[test]
    fn a_damaged_state_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run.json"), "{").unwrap();
        let error = Local::new(folder.path()).last_run().unwrap_err();
        assert!(error.to_string().contains("run.json"), "{error}");
    }
}
