//! Reading a run's files: from the end, from a time, following what comes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use jiff::Timestamp;
use tokio::sync::watch;

use super::{Progress, write};

/// So much is handed on at once.
const CHUNK: usize = 64 << 10;

/// What is wanted of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Go on with what comes, until the run ends.
    pub follow: bool,
    /// The run before the last.
    pub previous: bool,
    /// Only so many lines of what is there.
    pub tail_lines: Option<u64>,
    /// Only what was said since so long ago.
    pub since_seconds: Option<u64>,
    /// Each line with its time.
    pub timestamps: bool,
    /// Not more than so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Lines of a log, as they come.
pub type LogStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The log of a run. Without progress it is over, and there is nothing to follow.
pub(super) fn stream(
    directory: PathBuf,
    run: i32,
    progress: Option<watch::Receiver<Progress>>,
    query: LogQuery,
    now: Timestamp,
) -> LogStream {
    let since = query.since_seconds.and_then(|seconds| {
        let back = Duration::from_secs(seconds.min(u64::from(u32::MAX)));
        now.checked_sub(back).ok()
    });
    let reader = Reader {
        directory,
        run,
        at: None,
        since,
        is_first: true,
        left: query.limit_bytes,
        query,
    };
    Box::pin(unfold((reader, progress), |(reader, progress)| {
        next(reader, progress)
    }))
}

type Item = (
    io::Result<Bytes>,
    (Reader, Option<watch::Receiver<Progress>>),
);

async fn next(mut reader: Reader, mut progress: Option<watch::Receiver<Progress>>) -> Option<Item> {
    loop {
        if reader.left == Some(0) {
            return None;
        }
        // Taken before the files are read: what is written meanwhile is seen as a change.
        let seen = progress
            .as_mut()
            .map(|progress| *progress.borrow_and_update());
        let read = tokio::task::spawn_blocking(move || {
            let chunk = reader.read();
            (reader, chunk)
        });
        let chunk;
        (reader, chunk) = read.await.ok()?;
        match chunk {
            Ok(chunk) if !chunk.is_empty() => return Some((Ok(chunk), (reader, progress))),
            Ok(_) => {}
            Err(error) => {
                reader.left = Some(0);
                return Some((Err(error), (reader, progress)));
            }
        }
        let is_over = seen.is_none_or(|seen| seen.is_over);
        if is_over || !reader.query.follow {
            return None;
        }
        progress.as_mut()?.changed().await.ok()?;
    }
}

/// A place in the files of a run.
struct Reader {
    directory: PathBuf,
    run: i32,
    at: Option<(u64, BufReader<File>)>,
    since: Option<Timestamp>,
    is_first: bool,
    left: Option<u64>,
    query: LogQuery,
}

impl Reader {
    /// What is there and was not read yet, in pieces; empty when there is nothing.
    fn read(&mut self) -> io::Result<Bytes> {
        let mut out = Vec::new();
        match self.query.tail_lines.filter(|_| self.is_first) {
            Some(tail) => {
                let tail = usize::try_from(tail).unwrap_or(usize::MAX);
                let mut last = VecDeque::new();
                while let Some(line) = self.line()? {
                    last.push_back(line);
                    if last.len() > tail {
                        last.pop_front();
                    }
                }
                out = Vec::from(last).concat();
            }
            None => {
                while out.len() < CHUNK
                    && let Some(line) = self.line()?
                {
                    out.extend(line);
                }
            }
        }
        self.is_first = false;
        if let Some(left) = &mut self.left {
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= out.len() as u64;
        }
        Ok(out.into())
    }

    /// The next line as it is to be shown.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(line) = self.raw_line()? {
            let (time, text) = match line.iter().position(|byte| *byte == b' ') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (&line[..0], &line[..]),
            };
            let is_old = self.since.is_some_and(|since| {
                let time = std::str::from_utf8(time).ok();
                let time = time.and_then(|time| time.parse::<Timestamp>().ok());
                time.is_some_and(|time| time < since)
            });
            if !is_old {
                let shown = if self.query.timestamps {
                    &line[..]
                } else {
                    text
                };
                return Ok(Some(shown.to_vec()));
            }
        }
        Ok(None)
    }

    /// The next whole line, on to the next file where one ends.
    fn raw_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.at.is_none() {
                let files = write::files(&self.directory, self.run)?;
                let Some((first, path)) = files.into_iter().next() else {
                    return Ok(None);
                };
                self.at = Some((first, BufReader::new(File::open(path)?)));
            }
            let Some((number, file)) = &mut self.at else {
                return Ok(None);
            };
            let mut line = Vec::new();
            file.read_until(b'\n', &mut line)?;
            if line.ends_with(b"\n") {
                return Ok(Some(line));
            }
            // The writer is in the middle of a line: it is read from its beginning next time.
            if !line.is_empty() {
                file.seek_relative(-i64::try_from(line.len()).unwrap_or(0))?;
            }
            let number = *number;
            let later = write::files(&self.directory, self.run)?;
            let Some((next, path)) = later.into_iter().find(|(file, _)| *file > number) else {
                return Ok(None);
            };
            // What was written before the next file was begun is all there by now.
            line.clear();
            file.read_until(b'\n', &mut line)?;
            if line.ends_with(b"\n") {
                return Ok(Some(line));
            }
            self.at = Some((next, BufReader::new(File::open(path)?)));
        }
    }
}
