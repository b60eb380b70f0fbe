//! The errors of the store, one enum for each operation.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Key, Object, Revision};

/// Why a store could not be opened. No object on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store of this process, has the directory open.
    #[error("the data directory {} is in use by another process", directory.display())]
    InUse { directory: PathBuf },
    /// The directory or a file in it cannot be written.
    #[error("the data directory {} is not writable", directory.display())]
    ReadOnly {
        directory: PathBuf,
        source: io::Error,
    },
    /// The disk has no space to open the store.
    #[error("no space left for the data directory {}", directory.display())]
    Full {
        directory: PathBuf,
        source: io::Error,
    },
    /// The store was written by another version of this program.
    #[error("{} has store format {found}, this program reads format {expected}", file.display())]
    Format {
        file: PathBuf,
        found: u64,
        /// The version that this program reads and writes.
        expected: u64,
    },
    /// The store's file does not begin as a store does: it is some other file, or its beginning was
    /// overwritten.
    #[error("{} is not a store, or its first bytes were overwritten", file.display())]
    Foreign { file: PathBuf },
    /// The file is a store and is damaged, for example cut short or overwritten.
    #[error("the store {} is damaged{}: {reason}", file.display(), Near(*position))]
    Damaged {
        file: PathBuf,
        /// The offset of the last read, in bytes from the start of the file. The damage is there, or in the data that
        /// points there.
        position: Option<u64>,
        reason: String,
    },
    /// Anything else the operating system refused.
    #[error("could not open the store in {}", directory.display())]
    Io {
        directory: PathBuf,
        source: io::Error,
    },
}

impl OpenError {
    /// The file that is not an intact store, if that is the reason. It can only be replaced, by a backup or by an
    /// empty store.
    pub fn damaged_file(&self) -> Option<&Path> {
        match self {
            Self::Foreign { file } | Self::Damaged { file, .. } => Some(file),
            Self::InUse { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Format { .. }
            | Self::Io { .. } => None,
        }
    }
}

/// A position in a file, as a part of a sentence.
struct Near(Option<u64>);

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(position) => write!(f, " near byte {position}"),
            None => Ok(()),
        }
    }
}

/// Why a write failed.
///
/// After a failure of the disk (full, read-only, other) the store checks on disk whether the write was stored, so an
/// error means that it was not. Only if that check fails too, a refused write may appear later, once the disk works
/// again.
#[derive(thiserror::Error)]
pub enum CommitError<I> {
    /// The condition was that the object does not exist, but it exists.
    #[error("{} exists already", current.key)]
    Exists {
        /// The existing object.
        current: Arc<Object<I>>,
    },
    /// Another version than the expected one is the newest, or the object is gone.
    #[error("{key} was changed in the meantime")]
    Changed {
        key: Key,
        /// The newest version, if the object exists.
        current: Option<Arc<Object<I>>>,
    },
    /// There is nothing to delete.
    #[error("{key} does not exist")]
    Missing { key: Key },
    /// The object is larger than the store takes.
    #[error("an object of {size} bytes is more than the {limit} bytes the store takes")]
    ValueTooLarge { size: usize, limit: usize },
    /// A part of the key is longer than the store takes.
    #[error("a key part of {size} bytes is more than the {limit} bytes the store takes")]
    KeyTooLong { size: usize, limit: usize },
    /// There is no space left. Reads keep working, and writes work again when there is space.
    #[error("no space left in the data directory {}", directory.display())]
    Full { directory: PathBuf },
    /// The directory has become read-only.
    #[error("the data directory {} is not writable", directory.display())]
    ReadOnly { directory: PathBuf },
    /// The file turned out to be damaged while it was written to. Reads go on.
    #[error("the store {} is damaged{}: {reason}", file.display(), Near(*position))]
    Damaged {
        file: PathBuf,
        /// Where the damage was found, in bytes from the start of the file.
        position: Option<u64>,
        reason: String,
    },
    /// The disk failed in another way.
    #[error("could not write to the data directory {}: {reason}", directory.display())]
    Io {
        directory: PathBuf,
        /// The error of the storage engine.
        reason: String,
    },
    /// The store was closed. A write that was on its way may or may not have been kept.
    #[error("the store is closed")]
    Closed,
}

impl<I> fmt::Debug for CommitError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not derived, because a derived implementation would require `Debug` of every index.
        write!(f, "CommitError({self})")
    }
}

/// Whether a store takes writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The last transaction failed, for example because the disk is full. Reads go on, and the store tries again.
    #[error("the last write failed: {reason}")]
    Failing { reason: String },
    /// The store was closed, or its writer has stopped.
    #[error("the store is closed")]
    Closed,
}

/// Why the past cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The revision is older than the history that is kept.
    #[error("the oldest revision kept is {oldest}")]
    Compacted {
        /// The oldest revision that is still available.
        oldest: Revision,
    },
    /// The store has not reached the revision yet.
    #[error("the newest revision is {newest}")]
    Future { newest: Revision },
}

/// Why a watch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The watcher was so slow that events it has not seen have left the history.
    #[error("the watch fell behind the history that is kept")]
    Lagged,
    /// The store was closed. The watch has returned every earlier event.
    #[error("the store is closed")]
    Closed,
}
