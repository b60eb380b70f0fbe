//! What Pods say, kept in files and read back.
//!
//! Each run of a Pod's process has its own files, numbered, of bounded size and number. A line is kept with its
//! time in front, as container runtimes keep it, so that readers can ask for times. Files only grow, and the
//! oldest goes when there are too many: a reader that follows never finds one changed under it.

mod read;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use polity_runtime::Clock;
use tokio::sync::watch;

pub use read::{LogQuery, LogStream};
pub use write::Writer;

/// How much of one run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub file_bytes: u64,
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 10 << 20,
            files: 5,
        }
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// The file that is written.
    file: u64,
    bytes: u64,
    is_over: bool,
}

/// The runs of one Pod.
#[derive(Debug, Clone)]
struct Runs {
    uid: String,
    directory: PathBuf,
    last: i32,
    progress: watch::Receiver<Progress>,
}

/// The logs of all Pods of a runtime. Clones are the same logs.
#[derive(Clone)]
pub struct Logs {
    directory: PathBuf,
    limits: Limits,
    clock: Clock,
    /// By namespace and name.
    pods: Arc<Mutex<BTreeMap<(String, String), Runs>>>,
}

impl Logs {
    /// Logs below a directory.
    pub fn new(directory: PathBuf, limits: Limits, clock: Clock) -> Self {
        Self {
            directory,
            limits,
            clock,
            pods: Arc::default(),
        }
    }

    /// Begins the n-th run of a Pod.
    pub fn begin(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
        run: i32,
    ) -> std::io::Result<Writer> {
        let directory = self.directory.join(format!("{namespace}_{pod}_{uid}"));
        std::fs::create_dir_all(&directory)?;
        // Kept are this run and the one before.
        write::prune(&directory, run.saturating_sub(1))?;
        let (sender, progress) = watch::channel(Progress::default());
        let writer = Writer::new(&directory, run, self.limits, self.clock.clone(), sender)?;
        let runs = Runs {
            uid: uid.to_owned(),
            directory,
            last: run,
            progress,
        };
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.insert((namespace.to_owned(), pod.to_owned()), runs);
        Ok(writer)
    }

    /// Forgets a Pod that is gone, and deletes what it said.
    pub fn remove(&self, namespace: &str, pod: &str, uid: &str) {
        let key = (namespace.to_owned(), pod.to_owned());
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if pods.get(&key).is_some_and(|runs| runs.uid == uid) {
            pods.remove(&key);
        }
        let directory = self.directory.join(format!("{namespace}_{pod}_{uid}"));
        std::fs::remove_dir_all(directory).ok();
    }

    /// The log of a Pod; `None` when it is not run here, or has no run of the kind asked for.
    pub fn open(&self, namespace: &str, pod: &str, query: LogQuery) -> Option<LogStream> {
        let key = (namespace.to_owned(), pod.to_owned());
        let runs = {
            let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            pods.get(&key)?.clone()
        };
        let now = self.clock.now();
        if !query.previous {
            let progress = Some(runs.progress);
            return Some(read::stream(
                runs.directory,
                runs.last,
                progress,
                query,
                now,
            ));
        }
        let before = runs.last.checked_sub(1)?;
        let has_run = !write::files(&runs.directory, before).ok()?.is_empty();
        has_run.then(|| read::stream(runs.directory, before, None, query, now))
    }
}

fn path_of(directory: &Path, run: i32, file: u64) -> PathBuf {
    directory.join(format!("{run}.{file}.log"))
}

#[cfg(test)]
mod tests;
