//! Log lines in a file of bounded size: the file before the last is kept beside it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// A larger file is rotated.
const FILE_BYTES: u64 = 10 << 20;

/// A log file. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct LogFile(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    path: PathBuf,
    limit: u64,
    file: File,
    bytes: u64,
}

/// Puts a log file aside if it has grown large: `polity.log` becomes `polity.log.1`, in place of the one before.
pub fn rotate(path: &Path) -> io::Result<()> {
    rotate_beyond(path, FILE_BYTES)
}

fn rotate_beyond(path: &Path, limit: u64) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > limit => std::fs::rename(path, before(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

impl LogFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, FILE_BYTES)
    }

    fn with_limit(path: &Path, limit: u64) -> io::Result<Self> {
        rotate_beyond(path, limit)?;
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        let path = path.to_owned();
        Ok(Self(Arc::new(Mutex::new(State {
            path,
            limit,
            file,
            bytes,
        }))))
    }
}

impl State {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > self.limit {
            rotate_beyond(&self.path, self.limit)?;
            self.file = open(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.write_line(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogFile {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_aside_when_it_is_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("polity.log");
        let mut log = LogFile::with_limit(&path, 10).unwrap();
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        for line in ["first line\n", "second\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(text(&path), "second\n");
        assert_eq!(text(&before(&path)), "first line\n");
        drop(log);
        let mut log = LogFile::with_limit(&path, 10).unwrap();
        log.write_all(b"third\n").unwrap();
        assert_eq!(text(&path), "second\nthird\n", "a small file is continued");
        rotate_beyond(&path, 10).unwrap();
        assert_eq!(text(&before(&path)), "second\nthird\n");
        rotate_beyond(&path, 10).unwrap();
    }
}
