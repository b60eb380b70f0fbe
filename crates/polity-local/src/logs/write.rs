//! Writing a run's lines to its files.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use polity_runtime::Clock;
use tokio::sync::watch;

use super::{Limits, Progress, path_of};

/// A longer line is kept in pieces.
const LONGEST_LINE: u64 = 16 << 10;

/// Writes what one run says.
pub struct Writer {
    directory: PathBuf,
    run: i32,
    limits: Limits,
    clock: Clock,
    file: File,
    progress: watch::Sender<Progress>,
}

impl Writer {
    pub(super) fn new(
        directory: &Path,
        run: i32,
        limits: Limits,
        clock: Clock,
        progress: watch::Sender<Progress>,
    ) -> io::Result<Self> {
        // A run of this number may have been begun by a runtime that died: it is this one now.
        for (file, path) in files(directory, run)? {
            if file > 0 {
                fs::remove_file(path)?;
            }
        }
        Ok(Self {
            file: File::create(path_of(directory, run, 0))?,
            directory: directory.to_owned(),
            run,
            limits,
            clock,
            progress,
        })
    }

    /// Takes in everything until the other end closes. A full disk loses lines, but never stops the process that
    /// writes them.
    pub fn drain(mut self, source: impl Read) {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        loop {
            line.clear();
            match source
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => return,
                Ok(_) => {
                    self.line(&line).ok();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut progress = *self.progress.borrow();
        let mut text = format!("{:.9} ", self.clock.now()).into_bytes();
        text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        text.push(b'\n');
        if progress.bytes > 0 && progress.bytes + text.len() as u64 > self.limits.file_bytes {
            progress.file += 1;
            progress.bytes = 0;
            self.file = File::create(path_of(&self.directory, self.run, progress.file))?;
            if let Some(oldest) = progress.file.checked_sub(self.limits.files.max(1)) {
                fs::remove_file(path_of(&self.directory, self.run, oldest)).ok();
            }
        }
        self.file.write_all(&text)?;
        progress.bytes += text.len() as u64;
        self.progress.send_replace(progress);
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.progress
            .send_modify(|progress| progress.is_over = true);
    }
}

/// The files of a run by number.
pub(super) fn files(directory: &Path, run: i32) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(directory) {
        // The Pod went while somebody read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if let Some((of_run, file)) = numbers(&path)
            && of_run == run
        {
            found.push((file, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Deletes the runs before this one.
pub(super) fn prune(directory: &Path, first_kept: i32) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if numbers(&path).is_some_and(|(run, _)| run < first_kept) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn numbers(path: &Path) -> Option<(i32, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let (run, file) = name.split_once('.')?;
    Some((run.parse().ok()?, file.parse().ok()?))
}
