//! Versions in a redb database: three tables in one file, as `docs/design/store.md` describes them.
//!
//! A version is written once, under its revision. It is the object as long as nothing replaced it,
//! and the event that made it as long as the history holds it.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    TableError,
};

use super::{Failure, Header, Transaction};
use crate::{OpenError, Revision};

/// The version of the layout on disk. `docs/design/store.md` says when it changes.
const FORMAT: u64 = 1;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const META_FORMAT: &str = "format";
const META_SERIAL: &str = "serial";
const META_NEWEST: &str = "newest";
const META_FLOOR: &str = "floor";
/// By bucket: the newest event that was dropped from its history.
const DROPPED: TableDefinition<&str, u64> = TableDefinition::new("dropped");
/// By revision: the encoded [`crate::record::Record`].
const VERSIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("versions");

const DATABASE_FILE: &str = "store.redb";
/// A database is built under this name and renamed when it is complete, so a file with the right
/// name and nothing in it was emptied by someone.
const UNFINISHED_FILE: &str = "store.redb.new";
const LOCK_FILE: &str = "lock";
/// A lock that was just let go of may be held for a moment longer: a process that is being started
/// has copies of all open files until its program is loaded.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Everything is read once, when the store is opened, so the cache only has to hold what a
/// transaction writes. A process may have twenty stores.
const CACHE_BYTES: usize = 2 << 20;

/// How the database in a file is opened, the first time and after each failure.
pub(crate) type OpenDatabase = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

pub(crate) struct Disk {
    directory: PathBuf,
    open_database: OpenDatabase,
    /// Absent after a failure, until opening it again succeeds: redb does not go on after an error.
    database: Option<Database>,
    /// Held as long as the engine lives. redb locks its file too, but lets go of it in between.
    _lock: File,
}

impl Disk {
    pub(crate) fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(directory, Box::new(|file| builder().open(file)))
    }

    pub(crate) fn open_with(
        directory: &Path,
        open_database: OpenDatabase,
    ) -> Result<Self, OpenError> {
        for _ in 0..LOCK_TRIES {
            match Self::lock(directory) {
                Err(OpenError::InUse { .. }) => thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error),
                Ok(lock) => return Self::open_locked(directory, open_database, lock),
            }
        }
        Err(OpenError::InUse {
            directory: directory.to_owned(),
        })
    }

    fn lock(directory: &Path) -> Result<File, OpenError> {
        let at = |error| io_open_error(error, directory);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(at)?;
        let lock = private_file()
            .truncate(false)
            .open(directory.join(LOCK_FILE))
            .map_err(at)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse {
                directory: directory.to_owned(),
            },
            TryLockError::Error(error) => at(error),
        })?;
        Ok(lock)
    }

    fn open_locked(
        directory: &Path,
        open_database: OpenDatabase,
        lock: File,
    ) -> Result<Self, OpenError> {
        let at = |error| io_open_error(error, directory);
        let file = directory.join(DATABASE_FILE);
        if !file.try_exists().map_err(at)? {
            create_database(directory, &file)?;
        }
        if file.metadata().map_err(at)?.len() == 0 {
            return Err(OpenError::Damaged {
                file,
                reason: "it is empty".to_owned(),
            });
        }
        let database = reading(directory, &file, || {
            // redb has a lock of its own, with the same copies of it.
            for _ in 0..LOCK_TRIES {
                match open_database(&file) {
                    Err(DatabaseError::DatabaseAlreadyOpen) => thread::sleep(LOCK_PAUSE),
                    opened => return Ok(opened?),
                }
            }
            Ok(open_database(&file)?)
        })?;
        let directory = directory.to_owned();
        let disk = Self {
            directory,
            open_database,
            database: Some(database),
            _lock: lock,
        };
        disk.check_format()?;
        Ok(disk)
    }

    pub(crate) fn header(&self) -> Result<Header, OpenError> {
        reading(&self.directory, &self.file(), || self.read_header())
    }

    pub(crate) fn versions(
        &self,
        mut visit: impl FnMut(Revision, &[u8]) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        let file = self.file();
        let mut versions = reading(&self.directory, &file, || {
            let table = self.database()?.begin_read()?.open_table(VERSIONS)?;
            Ok(table.range::<u64>(..)?)
        })?;
        loop {
            let next = reading(&self.directory, &file, || {
                Ok(versions.next().transpose()?)
            })?;
            let Some((revision, record)) = next else {
                return Ok(());
            };
            visit(Revision(revision.value()), record.value()).map_err(|reason| {
                OpenError::Damaged {
                    file: file.clone(),
                    reason,
                }
            })?;
        }
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        self.write(transaction).map_err(|error| {
            self.database = None;
            failure(&error, &self.directory)
        })
    }

    pub(crate) fn recover(&mut self) -> Result<Option<u64>, Failure> {
        if self.database.is_some() {
            return Ok(None);
        }
        let reopened = (self.open_database)(&self.file())
            .map_err(redb::Error::from)
            .and_then(|database| {
                self.database = Some(database);
                self.read_header()
            });
        match reopened {
            Ok(header) => Ok(Some(header.serial)),
            Err(error) => {
                self.database = None;
                Err(failure(&error, &self.directory))
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(DATABASE_FILE)
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::PreviousIo)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let file = self.file();
        let found = reading(&self.directory, &file, || {
            match self.database()?.begin_read()?.open_table(META) {
                Ok(table) => Ok(table.get(META_FORMAT)?.map(|version| version.value())),
                Err(TableError::Storage(error)) => Err(error.into()),
                // Some other program's database.
                Err(_) => Ok(None),
            }
        })?;
        match found {
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
            match meta.get(name)? {
                Some(value) => Ok(value.value()),
                None => Err(redb::Error::Corrupted(format!("{name} is missing"))),
            }
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

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// Builds an empty store beside its place and moves it there.
fn create_database(directory: &Path, place: &Path) -> Result<(), OpenError> {
    let at = |error| io_open_error(error, directory);
    let unfinished = directory.join(UNFINISHED_FILE);
    let file = private_file()
        .truncate(true)
        .open(&unfinished)
        .map_err(at)?;
    reading(directory, &unfinished, || {
        let database = builder().create_file(file)?;
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
    })?;
    std::fs::rename(&unfinished, place).map_err(at)?;
    // The name of the file must be as durable as its content.
    sync_directory(directory).map_err(at)?;
    // So should that of the directory, but its parent may be closed to us.
    let _ = directory
        .canonicalize()
        .map(|directory| directory.parent().map(sync_directory));
    Ok(())
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads from a file that may hold anything. redb answers most damage with an error, but some with
/// a panic; while opening, both mean the same.
fn reading<T>(
    directory: &Path,
    file: &Path,
    read: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, OpenError> {
    // What the panic interrupted is thrown away with the store that is not opened.
    let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(redb::Error::Corrupted(
            "its pages contradict each other".to_owned(),
        ))
    });
    outcome.map_err(|error| open_error(error, directory, file))
}

fn is_full(error: &io::Error) -> bool {
    use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    // A quota and a limit on the size of files are the same to whoever wants to write.
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
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
    let damaged = |reason: String| OpenError::Damaged {
        file: file.to_owned(),
        reason,
    };
    match error {
        redb::Error::Io(error) => match error.kind() {
            ErrorKind::InvalidData => OpenError::Foreign {
                file: file.to_owned(),
            },
            ErrorKind::UnexpectedEof => damaged("it is cut short".to_owned()),
            _ => io_open_error(error, directory),
        },
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse {
            directory: directory.to_owned(),
        },
        redb::Error::Corrupted(reason) => damaged(reason),
        error => damaged(error.to_string()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_becomes_what_a_caller_can_branch_on() {
        let cases = [
            (ErrorKind::StorageFull, "full"),
            (ErrorKind::QuotaExceeded, "full"),
            (ErrorKind::FileTooLarge, "full"),
            (ErrorKind::ReadOnlyFilesystem, "read-only"),
            (ErrorKind::PermissionDenied, "read-only"),
            (ErrorKind::NotADirectory, "other"),
        ];
        for (kind, expected) in cases {
            let directory = Path::new("/data");
            let opening = match io_open_error(kind.into(), directory) {
                OpenError::Full { .. } => "full",
                OpenError::ReadOnly { .. } => "read-only",
                _ => "other",
            };
            let writing = match failure(&redb::Error::Io(kind.into()), directory) {
                Failure::Full { .. } => "full",
                Failure::ReadOnly { .. } => "read-only",
                Failure::Io { .. } => "other",
            };
            assert_eq!((opening, writing), (expected, expected), "{kind:?}");
        }
    }
}
