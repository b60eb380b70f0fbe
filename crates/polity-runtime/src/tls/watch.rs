//! Keeps a server's TLS configuration in step with its files.
//!
//! Files change in three ways: they are rewritten, replaced by a rename, or (Secret volumes)
//! are links through a `..data` link that is replaced by a rename. All three are events in the
//! directory that holds the path, so directories are watched, never the files themselves. Where
//! events do not come (network file systems, a directory that is itself replaced) a slow look at
//! the contents finds the change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::{ServerTls, TlsError, TlsFiles, TlsMaterial};
use crate::clock::Clock;
use crate::shutdown::Shutdown;

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

/// Watches the files until the shutdown and swaps the configuration when their contents change.
/// Broken contents are warned of once, and the old ones kept.
///
/// `current` is what the configuration was made of.
pub async fn watch(
    files: TlsFiles,
    current: TlsMaterial,
    tls: ServerTls,
    timing: ReloadTiming,
    clock: Clock,
    shutdown: Shutdown,
) -> Result<(), notify::Error> {
    // One place is enough: an event that waits stands for all that follow it.
    let (wake, mut woken) = mpsc::channel(1);
    let _watcher = watch_directories(&files, wake)?;
    let mut reloader = Reloader {
        files,
        tls,
        current,
        refused: None,
    };
    let reload = async {
        // The files may have changed between their first reading and the start of the watch.
        reloader.look().await;
        loop {
            tokio::select! {
                _ = woken.recv() => clock.sleep(timing.settle).await,
                () = clock.sleep(timing.poll) => {}
            }
            // What came while we waited is covered by the look that follows.
            let _ = woken.try_recv();
            reloader.look().await;
        }
    };
    shutdown.run_until::<_>(reload).await.unwrap_or(Ok(()))
}

fn watch_directories(
    files: &TlsFiles,
    wake: mpsc::Sender<()>,
) -> Result<RecommendedWatcher, notify::Error> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is an event too, and must not wake us.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            let _ = wake.try_send(());
        }
    })?;
    let directories: BTreeSet<PathBuf> = files.paths().map(directory).collect();
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

struct Reloader {
    files: TlsFiles,
    tls: ServerTls,
    current: TlsMaterial,
    /// What was refused last, so that it is warned of once.
    refused: Option<TlsMaterial>,
}

impl Reloader {
    async fn look(&mut self) {
        match self.files.read().await {
            Ok(found) if found == self.current => debug!("certificate files are unchanged"),
            Ok(found) if self.refused.as_ref() == Some(&found) => {
                debug!("certificate files are still broken");
            }
            Ok(found) => self.swap(found),
            Err(error) => warn_kept(&error),
        }
    }

    fn swap(&mut self, found: TlsMaterial) {
        match self.tls.swap(&found) {
            Ok(()) => {
                info!(file = %self.files.certificate.display(), "certificate reloaded");
                self.current = found;
                self.refused = None;
            }
            Err(error) => {
                warn_kept(&error);
                self.refused = Some(found);
            }
        }
    }
}

fn warn_kept(error: &TlsError) {
    warn!(
        error = error as &dyn std::error::Error,
        "keeping the old certificate"
    );
}
