//! The state that the writer shares with readers, and the watch, which is a position in the history.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::{Event, Revision, WatchEnd, engine::Failure, state::State};

/// How many events a watch takes from the history at a time.
const PAGE: usize = 256;

/// The state that the writer shares with all readers.
pub(crate) struct Shared<I> {
    state: ArcSwap<State<I>>,
    progress: watch::Sender<Progress>,
    /// A channel for each bucket that is watched, to wake its watchers and no others. None once the
    /// store is closed.
    bells: Mutex<Option<HashMap<Arc<str>, watch::Sender<()>>>>,
    /// Why the last transaction failed.
    failure: Mutex<Option<Failure>>,
}

/// How far the store is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) revision: Revision,
    pub(crate) closed: bool,
}

impl<I> Shared<I> {
    pub(crate) fn new(state: State<I>) -> Self {
        let progress = Progress {
            revision: state.revision,
            closed: false,
        };
        Self {
            state: ArcSwap::from_pointee(state),
            progress: watch::Sender::new(progress),
            bells: Mutex::new(Some(HashMap::new())),
            failure: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> Arc<State<I>> {
        self.state.load_full()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Publishes a new state and wakes the tasks that wait for it.
    pub(crate) fn publish(&self, state: State<I>, buckets: &BTreeSet<Arc<str>>) {
        let revision = state.revision;
        self.state.store(Arc::new(state));
        self.progress
            .send_modify(|progress| progress.revision = revision);
        let mut bells = self.bells();
        let Some(bells) = bells.as_mut() else { return };
        for bucket in buckets {
            if bells.get(bucket).is_some_and(|bell| bell.send(()).is_err()) {
                // The last watcher of the bucket has gone.
                bells.remove(bucket);
            }
        }
    }

    /// Signals that no further state will follow.
    pub(crate) fn close(&self) {
        self.bells().take();
        self.progress.send_modify(|progress| progress.closed = true);
    }

    /// Remembers how the last transaction ended.
    pub(crate) fn set_failure(&self, failure: Option<Failure>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.progress.borrow().closed
    }

    fn subscribe(&self, bucket: &Arc<str>) -> watch::Receiver<()> {
        match self.bells().as_mut() {
            Some(bells) => bells.entry(Arc::clone(bucket)).or_default().subscribe(),
            None => watch::Sender::new(()).subscribe(),
        }
    }

    fn bells(&self) -> MutexGuard<'_, Option<HashMap<Arc<str>, watch::Sender<()>>>> {
        // The map stays consistent even if a thread panicked while it held the lock.
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All events of a bucket after a revision, in order, none missing and none twice.
pub struct Watch<I> {
    shared: Arc<Shared<I>>,
    bucket: Arc<str>,
    bell: watch::Receiver<()>,
    /// Every event up to here was returned or is in `page`.
    position: Revision,
    page: VecDeque<Arc<Event<I>>>,
}

impl<I> Watch<I> {
    pub(crate) fn new(shared: Arc<Shared<I>>, bucket: Arc<str>, after: Revision) -> Self {
        let bell = shared.subscribe(&bucket);
        Self {
            shared,
            bucket,
            bell,
            position: after,
            page: VecDeque::new(),
        }
    }

    /// The next event, as soon as there is one. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Arc<Event<I>>, WatchEnd> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if self.bell.changed().await.is_err() {
                return self.try_next()?.ok_or(WatchEnd::Closed);
            }
        }
    }

    /// The next event if it is available.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event<I>>>, WatchEnd> {
        if self.page.is_empty() {
            self.turn_page()?;
        }
        Ok(self.page.pop_front())
    }

    /// Waits for at least one event, and returns it together with those that are available, up to some hundreds.
    pub async fn next_page(&mut self) -> Result<Vec<Arc<Event<I>>>, WatchEnd> {
        let mut page = vec![self.next().await?];
        page.extend(self.page.drain(..));
        Ok(page)
    }

    /// The revision up to which this watch has returned every event, for bookmarks. If no events are left, it is the
    /// revision of the store.
    pub fn seen(&mut self) -> Revision {
        // A watch that fell behind gets an error instead of its next event. Until then its position is valid.
        if self.page.is_empty() {
            let _ = self.turn_page();
        }
        match self.page.front() {
            // Events of other buckets in between do not matter to this watch.
            Some(event) => Revision(event.revision.0 - 1),
            None => self.position,
        }
    }

    /// Takes the next events from the history.
    fn turn_page(&mut self) -> Result<(), WatchEnd> {
        // Before the state is read: a state that is published after this notifies again.
        self.bell.mark_unchanged();
        let state = self.shared.state();
        if self.position < state.history.dropped(&self.bucket) {
            return Err(WatchEnd::Lagged);
        }
        self.page.extend(
            state
                .history
                .after(&self.bucket, self.position)
                .take(PAGE)
                .cloned(),
        );
        self.position = match self.page.back() {
            Some(event) => event.revision,
            // Not beyond the requested revision: a watch may begin in the future.
            None => self.position.max(state.revision),
        };
        Ok(())
    }
}
