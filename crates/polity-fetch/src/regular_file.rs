//! Reads files that a user names. A device or a pipe in place of a file would fill the memory or block for ever.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a regular file; `None` if it is larger than the limit.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    // Before it is opened: to open a pipe waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let is_small = u64::try_from(bytes.len()).is_ok_and(|length| length <= limit);
    Ok(is_small.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_refused_and_files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(read(&path, 3).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(read(&path, 2).unwrap(), None);
        assert!(read(Path::new("/dev/zero"), 10).is_err());
        assert!(read(folder.path(), 10).is_err());
    }
}
