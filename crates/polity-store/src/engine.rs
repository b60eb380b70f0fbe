//! Where versions are kept: in a file, or nowhere. The only module that knows the storage engine.
//!
//! The file is a redb database with three tables. A version is written once, under its revision, and is both the
//! object (as long as nothing replaced it) and the event that made it (as long as the history holds it).

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    TableError,
};

use crate::{CommitError, OpenError, Place, Revision};

/// The version of the layout on disk. `docs/design/store.md` says when it changes.
const FORMAT: u64 = 1;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const META_FORMAT: &str = "format";
const META_NEWEST: &str = "newest";
const META_FLOOR: &str = "floor";
const META_SERIAL: &str = "serial";
/// By bucket: the newest event that was dropped from its history.
const DROPPED: TableDefinition<&str, u64> = TableDefinition::new("dropped");
/// By revision: the encoded [`crate::record::Record`].
const VERSIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("versions");

const DATABASE_FILE: &str = "store.redb";
/// A database is built under this name and renamed when it is complete, so a file with the right name and nothing in
/// it was emptied by someone.
const UNFINISHED_FILE: &str = "store.redb.new";
const LOCK_FILE: &str = "lock";

/// Everything is read once, when the store is opened, so the cache only has to hold what one transaction writes.
/// A process may have twenty stores.
const CACHE_BYTES: usize = 2 << 20;

/// What one transaction changes.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// The number of this transaction: one more than that of the last.
    pub(crate) serial: u64,
    /// The revision of the store after it.
    pub(crate) newest: Revision,
    pub(crate) floor: Revision,
    pub(crate) put: Vec<(Revision, Vec<u8>)>,
    pub(crate) remove: Vec<Revision>,
    pub(crate) dropped: Vec<(Arc<str>, Revision)>,
}

/// What is known of a store before its versions are read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) serial: u64,
    pub(crate) newest: Revision,
    pub(crate) floor: Revision,
    pub(crate) dropped: Vec<(Arc<str>, Revision)>,
}

/// Where versions are kept.
pub(crate) enum Engine {
    Memory,
    Disk(Disk),
}

pub(crate) struct Disk {
    directory: PathBuf,
    /// Held as long as the engine lives. redb locks its file too, but lets go of it when it is opened again.
    _lock: File,
    /// Absent after a failure, until opening it again succeeds: redb does not go on after an error.
    database: Option<Database>,
}

/// Why a transaction failed. All its writes fail for the same reason.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Full { directory: PathBuf },
    ReadOnly { directory: PathBuf },
    Io { directory: PathBuf, reason: String },
}

impl Engine {
    pub(crate) fn open(place: &Place) -> Result<Self, OpenError> {
        match place {
            Place::Memory => Ok(Self::Memory),
            Place::Directory(directory) => Disk::open(directory).map(Self::Disk),
        }
    }

    /// What stands before the versions.
    pub(crate) fn header(&self) -> Result<Header, OpenError> {
        match self {
            Self::Memory => Ok(Header {
                serial: 0,
                newest: Revision::FIRST,
                floor: Revision::FIRST,
                dropped: vec![],
            }),
            Self::Disk(disk) => disk
                .read_header()
                .map_err(|error| open_error(error, &disk.directory, &disk.file())),
        }
    }

    /// Shows all versions in the order of their revisions. What the visitor says is wrong with one ends the visit.
    pub(crate) fn versions(
        &self,
        mut visit: impl FnMut(Revision, &[u8]) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        let Self::Disk(disk) = self else {
            return Ok(());
        };
        let file = disk.file();
        let mut all = || -> Result<Result<(), String>, redb::Error> {
            let read = disk.database()?.begin_read()?;
            for entry in read.open_table(VERSIONS)?.iter()? {
                let (revision, record) = entry?;
                if let Err(reason) = visit(Revision(revision.value()), record.value()) {
                    return Ok(Err(reason));
                }
            }
            Ok(Ok(()))
        };
        let visited = all().map_err(|error| open_error(error, &disk.directory, &file))?;
        visited.map_err(|reason| OpenError::Damaged { file, reason })
    }

    /// Makes a transaction durable. After a failure nothing works until [`Engine::recover`].
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        let Self::Disk(disk) = self else {
            return Ok(());
        };
        disk.write(transaction).map_err(|error| {
            disk.database = None;
            failure(&error, &disk.directory)
        })
    }

    /// Makes the engine work again after a failure, and returns the number of the last transaction that is on disk:
    /// one that failed may be there nevertheless. Does nothing without a failure.
    pub(crate) fn recover(&mut self) -> Result<Option<u64>, Failure> {
        let Self::Disk(disk) = self else {
            return Ok(None);
        };
        if disk.database.is_some() {
            return Ok(None);
        }
        let database =
            open_database(&disk.file()).map_err(|error| failure(&error.into(), &disk.directory))?;
        disk.database = Some(database);
        match disk.read_header() {
            Ok(header) => Ok(Some(header.serial)),
            Err(error) => {
                disk.database = None;
                Err(failure(&error, &disk.directory))
            }
        }
    }
}

impl Disk {
    fn open(directory: &Path) -> Result<Self, OpenError> {
        let at = |error: io::Error| io_open_error(error, directory);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(at)?;
        let lock = private_file()
            .create(true)
            .truncate(false)
            .open(directory.join(LOCK_FILE))
            .map_err(at)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    directory: directory.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(at(error)),
        }
        let file = directory.join(DATABASE_FILE);
        if !file.try_exists().map_err(at)? {
            create_database(directory)?;
        }
        if file.metadata().map_err(at)?.len() == 0 {
            return Err(OpenError::Damaged {
                file,
                reason: "it is empty".to_owned(),
            });
        }
        let database =
            open_database(&file).map_err(|error| open_error(error.into(), directory, &file))?;
        let disk = Self {
            directory: directory.to_owned(),
            _lock: lock,
            database: Some(database),
        };
        disk.check_format()?;
        Ok(disk)
    }

    fn file(&self) -> PathBuf {
        self.directory.join(DATABASE_FILE)
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::PreviousIo)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let file = self.file();
        let found = || -> Result<Option<u64>, redb::Error> {
            match self.database()?.begin_read()?.open_table(META) {
                Ok(table) => Ok(table.get(META_FORMAT)?.map(|version| version.value())),
                Err(TableError::Storage(error)) => Err(error.into()),
                // Some other program's database.
                Err(_) => Ok(None),
            }
        };
        match found().map_err(|error| open_error(error, &self.directory, &file))? {
            Some(FORMAT) => Ok(()),
            Some(found) => Err(OpenError::Format {
                file,
                found,
                expected: FORMAT,
            }),
            None => Err(OpenError::Foreign { file }),
        }
    }

    fn read_header(&self) -> Result<Header, redb::Error> {
        let read = self.database()?.begin_read()?;
        let meta = read.open_table(META)?;
        let number = |name: &str| -> Result<u64, redb::Error> {
            let value = meta
                .get(name)?
                .ok_or_else(|| redb::Error::Corrupted(format!("{name} is missing")))?;
            Ok(value.value())
        };
        let dropped = read.open_table(DROPPED)?;
        let dropped = dropped.iter()?.map(|entry| {
            let (bucket, revision) = entry?;
            Ok((Arc::from(bucket.value()), Revision(revision.value())))
        });
        Ok(Header {
            serial: number(META_SERIAL)?,
            newest: Revision(number(META_NEWEST)?),
            floor: Revision(number(META_FLOOR)?),
            dropped: dropped.collect::<Result<_, redb::Error>>()?,
        })
    }

    fn write(&self, transaction: &Transaction) -> Result<(), redb::Error> {
        let mut write = self.database()?.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert(META_SERIAL, transaction.serial)?;
            meta.insert(META_NEWEST, transaction.newest.0)?;
            meta.insert(META_FLOOR, transaction.floor.0)?;
            let mut versions = write.open_table(VERSIONS)?;
            for (revision, record) in &transaction.put {
                versions.insert(revision.0, record.as_slice())?;
            }
            for revision in &transaction.remove {
                versions.remove(revision.0)?;
            }
            let mut dropped = write.open_table(DROPPED)?;
            for (bucket, revision) in &transaction.dropped {
                dropped.insert(&**bucket, revision.0)?;
            }
        }
        write.commit()?;
        Ok(())
    }
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Builds an empty store beside its place and moves it there.
fn create_database(directory: &Path) -> Result<(), OpenError> {
    let unfinished = directory.join(UNFINISHED_FILE);
    let at = |error: io::Error| io_open_error(error, directory);
    let build = |file: File| -> Result<(), redb::Error> {
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_file(file)?;
        let write = database.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert(META_FORMAT, FORMAT)?;
            meta.insert(META_SERIAL, 0)?;
            meta.insert(META_NEWEST, Revision::FIRST.0)?;
            meta.insert(META_FLOOR, Revision::FIRST.0)?;
            write.open_table(VERSIONS)?;
            write.open_table(DROPPED)?;
        }
        write.commit()?;
        Ok(())
    };
    let file = private_file()
        .create(true)
        .truncate(true)
        .open(&unfinished)
        .map_err(at)?;
    build(file).map_err(|error| open_error(error, directory, &unfinished))?;
    std::fs::rename(&unfinished, directory.join(DATABASE_FILE)).map_err(at)?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(at)
}

fn open_database(file: &Path) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(CACHE_BYTES).open(file)
}

fn is_full(error: &io::Error) -> bool {
    // A quota and a limit on the size of files are the same to whoever wants to write.
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
    )
}

fn io_open_error(source: io::Error, directory: &Path) -> OpenError {
    let directory = directory.to_owned();
    if is_full(&source) {
        OpenError::Full { directory, source }
    } else if is_read_only(&source) {
        OpenError::ReadOnly { directory, source }
    } else {
        OpenError::Io { directory, source }
    }
}

fn open_error(error: redb::Error, directory: &Path, file: &Path) -> OpenError {
    let file = file.to_owned();
    match error {
        redb::Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            OpenError::Foreign { file }
        }
        redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => OpenError::Damaged {
            file,
            reason: "it is cut short".to_owned(),
        },
        redb::Error::Io(error) => io_open_error(error, directory),
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse {
            directory: directory.to_owned(),
        },
        error => OpenError::Damaged {
            file,
            reason: error.to_string(),
        },
    }
}

fn failure(error: &redb::Error, directory: &Path) -> Failure {
    let directory = directory.to_owned();
    match error {
        redb::Error::Io(error) if is_full(error) => Failure::Full { directory },
        redb::Error::Io(error) if is_read_only(error) => Failure::ReadOnly { directory },
        error => Failure::Io {
            directory,
            reason: error.to_string(),
        },
    }
}

impl<I> From<Failure> for CommitError<I> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full { directory } => Self::Full { directory },
            Failure::ReadOnly { directory } => Self::ReadOnly { directory },
            Failure::Io { directory, reason } => Self::Io { directory, reason },
        }
    }
}
