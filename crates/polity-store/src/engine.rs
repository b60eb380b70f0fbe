//! Stores versions in a file, or in memory only. This module hides the storage engine from the rest of the crate.

mod disk;

use std::{path::PathBuf, sync::Arc};

pub(crate) use disk::Disk;

use crate::{CommitError, Location, OpenError, Revision};

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// The number of this transaction: one more than that of the last.
    pub(crate) serial: u64,
    /// The revision of the store after it.
    pub(crate) newest: Revision,
    /// The oldest revision that callers may request.
    pub(crate) floor: Revision,
    /// New versions, encoded.
    pub(crate) put: Vec<(Revision, Vec<u8>)>,
    /// Versions that are no longer needed.
    pub(crate) remove: Vec<Revision>,
    /// By bucket, the newest event that was dropped from its history.
    pub(crate) dropped: Vec<(Arc<str>, Revision)>,
}

/// The state after the last transaction. It is read before the versions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) serial: u64,
    pub(crate) newest: Revision,
    pub(crate) floor: Revision,
    pub(crate) dropped: Vec<(Arc<str>, Revision)>,
}

/// Why a transaction failed. All its writes fail for the same reason.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Full {
        directory: PathBuf,
    },
    ReadOnly {
        directory: PathBuf,
    },
    Damaged {
        file: PathBuf,
        position: Option<u64>,
        reason: String,
    },
    Io {
        directory: PathBuf,
        reason: String,
    },
}

/// The storage of versions.
pub(crate) enum Engine {
    Memory,
    Disk(Disk),
}

impl Engine {
    pub(crate) fn open(location: &Location) -> Result<Self, OpenError> {
        match location {
            Location::Memory => Ok(Self::Memory),
            Location::Directory(directory) => Disk::open(directory).map(Self::Disk),
        }
    }

    /// Reads the header.
    pub(crate) fn header(&self) -> Result<Header, OpenError> {
        let (newest, floor) = (Revision::FIRST, Revision::FIRST);
        match self {
            Self::Memory => Ok(Header {
                serial: 0,
                newest,
                floor,
                dropped: Vec::new(),
            }),
            Self::Disk(disk) => disk.header(),
        }
    }

    /// Visits all versions in the order of their revisions. The first reason that the visitor
    /// returns ends the visit: the store is damaged.
    pub(crate) fn versions(
        &self,
        visit: impl FnMut(Revision, &[u8]) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        match self {
            Self::Memory => Ok(()),
            Self::Disk(disk) => disk.versions(visit),
        }
    }

    /// Makes a transaction durable. After a failure nothing works until [`Engine::recover`].
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        match self {
            Self::Memory => Ok(()),
            Self::Disk(disk) => disk.commit(transaction),
        }
    }

    /// Makes the engine work again after a failure, and returns the number of the last transaction
    /// that is on disk: one that failed may be there nevertheless. Does nothing without a failure.
    pub(crate) fn recover(&mut self) -> Result<Option<u64>, Failure> {
        match self {
            Self::Memory => Ok(None),
            Self::Disk(disk) => disk.recover(),
        }
    }
}

impl<I> From<Failure> for CommitError<I> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full { directory } => Self::Full { directory },
            Failure::ReadOnly { directory } => Self::ReadOnly { directory },
            Failure::Damaged {
                file,
                position,
                reason,
            } => Self::Damaged {
                file,
                position,
                reason,
            },
            Failure::Io { directory, reason } => Self::Io { directory, reason },
        }
    }
}
