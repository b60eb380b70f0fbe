//! Shutdown: one token tree for the process, and owners that notice when a task ends.
//!
//! A [`Shutdown`] stops everything below it. [`Tasks`] owns spawned tasks: a task that ends before the shutdown, or
//! panics, is logged and stops the rest, so that no process continues with a part of it missing.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{AbortHandle, JoinError};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info};

use crate::clock::Clock;

/// A handle that signals the shutdown. Clones are the same handle. Children stop with their parent, but not the other
/// way round.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// A shutdown that is triggered by [`Self::trigger`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown that SIGINT and SIGTERM trigger. A second signal exits the process immediately: a user who presses
    /// Ctrl-C twice does not want to wait for the drain.
    ///
    /// Must be called within a tokio runtime.
    pub fn on_signals() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = Self::new();
        let first = shutdown.clone();
        tokio::spawn(async move {
            let (name, _) = next_signal(&mut interrupt, &mut terminate).await;
            info!(signal = name, "stopping");
            first.trigger();
            let (_, number) = next_signal(&mut interrupt, &mut terminate).await;
            exit_now(128 + number);
        });
        Ok(shutdown)
    }

    /// A shutdown below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
        }
    }

    /// Starts the shutdown.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Whether it is time to stop.
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the shutdown. The future owns its data.
    pub fn triggered(&self) -> WaitForCancellationFutureOwned {
        self.token.clone().cancelled_owned()
    }

    /// Runs a future until it completes or the shutdown begins.
    pub async fn run_until<F: Future>(&self, future: F) -> Option<F::Output> {
        self.token.run_until_cancelled(future).await
    }
}

/// Receives SIGHUP from now on, which makes daemons reload their files. Without this the signal kills the process.
///
/// Must be called within a tokio runtime.
pub fn hangups() -> io::Result<Hangups> {
    signal(SignalKind::hangup()).map(Hangups)
}

/// SIGHUP signals. Signals in quick succession count once.
#[derive(Debug)]
pub struct Hangups(tokio::signal::unix::Signal);

impl Hangups {
    /// Waits for the next one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

async fn next_signal(
    interrupt: &mut tokio::signal::unix::Signal,
    terminate: &mut tokio::signal::unix::Signal,
) -> (&'static str, i32) {
    tokio::select! {
        _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
    }
}

#[expect(
    clippy::exit,
    reason = "the second signal means now, whatever is still running"
)]
fn exit_now(code: i32) -> ! {
    std::process::exit(code)
}

/// Why a task ended.
#[derive(Debug, thiserror::Error)]
pub enum TaskEnd {
    /// The task returned before the shutdown.
    #[error("task {task} ended unexpectedly")]
    Early { task: &'static str },
    #[error("task {task} failed")]
    Failed {
        task: &'static str,
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("task {task} panicked: {message}")]
    Panicked { task: &'static str, message: String },
    /// It had not stopped when patience ran out, and was aborted.
    #[error("task {task} did not stop in time")]
    Stuck { task: &'static str },
}

/// The owner of spawned tasks. Clones are the same owner.
#[derive(Debug, Clone)]
pub struct Tasks {
    shutdown: Shutdown,
    tracker: TaskTracker,
    book: Arc<Mutex<Book>>,
}

/// The running tasks and their errors.
#[derive(Debug, Default)]
struct Book {
    next_id: u64,
    running: BTreeMap<u64, (&'static str, AbortHandle)>,
    ends: Vec<TaskEnd>,
}

impl Tasks {
    /// An owner whose tasks stop with `shutdown`. It triggers the shutdown when a task ends early.
    pub fn new(shutdown: Shutdown) -> Self {
        Self {
            shutdown,
            tracker: TaskTracker::new(),
            book: Arc::default(),
        }
    }

    /// The shutdown that the tasks obey.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Spawns a task that must run until the shutdown: its end before then stops everything.
    pub fn spawn<F, E>(&self, task: &'static str, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        self.own(task, true, future);
    }

    /// Spawns a task that may end when its work is done; a failure or panic of it stops
    /// everything all the same.
    pub fn spawn_finite<F, E>(&self, task: &'static str, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        self.own(task, false, future);
    }

    fn own<F, E>(&self, task: &'static str, is_endless: bool, future: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let inner = tokio::spawn(future);
        let id = self.book(|book| {
            book.next_id += 1;
            book.running
                .insert(book.next_id, (task, inner.abort_handle()));
            book.next_id
        });
        let owner = self.clone();
        self.tracker.spawn(async move {
            let end = match inner.await {
                Ok(Ok(())) if is_endless && !owner.shutdown.is_triggered() => {
                    Some(TaskEnd::Early { task })
                }
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(TaskEnd::Failed {
                    task,
                    error: error.into(),
                }),
                Err(error) if error.is_cancelled() => None,
                Err(error) => Some(TaskEnd::Panicked {
                    task,
                    message: panic_message(error),
                }),
            };
            owner.note(id, task, end);
        });
    }

    fn note(&self, id: u64, task: &'static str, end: Option<TaskEnd>) {
        debug!(task, "task ended");
        if let Some(end) = &end {
            error!(
                error = end as &dyn std::error::Error,
                "stopping because a task ended"
            );
            self.shutdown.trigger();
        }
        self.book(|book| {
            book.running.remove(&id);
            book.ends.extend(end);
        });
    }

    /// Waits for all tasks after the shutdown. Tasks that still run after `patience` are aborted. Returns the errors
    /// in order.
    pub async fn finish(self, clock: &Clock, patience: Duration) -> Vec<TaskEnd> {
        self.shutdown.triggered().await;
        self.tracker.close();
        tokio::select! {
            () = self.tracker.wait() => {}
            () = clock.sleep(patience) => {
                self.book(|book| {
                    for (task, handle) in book.running.values() {
                        handle.abort();
                        book.ends.push(TaskEnd::Stuck { task });
                    }
                });
                self.tracker.wait().await;
            }
        }
        self.book(|book| std::mem::take(&mut book.ends))
    }

    fn book<T>(&self, edit: impl FnOnce(&mut Book) -> T) -> T {
        // Nothing panics while it holds the book; if it did, the book would still be whole.
        edit(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn panic_message(error: JoinError) -> String {
    let panic = error.into_panic();
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn owner() -> (Clock, Shutdown, Tasks) {
        let shutdown = Shutdown::new();
        (
            Clock::manual(jiff::Timestamp::UNIX_EPOCH),
            shutdown.clone(),
            Tasks::new(shutdown),
        )
    }

    fn said(ends: &[TaskEnd]) -> Vec<String> {
        ends.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn children_stop_with_their_parent_only() {
        let parent = Shutdown::new();
        let (child, sibling) = (parent.child(), parent.child());
        child.trigger();
        assert!(child.is_triggered() && !parent.is_triggered() && !sibling.is_triggered());
        parent.trigger();
        sibling.triggered().await;
        assert_eq!(sibling.run_until(std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn obedient_tasks_end_without_a_word() {
        let (clock, shutdown, tasks) = owner();
        let until = shutdown.triggered();
        tasks.spawn("endless", async move {
            until.await;
            Ok::<_, Infallible>(())
        });
        tasks.spawn_finite("finite", async { Ok::<_, Infallible>(()) });
        shutdown.trigger();
        assert!(tasks.finish(&clock, PATIENCE).await.is_empty());
    }

    #[tokio::test]
    async fn a_task_that_ends_stops_the_rest() {
        let boom = |what: &'static str| async move {
            match what {
                "ends" => Ok(()),
                "fails" => Err("no luck"),
                _ => panic!("oh {what}"),
            }
        };
        for (what, expected) in [
            ("ends", "task watch ended unexpectedly"),
            ("fails", "task watch failed"),
            ("panics", "task watch panicked: oh panics"),
        ] {
            let (clock, shutdown, tasks) = owner();
            let until = shutdown.triggered();
            tasks.spawn("other", async move {
                until.await;
                Ok::<_, Infallible>(())
            });
            tasks.spawn("watch", boom(what));
            assert_eq!(said(&tasks.finish(&clock, PATIENCE).await), [expected]);
        }
    }

    #[tokio::test]
    async fn stuck_tasks_are_aborted() {
        let (clock, shutdown, tasks) = owner();
        tasks.spawn("deaf", std::future::pending::<Result<(), Infallible>>());
        shutdown.trigger();
        let finished = tokio::spawn({
            let clock = clock.clone();
            async move { tasks.finish(&clock, PATIENCE).await }
        });
        clock.wait_for_sleepers(1).await;
        clock.advance(PATIENCE);
        assert_eq!(
            said(&finished.await.unwrap()),
            ["task deaf did not stop in time"]
        );
    }

    async fn send_to_ourselves(signal: &str) {
        let own_pid = std::process::id().to_string();
        let sent = tokio::process::Command::new("kill")
            .args([signal, &own_pid])
            .status()
            .await;
        assert!(sent.unwrap().success());
    }

    #[tokio::test]
    async fn a_signal_triggers_the_shutdown() {
        let shutdown = Shutdown::on_signals().unwrap();
        send_to_ourselves("-TERM").await;
        shutdown.triggered().await;
    }

    #[tokio::test]
    async fn hangups_are_heard() {
        let mut hangups = hangups().unwrap();
        send_to_ourselves("-HUP").await;
        hangups.next().await;
    }
}
