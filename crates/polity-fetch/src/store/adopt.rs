//! What other tools of the ecosystem left in the layout: found, and taken over with the digest it has.

use std::fs;
use std::path::{Path, PathBuf};

use super::LocalStore;
use crate::error::StoreError;
use crate::uri::ModuleUri;

/// Deeper than any repository's name.
const MAX_DEPTH: usize = 16;

impl LocalStore {
    /// Takes over every module of the layout that has no record yet.
    pub(super) fn adopt_all(&self) -> Result<(), StoreError> {
        for scheme in ["registry", "https", "http"] {
            for path in files(&self.root().join(scheme)) {
                let Some(uri) = self.uri_of(&path) else {
                    continue;
                };
                if !self.record_path(&uri).exists() {
                    self.recorded(&uri)?;
                }
            }
        }
        Ok(())
    }

    /// The reference that belongs to a place in the layout.
    fn uri_of(&self, path: &Path) -> Option<ModuleUri> {
        let below = path.strip_prefix(self.root()).ok()?.to_str()?;
        let (scheme, rest) = below.split_once('/')?;
        let uri: ModuleUri = format!("{scheme}://{rest}").parse().ok()?;
        // Only what we would put there ourselves: anything else could not be found again.
        (super::layout::path(&uri)? == Path::new(below)).then_some(uri)
    }
}

/// All files below a directory. What cannot be read is not there, and links lead nowhere.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                    open.push((entry.path(), depth + 1));
                }
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}
