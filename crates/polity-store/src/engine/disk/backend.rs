//! Opens the database file, verifies its checksums, and remembers where it was read last.

use std::{
    fs::OpenOptions,
    io,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use redb::{BackendError, Database, DatabaseError, StorageBackend, backends::FileBackend};

use super::builder;

/// The offset of the last read of a file.
#[derive(Debug)]
pub(crate) struct ReadPosition(AtomicU64);

impl Default for ReadPosition {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl ReadPosition {
    /// In bytes from the start of the file; absent if nothing was read.
    pub(super) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|offset| *offset != u64::MAX)
    }
}

/// Opens a database and verifies the checksums of all its pages.
///
/// redb verifies them only after a crash. Without this check, damage within an object's bytes
/// would become that object's content. Opening a store reads all of it anyway.
pub(super) fn open_verified(
    file: &Path,
    position: &Arc<ReadPosition>,
) -> Result<Database, DatabaseError> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let repaired = Arc::<AtomicBool>::default();
    let is_repaired = Arc::clone(&repaired);
    let mut builder = builder();
    builder.set_repair_callback(move |_| is_repaired.store(true, Ordering::Relaxed));
    // This would create a database in an empty file; the caller has refused that.
    let mut database = builder.create_with_backend(PositionBackend {
        file: FileBackend::new(file)?,
        position: Arc::clone(position),
    })?;
    // A repair has verified them.
    if !repaired.load(Ordering::Relaxed) {
        database.check_integrity()?;
    }
    Ok(database)
}

/// A file that remembers where it was read last.
#[derive(Debug)]
struct PositionBackend {
    file: FileBackend,
    position: Arc<ReadPosition>,
}

impl StorageBackend for PositionBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.position.0.store(offset, Ordering::Relaxed);
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
