//! Notices when files change, so that whoever was made from them can be made again.
//!
//! Files change in three ways: they are rewritten, replaced by a rename, or (Secret and ConfigMap
//! volumes) are links through a `..data` link that is replaced by a rename. All three are events in
//! the directory that holds the path, so directories are watched, never the files themselves. Where
//! events do not come (network file systems, a directory that is itself replaced) a slow look at
//! the contents finds the change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::clock::Clock;

/// The directories of some files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("watching for changes of files")]
pub struct WatchError(#[from] notify::Error);

/// When changed files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadTiming {
    /// How long to wait after an event for those that belong to it: a certificate and its key
    /// are two writes.
    pub settle: Duration,
    /// How often to look without an event.
    pub poll: Duration,
}

impl Default for ReloadTiming {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(250),
            poll: Duration::from_mins(1),
        }
    }
}

/// Tells when to look at files again.
#[derive(Debug)]
pub struct Changes {
    woken: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
    timing: ReloadTiming,
    clock: Clock,
}

impl Changes {
    /// Watches from now on. What was read before may have changed meanwhile: look once more.
    pub fn watch<'a>(
        files: impl IntoIterator<Item = &'a Path>,
        timing: ReloadTiming,
        clock: Clock,
    ) -> Result<Self, WatchError> {
        // One place is enough: an event that waits stands for all that follow it.
        let (wake, woken) = mpsc::channel(1);
        Ok(Self {
            woken,
            _watcher: watch_directories(files, wake)?,
            timing,
            clock,
        })
    }

    /// Waits until it is time to look: something happened and settled, or nothing did for long.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.woken.recv() => self.clock.sleep(self.timing.settle).await,
            () = self.clock.sleep(self.timing.poll) => {}
        }
        // What came while we waited is covered by the look that follows.
        let _ = self.woken.try_recv();
    }
}

fn watch_directories<'a>(
    files: impl IntoIterator<Item = &'a Path>,
    wake: mpsc::Sender<()>,
) -> Result<RecommendedWatcher, notify::Error> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is an event too, and must not wake us.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            let _ = wake.try_send(());
        }
    })?;
    let directories: BTreeSet<PathBuf> = files.into_iter().map(directory).collect();
    for directory in directories {
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
