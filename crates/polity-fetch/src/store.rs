//! The local store: modules by digest, what each reference stood for, and compiled modules.
//!
//! Under the root lies the layout that other tools read (`<scheme>/<host>/<path>`, links to the same files); what
//! is Polity's own lies in `.polity/`. Files are written under another name and renamed, so a reader never sees
//! half of one; content is checked against its digest whenever it is read.

mod adopt;
mod compiled;
mod layout;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::compiled::CompiledKey;
use crate::digest::Digest;
use crate::error::StoreError;
use crate::uri::ModuleUri;

/// A directory of modules, shared by everything the user runs.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: PathBuf,
}

/// What a reference stood for when it was last resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) module: Digest,
    pub(crate) manifest: Option<Digest>,
    pub(crate) fetched: Timestamp,
}

/// [`Record`] as it is kept, with the reference it belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord {
    uri: String,
    module: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    fetched: Timestamp,
}

/// A module in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The reference it was fetched by.
    pub uri: String,
    pub digest: Digest,
    pub manifest: Option<Digest>,
    pub fetched: Timestamp,
    pub bytes: u64,
}

impl LocalStore {
    /// The store in a directory, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The content with a digest; none if it is not here, or not that content any more.
    pub fn read(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.module_path(digest);
        let Some(bytes) = read_if_there(&path)? else {
            return Ok(None);
        };
        if Digest::of(&bytes) != *digest {
            tracing::warn!(path = %path.display(), "a stored module changed on disk, it is fetched again");
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    pub(crate) fn write(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_atomically(&self.module_path(digest), bytes)
    }

    /// What a reference stood for; a record that cannot be read is as good as none.
    pub(crate) fn recorded(&self, uri: &ModuleUri) -> Result<Option<Record>, StoreError> {
        let Some(bytes) = read_if_there(&self.record_path(uri))? else {
            return self.adopt(uri);
        };
        Ok(serde_json::from_slice::<StoredRecord>(&bytes)
            .ok()
            .filter(|stored| stored.uri == uri.to_string())
            .and_then(StoredRecord::lower))
    }

    /// Notes what a reference stands for, and shows the module to other tools.
    pub(crate) fn record(&self, uri: &ModuleUri, record: &Record) -> Result<(), StoreError> {
        let stored = StoredRecord {
            uri: uri.to_string(),
            module: record.module.to_string(),
            manifest: record.manifest.map(|digest| digest.to_string()),
            fetched: record.fetched,
        };
        let bytes = serde_json::to_vec(&stored).expect("a record is plain JSON");
        self.write_atomically(&self.record_path(uri), &bytes)?;
        self.link(uri, &record.module)
    }

    /// Everything in the store, by reference; what other tools fetched is taken over.
    pub fn list(&self) -> Result<Vec<Stored>, StoreError> {
        self.adopt_all()?;
        let directory = self.own("records");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", &directory)(error)),
        };
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let record = read_if_there(&entry.path())?
                .and_then(|bytes| serde_json::from_slice::<StoredRecord>(&bytes).ok())
                .and_then(|stored| Some((stored.uri.clone(), stored.lower()?)));
            let Some((uri, record)) = record else {
                continue;
            };
            let Ok(metadata) = fs::metadata(self.module_path(&record.module)) else {
                continue;
            };
            all.push(Stored {
                uri,
                digest: record.module,
                manifest: record.manifest,
                fetched: record.fetched,
                bytes: metadata.len(),
            });
        }
        all.sort_by(|a, b| a.uri.cmp(&b.uri));
        Ok(all)
    }

    /// Forgets a reference, and the module if no other reference stands for it. False if it was not there.
    pub fn remove(&self, uri: &ModuleUri) -> Result<bool, StoreError> {
        let Some(record) = self.recorded(uri)? else {
            return Ok(false);
        };
        remove_if_there(&self.record_path(uri))?;
        if let Some(path) = layout::path(uri) {
            remove_if_there(&self.root.join(path))?;
        }
        let still_used = self
            .list()?
            .iter()
            .any(|stored| stored.digest == record.module);
        if !still_used {
            remove_if_there(&self.module_path(&record.module))?;
            self.remove_compiled(&record.module)?;
        }
        Ok(true)
    }

    /// A module that another tool put into the layout: taken over with the digest it has.
    fn adopt(&self, uri: &ModuleUri) -> Result<Option<Record>, StoreError> {
        let Some(path) = layout::path(uri).map(|path| self.root.join(path)) else {
            return Ok(None);
        };
        let Some(bytes) = read_if_there(&path)? else {
            return Ok(None);
        };
        if !bytes.starts_with(b"\0asm") {
            return Ok(None);
        }
        let fetched = fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|time| Timestamp::try_from(time).ok())
            .unwrap_or_default();
        let record = Record {
            module: Digest::of(&bytes),
            manifest: None,
            fetched,
        };
        self.write(&record.module, &bytes)?;
        self.record(uri, &record)?;
        Ok(Some(record))
    }

    /// Puts a module where other tools look for it.
    fn link(&self, uri: &ModuleUri, module: &Digest) -> Result<(), StoreError> {
        let Some(path) = layout::path(uri).map(|path| self.root.join(path)) else {
            return Ok(());
        };
        let directory = path.parent().unwrap_or(&self.root);
        create_directory(directory)?;
        let from = self.module_path(module);
        let link = || -> io::Result<()> {
            let unfinished = tempfile::Builder::new()
                .make_in(directory, |name| {
                    fs::hard_link(&from, name).or_else(|error| match error.kind() {
                        io::ErrorKind::AlreadyExists => Err(error),
                        _ => fs::copy(&from, name).map(|_| ()),
                    })
                })?
                .into_temp_path();
            fs::rename(&unfinished, &path)
            // Renaming one link of a file over another leaves both: the first goes when it is dropped.
        };
        link().map_err(io_error("write", &path))
    }

    fn own(&self, part: &str) -> PathBuf {
        self.root.join(".polity").join(part)
    }

    fn module_path(&self, digest: &Digest) -> PathBuf {
        self.own("modules").join(digest.hex())
    }

    fn record_path(&self, uri: &ModuleUri) -> PathBuf {
        let name = Digest::of(uri.to_string().as_bytes()).hex();
        self.own("records").join(name)
    }

    fn write_atomically(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let directory = path.parent().unwrap_or(&self.root);
        create_directory(directory)?;
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            let readable = fs::Permissions::from_mode(0o644);
            file.as_file().set_permissions(readable)?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(io_error("write", path))
    }
}

impl StoredRecord {
    fn lower(self) -> Option<Record> {
        let manifest = match self.manifest {
            Some(digest) => Some(digest.parse().ok()?),
            None => None,
        };
        Some(Record {
            module: self.module.parse().ok()?,
            manifest,
            fetched: self.fetched,
        })
    }
}

fn create_directory(path: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("create", path))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests;
