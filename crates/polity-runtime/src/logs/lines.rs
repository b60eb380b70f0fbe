//! Writes log lines to standard error.
//!
//! Normally each line is written immediately with its own system call. Under load, such writes would take more time
//! than the logged work. Then lines are collected for a short time and written together. A warning or an error is
//! written immediately together with the collected lines, and so are the last lines of the process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::clock::{Clock, Moment};

/// How long a line may wait.
const PATIENCE: Duration = Duration::from_millis(10);

/// More lines than this within [`PATIENCE`] are a flood.
const FLOOD: usize = 16;

/// Waiting lines are written when they have this many bytes.
const FULL: usize = 32 << 10;

/// Lines on their way to a file. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    to: File,
    clock: Clock,
    patience: Duration,
    state: Mutex<State>,
    /// Wakes the thread that writes waiting lines.
    bell: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    /// The start of the current counting period, and the number of lines since then.
    since: Moment,
    n_lines: usize,
    writer: Writer,
}

/// The state of the thread that writes waiting lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// Not started yet.
    Absent,
    /// Sleeps until a line is waiting.
    Idle,
    /// Collects waiting lines for a moment.
    Patient,
    /// Stopped: no line can wait any more.
    Gone,
}

impl Lines {
    pub(super) fn to(target: impl AsFd) -> io::Result<Self> {
        Self::with_patience(target, PATIENCE)
    }

    fn with_patience(target: impl AsFd, patience: Duration) -> io::Result<Self> {
        let clock = Clock::system();
        Ok(Self(Arc::new(Shared {
            to: target.as_fd().try_clone_to_owned()?.into(),
            state: Mutex::new(State {
                waiting: Vec::new(),
                since: clock.moment(),
                n_lines: 0,
                writer: Writer::Absent,
            }),
            clock,
            patience,
            bell: Condvar::new(),
        })))
    }

    /// Writes the waiting lines. Later lines are written immediately.
    pub(super) fn finish(&self) {
        let mut state = self.0.lock();
        state.writer = Writer::Gone;
        self.0.bell.notify_one();
        // There is no other place to report the error.
        self.0.write_out(&mut state).ok();
    }

    fn say(&self, line: &[u8], is_urgent: bool) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.is_flooded(self.0.clock.moment(), self.0.patience)
            && !is_urgent
            && self.has_writer(&mut state)
        {
            state.waiting.extend_from_slice(line);
            return match state.waiting.len() < FULL {
                true => Ok(()),
                false => self.0.write_out(&mut state),
            };
        }
        if state.waiting.is_empty() {
            return (&self.0.to).write_all(line);
        }
        state.waiting.extend_from_slice(line);
        self.0.write_out(&mut state)
    }

    /// Returns whether a thread will write waiting lines, and starts it if necessary.
    fn has_writer(&self, state: &mut State) -> bool {
        match state.writer {
            Writer::Patient => return true,
            Writer::Gone => return false,
            Writer::Idle => self.0.bell.notify_one(),
            Writer::Absent => {
                let shared = self.0.clone();
                let thread = thread::Builder::new().name("log-lines".to_owned());
                if thread.spawn(move || shared.write_patiently()).is_err() {
                    return false;
                }
            }
        }
        state.writer = Writer::Patient;
        true
    }
}

impl State {
    fn is_flooded(&mut self, now: Moment, patience: Duration) -> bool {
        if now.since(self.since) >= patience {
            self.since = now;
            self.n_lines = 0;
        }
        self.n_lines += 1;
        self.n_lines > FLOOD
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock. Even then, the buffer would contain complete lines.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_out(&self, state: &mut State) -> io::Result<()> {
        let written = (&self.to).write_all(&state.waiting);
        state.waiting.clear();
        // Do not keep a large buffer because of one large line.
        state.waiting.shrink_to(2 * FULL);
        written
    }

    /// Writes waiting lines repeatedly, each time after a delay.
    fn write_patiently(&self) {
        let mut state = self.lock();
        loop {
            let woken = self
                .bell
                .wait_while(state, |state| state.writer == Writer::Idle);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            let woken = self
                .bell
                .wait_timeout_while(state, self.patience, |state| state.writer != Writer::Gone);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            if state.writer == Writer::Gone {
                return;
            }
            // The caller has continued, so an error is reported to the next caller.
            self.write_out(&mut state).ok();
            state.writer = Writer::Idle;
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            lines: self,
            is_urgent: false,
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line {
            lines: self,
            is_urgent: *metadata.level() <= Level::WARN,
        }
    }
}

/// Takes one line, by one write.
#[derive(Debug)]
pub(super) struct Line<'a> {
    lines: &'a Lines,
    is_urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.say(line, self.is_urgent)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, PipeReader};

    use super::*;

    /// Longer than any test lasts.
    const FOR_EVER: Duration = Duration::from_hours(1);

    fn lines(patience: Duration) -> (Lines, BufReader<PipeReader>) {
        let (reader, writer) = io::pipe().unwrap();
        let lines = Lines::with_patience(&writer, patience).unwrap();
        (lines, BufReader::new(reader))
    }

    /// Numbers from nothing on, one a line.
    fn count(lines: &Lines, n: usize) {
        for number in 0..n {
            lines.say(format!("{number}\n").as_bytes(), false).unwrap();
        }
    }

    #[track_caller]
    fn expect_count(reader: &mut impl io::BufRead, n: usize) {
        let read: Vec<String> = reader.lines().take(n).map(Result::unwrap).collect();
        let expected: Vec<String> = (0..n).map(|number| number.to_string()).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn few_lines_do_not_wait() {
        let (lines, mut reader) = lines(FOR_EVER);
        count(&lines, FLOOD);
        expect_count(&mut reader, FLOOD);
        assert_eq!(lines.0.lock().writer, Writer::Absent);
    }

    #[test]
    fn lines_of_a_flood_leave_together_by_themselves() {
        let (lines, mut reader) = lines(Duration::from_millis(2));
        for _ in 0..3 {
            count(&lines, 10 * FLOOD);
            expect_count(&mut reader, 10 * FLOOD);
        }
        lines.finish();
    }

    #[test]
    fn a_warning_is_written_with_the_waiting_lines() {
        let (lines, mut reader) = lines(FOR_EVER);
        count(&lines, 2 * FLOOD);
        assert!(!lines.0.lock().waiting.is_empty());
        lines.say(b"beware\n", true).unwrap();
        expect_count(&mut reader, 2 * FLOOD);
        let mut last = String::new();
        reader.read_line(&mut last).unwrap();
        assert_eq!(last, "beware\n");
    }

    #[test]
    fn nothing_is_left_at_the_end_or_waits_after_it() {
        let (lines, mut reader) = lines(FOR_EVER);
        count(&lines, 2 * FLOOD);
        lines.finish();
        expect_count(&mut reader, 2 * FLOOD);
        count(&lines, 2 * FLOOD);
        expect_count(&mut reader, 2 * FLOOD);
    }

    /// Through a pipe that is full most of the time.
    #[test]
    fn lines_of_many_threads_stay_whole_and_in_order() {
        let (lines, reader) = lines(PATIENCE);
        let (threads, each, lengths) = (4, 200, [10, 500, 4096, FULL, 100_000]);
        let reader = thread::spawn(|| reader.lines().map(Result::unwrap).collect());
        thread::scope(|scope| {
            let lines = &lines;
            for thread in 0..threads {
                scope.spawn(move || {
                    for n in 0..each {
                        let text = "x".repeat(lengths[(n + thread) % lengths.len()]);
                        let line = format!("{thread} {n} {text}\n");
                        lines.make_writer().write_all(line.as_bytes()).unwrap();
                    }
                });
            }
        });
        lines.finish();
        drop(lines);
        let found: Vec<String> = reader.join().unwrap();
        assert_eq!(found.len(), threads * each);
        let mut next = [0; 4];
        for line in found {
            let mut words = line.splitn(3, ' ');
            let thread: usize = words.next().unwrap().parse().unwrap();
            let n: usize = words.next().unwrap().parse().unwrap();
            let rest = words.next().unwrap();
            assert_eq!(n, next[thread], "lines of thread {thread}");
            assert_eq!(rest.len(), lengths[(n + thread) % lengths.len()]);
            assert!(rest.bytes().all(|byte| byte == b'x'));
            next[thread] += 1;
        }
    }
}
