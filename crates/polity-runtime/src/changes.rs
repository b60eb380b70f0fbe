//! Notifies when files change, so that the values that were loaded from them can be reloaded.
//!
//! Files change in three ways: they are rewritten, replaced by a rename, or (Secret and ConfigMap volumes) are links
//! through a `..data` link that is replaced by a rename. All three are events in the directory that holds the path, so
//! directories are watched, never the files themselves. Where there are no events (network file systems, a directory
//! that is itself replaced), slow polling of the contents finds the change. Linux limits the number of watches for all
//! processes of a user (`fs.inotify.max_user_instances`, often 128): a process that cannot get one polls more often.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::warn;

use crate::clock::Clock;

/// The minimum polling interval when no watch is available.
const LOOK_WITHOUT_EVENTS: Duration = Duration::from_secs(10);

/// `ENFILE`, `EMFILE` and `ENOSPC`, which have these numbers on every Unix.
const EXHAUSTED: [i32; 3] = [23, 24, 28];

/// The directories of some files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("watching for changes of files")]
pub struct WatchError(#[from] notify::Error);

/// When changed files are read.
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

/// Notifies when files should be read again.
#[derive(Debug)]
pub struct Changes {
    woken: mpsc::Receiver<()>,
    /// Held so that the channel stays open, with or without a watcher.
    _wake: mpsc::Sender<()>,
    _watcher: Option<RecommendedWatcher>,
    timing: ReloadTiming,
    clock: Clock,
}

impl Changes {
    /// Starts to watch. Files may have changed since they were read, so the caller must read them once more.
    pub fn watch<'a>(
        files: impl IntoIterator<Item = &'a Path>,
        timing: ReloadTiming,
        clock: Clock,
    ) -> Result<Self, WatchError> {
        // A capacity of one is enough: one pending event stands for all that follow it.
        let (wake, woken) = mpsc::channel(1);
        let watcher = watch_directories(files, wake.clone());
        let (watcher, timing) = watcher_or_looks(watcher, timing)?;
        Ok(Self {
            woken,
            _wake: wake,
            _watcher: watcher,
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
        // Events that arrived in the meantime are covered by the read that follows.
        let _ = self.woken.try_recv();
    }
}

/// The watcher, and the polling interval if there is none.
fn watcher_or_looks<W>(
    watcher: Result<W, notify::Error>,
    timing: ReloadTiming,
) -> Result<(Option<W>, ReloadTiming), WatchError> {
    match watcher {
        Ok(watcher) => Ok((Some(watcher), timing)),
        Err(error) if is_exhausted(&error) => {
            let poll = timing.poll.min(LOOK_WITHOUT_EVENTS);
            warn!(%error, every = ?poll, "no file events, polling files instead");
            Ok((None, ReloadTiming { poll, ..timing }))
        }
        Err(error) => Err(WatchError(error)),
    }
}

/// Whether others have all that there is to watch with.
fn is_exhausted(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => {
            (error.raw_os_error()).is_some_and(|code| EXHAUSTED.contains(&code))
        }
        _ => false,
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Too many policy servers on one machine: the last ones must serve all the same.
    #[test]
    fn without_a_watch_files_are_polled_more_often() {
        let of_code = |code| notify::Error::io(io::Error::from_raw_os_error(code));
        let cases = [
            ("too many instances", of_code(24), Some(LOOK_WITHOUT_EVENTS)),
            ("too many files", of_code(23), Some(LOOK_WITHOUT_EVENTS)),
            ("too many watches", of_code(28), Some(LOOK_WITHOUT_EVENTS)),
            (
                "too many watches, by name",
                notify::Error::new(notify::ErrorKind::MaxFilesWatch),
                Some(LOOK_WITHOUT_EVENTS),
            ),
            ("no such directory", notify::Error::path_not_found(), None),
            ("not allowed", of_code(13), None),
        ];
        for (case, error, expected) in cases {
            let outcome = watcher_or_looks::<()>(Err(error), ReloadTiming::default());
            let poll = outcome.ok().map(|(_, timing)| timing.poll);
            assert_eq!(poll, expected, "{case}");
        }
        let hasty = ReloadTiming {
            poll: Duration::from_secs(1),
            ..ReloadTiming::default()
        };
        let outcome = watcher_or_looks::<()>(Err(of_code(24)), hasty);
        assert_eq!(outcome.unwrap(), (None, hasty));
    }

    /// Without a watcher the task must not be woken all the time either.
    #[tokio::test]
    async fn without_events_a_look_comes_when_it_is_due() {
        let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let (wake, woken) = mpsc::channel(1);
        let mut changes = Changes {
            woken,
            _wake: wake,
            _watcher: None,
            timing: ReloadTiming::default(),
            clock: clock.clone(),
        };
        let mut next = Box::pin(changes.next());
        assert!(futures::poll!(&mut next).is_pending());
        clock.advance(ReloadTiming::default().poll);
        next.await;
    }
}
