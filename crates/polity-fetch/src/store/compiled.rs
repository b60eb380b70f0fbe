//! Compiled modules. They are native code that will run in this process, so each carries a MAC by a key that only
//! the user can read, checked on the very bytes that are loaded.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::hmac;

use super::{LocalStore, create_directory, io_error, read_if_there, remove_if_there};
use crate::digest::Digest;
use crate::error::StoreError;

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 32;
/// Compiled code can always be made again: no more of it is kept than this.
const MAX_BYTES: u64 = 2 << 30;
/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Which compiled form of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledKey {
    pub module: Digest,
    /// Everything of the engine that the compiled form depends on, as hexadecimal digits or a short word.
    pub engine: String,
}

impl LocalStore {
    /// The compiled form of a module; none if there is none, or none that this user made.
    pub fn compiled(&self, key: &CompiledKey) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(mut stored) = read_if_there(&self.compiled_path(key))? else {
            return Ok(None);
        };
        if stored.len() < TAG_BYTES {
            return Ok(None);
        }
        let code = stored.split_off(TAG_BYTES);
        let mac = self.mac()?;
        Ok(hmac::verify(&mac, &signed(key, &code), &stored)
            .is_ok()
            .then_some(code))
    }

    /// Keeps the compiled form of a module.
    pub fn keep_compiled(&self, key: &CompiledKey, code: &[u8]) -> Result<(), StoreError> {
        let mac = self.mac()?;
        let mut stored = hmac::sign(&mac, &signed(key, code)).as_ref().to_vec();
        stored.extend_from_slice(code);
        let path = self.compiled_path(key);
        self.write_atomically(&path, &stored)?;
        self.trim_compiled(MAX_BYTES, &path)
    }

    /// Lets go of the oldest compiled code until what is left is within the limit; never of `kept`.
    pub(super) fn trim_compiled(&self, limit: u64, kept: &Path) -> Result<(), StoreError> {
        let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries(self.own("compiled"))
            .flat_map(|engine| entries(engine.path()))
            .filter_map(|file| {
                let metadata = file.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), file.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort();
        for (_, bytes, path) in files {
            if total <= limit {
                break;
            }
            if path != kept {
                remove_if_there(&path)?;
                total -= bytes;
            }
        }
        Ok(())
    }

    pub(super) fn remove_compiled(&self, module: &Digest) -> Result<(), StoreError> {
        let directory = self.own("compiled");
        let Ok(engines) = fs::read_dir(&directory) else {
            return Ok(());
        };
        for engine in engines.flatten() {
            remove_if_there(&engine.path().join(module.hex()))?;
        }
        Ok(())
    }

    pub(super) fn compiled_path(&self, key: &CompiledKey) -> PathBuf {
        // The name of the engine is a directory of its own, so that one version's files go at once.
        let engine = Digest::of(key.engine.as_bytes()).hex();
        self.own("compiled").join(engine).join(key.module.hex())
    }

    fn mac(&self) -> Result<hmac::Key, StoreError> {
        let path = self.own("key");
        for _ in 0..2 {
            if let Some(bytes) = self.read_key()? {
                return Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
            }
            self.create_key()?;
        }
        let odd = io::Error::other("it is not 32 bytes that only this user can read");
        Err(io_error("use", &path)(odd))
    }

    /// The key, if it exists and no other user can have read or created it.
    fn read_key(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.own("key");
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let is_ours = metadata.is_file()
            && metadata.mode() & OTHERS == 0
            && metadata.uid() == rustix::process::geteuid().as_raw();
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        if !is_ours || bytes.len() != KEY_BYTES {
            // What it signed cannot be trusted: a new key makes all of it be compiled again.
            remove_if_there(&path)?;
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    fn create_key(&self) -> Result<(), StoreError> {
        let path = self.own("key");
        create_directory(&self.own(""))?;
        let mut key = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut key)
            .map_err(|_| io_error("make a key for", &path)(io::Error::other("no randomness")))?;
        let unfinished = self.own(&format!("key.{}", Digest::of(&key).hex()));
        let write = || -> io::Result<()> {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(&key)?;
            file.sync_all()?;
            // Of two processes that start together one makes the key, and both use it.
            match fs::hard_link(&unfinished, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        let written = write().map_err(io_error("write", &path));
        remove_if_there(&unfinished)?;
        written
    }
}

/// What the MAC is over: the code, and what it is said to be.
fn signed(key: &CompiledKey, code: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(code.len() + key.engine.len() + 80);
    message.extend_from_slice(key.module.to_string().as_bytes());
    message.extend_from_slice(&(key.engine.len() as u64).to_be_bytes());
    message.extend_from_slice(key.engine.as_bytes());
    message.extend_from_slice(code);
    message
}
