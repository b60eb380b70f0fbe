//! Watches: one snapshot, then every later change, each once and in order (docs/spec/apiserver.md#9).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use polity_store::{Event, HistoryError, Revision, Watch, WatchEnd};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Call;
use super::select::Selection;
use crate::object::Stored;
use crate::object::index::ObjectIndex;
use crate::object::meta;
use crate::render::{self, Renderer};
use crate::request::query::ListOptions;
use crate::served::ServedResource;
use polity_kinds::status::ApiError;

/// How often a watch without events sends a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// The last bookmark is sent this long before the end.
const LAST_BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// A running watch; [`Self::next`] yields its lines.
pub struct Stream {
    def: Arc<ServedResource>,
    namespace: String,
    selection: Selection,
    renderer: Renderer,
    bookmarks: bool,
    ready: VecDeque<Bytes>,
    source: Source,
    ends_at: Instant,
    next_bookmark: Instant,
    shutdown: CancellationToken,
}

enum Source {
    Live(Watch<ObjectIndex>),
    /// No more events follow once `ready` is drained.
    Ended,
}

impl Call<'_> {
    /// Starts a watch on the collection this call names.
    pub async fn watch(
        &self,
        options: &ListOptions,
        renderer: Renderer,
    ) -> Result<Stream, ApiError> {
        let selection = Selection::parse(&self.def, options)?;
        let from = options
            .version_number()?
            .filter(|number| *number > 0)
            .map(Revision);
        // A watch without a version begins with the existing objects.
        let initial = options.send_initial_events.unwrap_or(from.is_none());
        let now = Instant::now();
        let lasts = options
            .timeout_seconds
            .filter(|seconds| *seconds > 0)
            .map_or_else(random_length, Duration::from_secs);
        let mut stream = Stream {
            def: self.def.clone(),
            namespace: self.namespace.to_owned(),
            selection,
            renderer,
            bookmarks: options.allow_bookmarks,
            ready: VecDeque::new(),
            source: Source::Ended,
            ends_at: now + lasts,
            next_bookmark: now + BOOKMARK_EVERY.min(lasts.saturating_sub(LAST_BOOKMARK_BEFORE_END)),
            shutdown: self.cluster.watch_shutdown(&self.def),
        };
        if initial {
            if let Some(wanted) = from {
                self.reach(wanted).await?;
            }
            stream.begin_with_snapshot(self);
        } else {
            let after = from.unwrap_or_else(|| self.cluster.store().current().revision());
            stream.follow(self, after);
        }
        Ok(stream)
    }
}

fn random_length() -> Duration {
    let random = Uuid::new_v4().as_u128() as u64;
    Duration::from_secs(1800 + random % 1800)
}

impl Stream {
    fn begin_with_snapshot(&mut self, call: &Call<'_>) {
        let snapshot = call.cluster.store().current();
        let namespace = (!self.namespace.is_empty()).then_some(self.namespace.as_str());
        let matching: Vec<Stored> = snapshot
            .range(&self.def.bucket, namespace, None)
            .filter(|stored| self.selection.matches(stored))
            .cloned()
            .collect();
        for stored in matching {
            self.push("ADDED", &stored);
        }
        if self.bookmarks {
            self.push_bookmark(snapshot.revision(), true);
        }
        self.follow(call, snapshot.revision());
    }

    fn follow(&mut self, call: &Call<'_>, after: Revision) {
        match call.cluster.store().watch(&self.def.bucket, after) {
            Ok(watch) => self.source = Source::Live(watch),
            Err(HistoryError::Compacted { oldest }) => {
                // The stream opens, sends the error and ends.
                let error =
                    ApiError::expired(format!("too old resource version: {after} ({oldest})"));
                self.push_error(&error);
            }
            // The store's watch waits for a version that does not exist yet.
            Err(HistoryError::Future { .. }) => self.source = Source::Ended,
        }
    }

    /// The next line, or `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let Source::Live(watch) = &mut self.source else {
                return None;
            };
            let turn = tokio::select! {
                // Events first: a watcher of a kind that is removed sees the deletion of every object.
                biased;
                event = watch.next() => match event {
                    Ok(event) => Turn::Event(event),
                    // A reader that cannot keep up resumes from its last version.
                    Err(WatchEnd::Lagged | WatchEnd::Closed) => Turn::End,
                },
                () = self.shutdown.cancelled() => Turn::End,
                () = tokio::time::sleep_until(self.ends_at) => Turn::End,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => Turn::Bookmark(watch.seen()),
            };
            match turn {
                Turn::End => return None,
                Turn::Event(event) => self.push_event(&event),
                Turn::Bookmark(revision) => {
                    self.push_bookmark(revision, false);
                    self.next_bookmark = self.after_bookmark();
                }
            }
        }
    }

    fn after_bookmark(&self) -> Instant {
        let last = self
            .ends_at
            .checked_sub(LAST_BOOKMARK_BEFORE_END)
            .unwrap_or(self.ends_at);
        let regular = self.next_bookmark + BOOKMARK_EVERY;
        if regular < last || self.next_bookmark >= last {
            regular
        } else {
            last
        }
    }

    /// Translates a change into an event for this watch's selector.
    fn push_event(&mut self, event: &Event<ObjectIndex>) {
        if !self.namespace.is_empty() && *event.object.key.namespace != *self.namespace {
            return;
        }
        let before = event
            .previous
            .as_ref()
            .filter(|previous| self.selection.matches(previous));
        let after = !event.deleted && self.selection.matches(&event.object);
        match (before, after) {
            (None, false) => {}
            (None, true) => self.push("ADDED", &event.object),
            (Some(_), true) => self.push("MODIFIED", &event.object),
            (Some(_), false) if event.deleted => self.push("DELETED", &event.object),
            (Some(previous), false) => {
                let mut last = self.def.read(previous);
                meta::set(
                    &mut last,
                    "resourceVersion",
                    json!(event.revision.to_string()),
                );
                let line = self.renderer.event_value("DELETED", &last);
                self.ready.push_back(line);
            }
        }
    }

    fn push(&mut self, kind: &str, stored: &Stored) {
        let line = self.renderer.event(kind, stored);
        self.ready.push_back(line);
    }

    fn push_bookmark(&mut self, revision: Revision, initial_end: bool) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.def.gvk.kind, "apiVersion": self.def.gvk.api_version(), "metadata": metadata});
        let line = self.renderer.event_value("BOOKMARK", &object);
        self.ready.push_back(line);
    }

    fn push_error(&mut self, error: &ApiError) {
        self.ready
            .push_back(render::line("ERROR", &error.to_value()));
        self.source = Source::Ended;
    }
}

enum Turn {
    End,
    Event(Arc<Event<ObjectIndex>>),
    Bookmark(Revision),
}
