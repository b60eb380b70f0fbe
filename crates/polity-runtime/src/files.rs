//! Small files only their owner may read, written whole or not at all.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {}", path.display())]
pub struct FileError {
    verb: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

/// The text of a file; `None` when it does not exist.
pub fn read_private(path: &Path) -> Result<Option<String>, FileError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError {
            verb: "reading",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes a file of mode 0600 by way of a temporary one beside it, and makes its folder if need be.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let failed = |source| FileError {
        verb: "writing",
        path: path.to_owned(),
        source,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    create_private_dir(folder)?;
    // A temporary file is created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Creates a folder that only its owner may enter. An existing folder is not changed.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt as _;
    if path.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| FileError {
            verb: "creating the folder",
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn private_files_are_private_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/key");
        assert_eq!(read_private(&path).unwrap(), None);
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(read_private(&path).unwrap().as_deref(), Some("two"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let error = write_private(&file.join("below"), b"x").unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
