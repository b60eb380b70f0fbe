//! The files of the cache. Other processes can write to the volume too, so every step below the root starts at an
//! open directory and follows no symbolic link, and a file is read once, into private memory.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::absent::AbsentReason;
use super::layout;

/// Directories deeper than this cannot hold modules.
const MAX_DEPTH: usize = 64;
/// How often a write is retried because a collection removed its directory.
const MAX_ATTEMPTS: usize = 3;

/// A failed operation of the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Reading, writing or listing failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The bytes to write do not have the digest of the module.
    #[error("the content is not that of {digest}")]
    OtherContent {
        /// The expected digest.
        digest: polity_fetch::Digest,
    },
    /// The file cannot be signed, and is not written without a signature.
    #[error("cannot sign a file of the cache")]
    Sign(#[from] polity_pki::SignError),
}

/// Why a file is not read: it counts as absent, or the disk failed.
#[derive(Debug)]
pub(super) enum NotRead {
    Absent(AbsentReason),
    Fault(CacheError),
}

/// An entry below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: Vec<String>,
    pub(super) what: What,
    pub(super) modified: Timestamp,
    /// Identifies the file, to notice when another one replaced it.
    pub(super) inode: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A file, or a link or device under the name of one.
    File,
    Directory,
    /// An entry with an invalid name or without read permission. It is never removed.
    Foreign,
}

/// The size of a file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    AtMost(u64),
    Exactly(u64),
}

impl Size {
    fn limit(self) -> u64 {
        match self {
            Self::AtMost(bytes) | Self::Exactly(bytes) => bytes,
        }
    }

    fn check(self, actual: u64) -> Result<(), AbsentReason> {
        match self {
            Self::AtMost(limit) if actual > limit => Err(AbsentReason::TooLarge),
            Self::Exactly(expected) if actual != expected => Err(AbsentReason::OtherSize),
            Self::AtMost(_) | Self::Exactly(_) => Ok(()),
        }
    }
}

/// The directory of the cache.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
}

impl Disk {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Reads a file of this size. A file of another size is not read.
    pub(super) fn read(
        &self,
        directory: &[String],
        name: &str,
        size: Size,
    ) -> Result<Vec<u8>, NotRead> {
        let fault = |error| self.not_read(directory, name, error);
        let open = || -> io::Result<File> {
            let directory = self.open(directory)?;
            // Non-blocking, so that a named pipe under this name cannot block the read.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            Ok(fs::openat(&directory, name, flags, Mode::empty())?.into())
        };
        let file = open().map_err(fault)?;
        let metadata = file.metadata().map_err(fault)?;
        if !metadata.is_file() {
            return Err(AbsentReason::NotAFile.into());
        }
        size.check(metadata.len())?;
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // It may grow or shrink while it is read.
        file.take(size.limit() + 1)
            .read_to_end(&mut bytes)
            .map_err(fault)?;
        size.check(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Writes a file under a temporary name, syncs it, and renames it. An obstacle under its name is removed.
    pub(super) fn write(
        &self,
        directory: &[String],
        name: &str,
        bytes: &[u8],
    ) -> Result<(), CacheError> {
        let mut n_attempts = 1;
        loop {
            match self.try_write(directory, name, bytes) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && n_attempts < MAX_ATTEMPTS =>
                {
                    n_attempts += 1;
                }
                written => {
                    return written.map_err(|source| self.io("write", directory, name, source));
                }
            }
        }
    }

    fn try_write(&self, directory: &[String], name: &str, bytes: &[u8]) -> io::Result<()> {
        let directory = self.make(directory)?;
        let (temporary, mut file) = Temporary::create(&directory)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        temporary.rename(name)?;
        match fs::fsync(&directory) {
            // Not every network file system can do this with directories.
            Err(Errno::INVAL) => Ok(()),
            synced => Ok(synced?),
        }
    }

    /// The names in a directory; empty if it does not exist.
    pub(super) fn names(&self, directory: &[String]) -> Result<Vec<String>, CacheError> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.open(directory)?)? {
                if let Ok(name) = entry?.file_name().to_str() {
                    names.push(name.to_owned());
                }
            }
            names.retain(|name| name != "." && name != "..");
            names.sort();
            Ok(names)
        };
        match list() {
            Err(error) if absence(&error).is_some() => Ok(Vec::new()),
            listed => listed.map_err(|source| self.io("list", directory, "", source)),
        }
    }

    /// Everything below the root, parents before their children.
    pub(super) fn list(&self) -> Result<Vec<Entry>, CacheError> {
        let mut found = Vec::new();
        let mut to_visit = self.entries(&[])?.unwrap_or_default();
        while let Some(entry) = to_visit.pop() {
            if entry.what != What::Directory {
                found.push(entry);
                continue;
            }
            let below = match entry.path.len() < MAX_DEPTH {
                true => self.entries(&entry.path)?,
                false => None,
            };
            match below {
                Some(below) => {
                    found.push(entry);
                    to_visit.extend(below);
                }
                None => found.push(Entry {
                    what: What::Foreign,
                    ..entry
                }),
            }
        }
        Ok(found)
    }

    /// The entries of a directory; empty if it cannot be read.
    fn entries(&self, path: &[String]) -> Result<Option<Vec<Entry>>, CacheError> {
        let list = || -> io::Result<Vec<Entry>> {
            let directory = self.open(path)?;
            let mut entries = Vec::new();
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let stat = match fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => continue,
                    stat => stat?,
                };
                let mut path = path.to_vec();
                path.push(name.to_string_lossy().into_owned());
                entries.push(Entry {
                    path,
                    what: match FileType::from_raw_mode(stat.st_mode) {
                        _ if name.to_str().is_err() => What::Foreign,
                        FileType::Directory => What::Directory,
                        _ => What::File,
                    },
                    modified: modified(&stat),
                    inode: stat.st_ino,
                });
            }
            Ok(entries)
        };
        match list() {
            Err(error) if absence(&error).is_some() => Ok(None),
            listed => listed
                .map(Some)
                .map_err(|source| self.io("list", path, "", source)),
        }
    }

    /// Removes a listed entry, unless another one has replaced it since. Returns whether it was removed.
    pub(super) fn remove(&self, entry: &Entry) -> Result<bool, CacheError> {
        let Some((name, directory)) = entry.path.split_last() else {
            return Ok(false);
        };
        let flags = match entry.what {
            What::Directory => AtFlags::REMOVEDIR,
            What::File | What::Foreign => AtFlags::empty(),
        };
        let remove = || -> io::Result<bool> {
            let directory = self.open(directory)?;
            let stat = fs::statat(&directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
            if stat.st_ino != entry.inode {
                return Ok(false);
            }
            fs::unlinkat(&directory, name.as_str(), flags)?;
            Ok(true)
        };
        match remove() {
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::STALE)
                ) =>
            {
                Ok(false)
            }
            removed => removed.map_err(|source| self.io("remove", directory, name, source)),
        }
    }

    /// Opens a directory below the root. The path of the root itself may have links, because the operator chose it.
    fn open(&self, segments: &[String]) -> io::Result<OwnedFd> {
        let mut directory = open_root(&self.root)?;
        for segment in segments {
            directory = open_below(&directory, segment)?;
        }
        Ok(directory)
    }

    /// Opens a directory below the root, and creates missing ones. An obstacle is removed.
    fn make(&self, segments: &[String]) -> io::Result<OwnedFd> {
        std::fs::create_dir_all(&self.root)?;
        let mut directory = open_root(&self.root)?;
        for segment in segments {
            directory = match open_below(&directory, segment) {
                Err(Errno::NOENT) => make_below(&directory, segment)?,
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    fs::unlinkat(&directory, segment.as_str(), AtFlags::empty())?;
                    make_below(&directory, segment)?
                }
                opened => opened?,
            };
        }
        Ok(directory)
    }

    fn not_read(&self, directory: &[String], name: &str, error: io::Error) -> NotRead {
        match absence(&error) {
            Some(reason) => NotRead::Absent(reason),
            None => NotRead::Fault(self.io("read", directory, name, error)),
        }
    }

    fn io(
        &self,
        doing: &'static str,
        directory: &[String],
        name: &str,
        source: io::Error,
    ) -> CacheError {
        let path: PathBuf = directory.iter().collect();
        CacheError::Io {
            doing,
            path: self.root.join(path).join(name),
            source,
        }
    }
}

impl From<AbsentReason> for NotRead {
    fn from(reason: AbsentReason) -> Self {
        Self::Absent(reason)
    }
}

impl From<polity_pki::BlobRefusal> for NotRead {
    fn from(refusal: polity_pki::BlobRefusal) -> Self {
        Self::Absent(refusal.into())
    }
}

impl From<CacheError> for NotRead {
    fn from(error: CacheError) -> Self {
        Self::Fault(error)
    }
}

/// A temporary file. It is removed when it is dropped before it is renamed.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a OwnedFd) -> io::Result<(Self, File)> {
        let name = layout::temporary_name();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Replicas share the group of the volume.
        let file = fs::openat(directory, name.as_str(), flags, Mode::from_raw_mode(0o660))?;
        Ok((Self { directory, name }, file.into()))
    }

    fn rename(&self, name: &str) -> io::Result<()> {
        let Self {
            directory,
            name: from,
        } = self;
        match fs::renameat(directory, from.as_str(), directory, name) {
            // It is moved aside, and collected with the temporary files.
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                let aside = layout::temporary_name();
                fs::renameat(directory, name, directory, aside)?;
                Ok(fs::renameat(directory, from.as_str(), directory, name)?)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After the rename it no longer exists; a file that cannot be removed now is collected later.
        let _ = fs::unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty())
}

fn open_below(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::empty())
}

fn make_below(directory: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match fs::mkdirat(directory, name, Mode::from_raw_mode(0o770)) {
        // Another replica was faster.
        Ok(()) | Err(Errno::EXIST) => open_below(directory, name),
        Err(error) => Err(error),
    }
}

/// The errors that are about the entry, not about the disk.
fn absence(error: &io::Error) -> Option<AbsentReason> {
    match Errno::from_io_error(error)? {
        // A network file system may list an entry that no longer exists.
        Errno::NOENT | Errno::STALE => Some(AbsentReason::NotThere),
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => Some(AbsentReason::NotAFile),
        Errno::ACCESS | Errno::PERM => Some(AbsentReason::Unreadable),
        _ => None,
    }
}

fn modified(stat: &Stat) -> Timestamp {
    Timestamp::from_second(stat.st_mtime).unwrap_or(Timestamp::MAX)
}
