//! Versions in a redb database: three tables in one file, as `docs/design/store.md` describes them.
//!
//! A version is written once, under its revision. It is the object as long as nothing replaced it,
//! and the event that made it as long as the history holds it.

mod backend;
mod errors;
mod guard;

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    TableError,
};

use tracing::warn;

use self::{
    backend::ReadPosition,
    errors::{failure, io_open_error, open_error},
};
use super::{Failure, Header, Transaction};
use crate::{OpenError, Revision};

/// The version of the layout on disk. `docs/design/store.md` defines when it changes.
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
/// A database is built under this name and renamed when it is complete, so an empty file with the
/// final name was truncated later.
const UNFINISHED_FILE: &str = "store.redb.new";
const LOCK_FILE: &str = "lock";
/// A released lock may stay held for a moment: between `fork` and `exec`, a child process has copies of all open
/// files.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Everything is read once, when the store is opened, so the cache only has to hold the writes of a transaction. A
/// process may have twenty stores.
const CACHE_BYTES: usize = 2 << 20;

/// How the database in a file is opened, the first time and after each failure.
pub(crate) type OpenDatabase = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

pub(crate) struct Disk {
    directory: PathBuf,
    open_database: OpenDatabase,
    /// Absent after a failure, until opening it again succeeds: redb does not go on after an error.
    database: Option<Database>,
    /// Where the file was read last: the position to report when it turns out to be damaged.
    position: Arc<ReadPosition>,
    /// Held as long as the engine exists. redb locks its file too, but releases that lock while it reopens the file.
    _lock: File,
}

impl Disk {
    pub(crate) fn open(directory: &Path) -> Result<Self, OpenError> {
        let position = Arc::<ReadPosition>::default();
        let of_database = Arc::clone(&position);
        let open_database = Box::new(move |file: &Path| backend::open_verified(file, &of_database));
        Self::open_with(directory, open_database, position)
    }

    pub(crate) fn open_with(
        directory: &Path,
        open_database: OpenDatabase,
        position: Arc<ReadPosition>,
    ) -> Result<Self, OpenError> {
        for _ in 0..LOCK_TRIES {
            match Self::lock(directory) {
                Err(OpenError::InUse { .. }) => thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error),
                Ok(lock) => return Self::open_locked(directory, open_database, position, lock),
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
        position: Arc<ReadPosition>,
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
                position: Some(0),
                reason: "it is empty".to_owned(),
            });
        }
        let database = reading(directory, &file, &position, || {
            // redb has its own lock, which `fork` copies in the same way.
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
            position,
            _lock: lock,
        };
        disk.check_format()?;
        Ok(disk)
    }

    pub(crate) fn header(&self) -> Result<Header, OpenError> {
        self.reading(|| self.read_header())
    }

    pub(crate) fn versions(
        &self,
        mut visit: impl FnMut(Revision, &[u8]) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        self.reading(|| {
            let table = self.database()?.begin_read()?.open_table(VERSIONS)?;
            for entry in table.range::<u64>(..)? {
                let (revision, record) = entry?;
                visit(Revision(revision.value()), record.value())
                    .map_err(redb::Error::Corrupted)?;
            }
            Ok(())
        })
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<(), Failure> {
        self.guarded(|disk| disk.write(transaction))
    }

    pub(crate) fn recover(&mut self) -> Result<Option<u64>, Failure> {
        if self.database.is_some() {
            return Ok(None);
        }
        self.guarded(|disk| {
            disk.database = Some((disk.open_database)(&disk.file())?);
            Ok(Some(disk.read_header()?.serial))
        })
    }

    /// Runs an operation on an open store. A failure of any kind closes the database.
    fn guarded<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<T, redb::Error>,
    ) -> Result<T, Failure> {
        let outcome = guard::catch(|| operation(self)).unwrap_or_else(|panic| Err(damaged(&panic)));
        outcome.map_err(|error| {
            self.close();
            failure(error, &self.directory, &self.file(), &self.position)
        })
    }

    fn reading<T>(&self, read: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, OpenError> {
        reading(&self.directory, &self.file(), &self.position, read)
    }

    /// Closes the database. redb writes to the file while it closes it, so this can fail on damaged
    /// pages as any other write can; the next opening finds the damage again.
    fn close(&mut self) {
        let database = self.database.take();
        if let Err(panic) = guard::catch(|| drop(database)) {
            warn!(file = %self.file().display(), error = %panic, "closing a damaged store failed");
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
        let found = self.reading(|| {
            match self.database()?.begin_read()?.open_table(META) {
                Ok(table) => Ok(table.get(META_FORMAT)?.map(|version| version.value())),
                Err(TableError::Storage(error)) => Err(error.into()),
                // A database of another program.
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

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
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

/// Builds an empty store under another name and renames it.
fn create_database(directory: &Path, destination: &Path) -> Result<(), OpenError> {
    let at = |error| io_open_error(error, directory);
    let unfinished = directory.join(UNFINISHED_FILE);
    let file = private_file()
        .truncate(true)
        .open(&unfinished)
        .map_err(at)?;
    reading(directory, &unfinished, &ReadPosition::default(), || {
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
    std::fs::rename(&unfinished, destination).map_err(at)?;
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

/// Reads from a file that may hold anything. redb reports most damage as an error, and some by a
/// panic; both become the same error.
fn reading<T>(
    directory: &Path,
    file: &Path,
    position: &ReadPosition,
    read: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, OpenError> {
    let outcome = guard::catch(read).unwrap_or_else(|panic| Err(damaged(&panic)));
    outcome.map_err(|error| open_error(error, directory, file, position))
}

fn damaged(panic: &str) -> redb::Error {
    redb::Error::Corrupted(format!("its pages contradict each other ({panic})"))
}
