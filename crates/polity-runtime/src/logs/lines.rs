//! Where lines go: standard error, each line by one write of its own.
//!
//! The standard library's handle has one lock for everybody who writes, and keeps it through the system call: under
//! load threads wait for each other's lines. The system keeps short writes apart by itself.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{PoisonError, RwLock};

use tracing_subscriber::fmt::MakeWriter;

/// The longest write to a pipe that no other one can get into.
const PIPE_BUF: usize = 4096;

/// Lines that threads write beside each other.
#[derive(Debug)]
pub(super) struct Lines {
    to: File,
    /// Held by all who write a short line, or by one who writes a long one.
    long: RwLock<()>,
}

impl Lines {
    pub(super) fn to(target: impl AsFd) -> io::Result<Self> {
        Ok(Self {
            to: target.as_fd().try_clone_to_owned()?.into(),
            long: RwLock::new(()),
        })
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The lock guards no value that somebody who panicked could have left half-written.
        if line.len() <= PIPE_BUF {
            let _beside_others = self.long.read().unwrap_or_else(PoisonError::into_inner);
            (&self.to).write_all(line)?;
        } else {
            let _alone = self.long.write().unwrap_or_else(PoisonError::into_inner);
            (&self.to).write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    /// Through a pipe that is full most of the time.
    #[test]
    fn lines_of_many_threads_stay_whole() {
        let (reader, writer) = io::pipe().unwrap();
        let lines = Lines::to(&writer).unwrap();
        drop(writer);
        let (threads, each, lengths) = (4_u8, 200, [10, 500, PIPE_BUF, 3 * PIPE_BUF, 100_000]);
        let found: Vec<String> = std::thread::scope(|scope| {
            let lines = &lines;
            for thread in 0..threads {
                scope.spawn(move || {
                    for n in 0..each {
                        let length = lengths[(n + usize::from(thread)) % lengths.len()];
                        let mut line = vec![b'a' + thread; length - 1];
                        line.push(b'\n');
                        lines.make_writer().write_all(&line).unwrap();
                    }
                });
            }
            let mut reader = BufReader::new(reader).lines();
            (0..usize::from(threads) * each)
                .map(|_| reader.next().unwrap().unwrap())
                .collect()
        });
        for line in found {
            let whole = lengths.contains(&(line.len() + 1));
            let of_one = line.bytes().all(|byte| byte == line.as_bytes()[0]);
            assert!(whole && of_one, "{} bytes: {line:.40}…", line.len());
        }
    }
}
