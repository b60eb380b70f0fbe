//! The one place that reads the machine's clocks: deadlines, and what a guest asks for the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When an evaluation must be over, and the limit to name when it is not.
///
/// One deadline goes from the request down to every host call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deadline(Option<At>);

#[derive(Debug, Clone, Copy)]
struct At {
    instant: Instant,
    limit: Duration,
}

impl Deadline {
    /// No limit on time.
    pub const NEVER: Self = Self(None);

    /// `limit` from now.
    pub fn after(limit: Duration) -> Self {
        Self::since(now(), limit)
    }

    /// `limit` after `start`: for what began before it got here.
    pub fn since(start: Instant, limit: Duration) -> Self {
        // A limit too far to be represented is no limit.
        Self(
            start
                .checked_add(limit)
                .map(|instant| At { instant, limit }),
        )
    }

    /// Whichever of the two comes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(mine), Some(theirs)) if theirs.instant < mine.instant => other,
            (None, _) => other,
            _ => self,
        }
    }

    /// The instant, unless there is no limit.
    pub fn instant(&self) -> Option<Instant> {
        self.0.map(|at| at.instant)
    }

    /// How long the limit was that led to this deadline.
    pub fn limit(&self) -> Option<Duration> {
        self.0.map(|at| at.limit)
    }

    /// What is left of it, zero when it is past; `None` without a limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.map(|at| at.instant.saturating_duration_since(now()))
    }

    /// Whether it is past.
    pub fn is_past(&self) -> bool {
        self.0.is_some_and(|at| now() >= at.instant)
    }
}

/// Nanoseconds since 1970, as WASI's realtime clock wants them.
pub(crate) fn realtime_nanos() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a guest asked for the time of day"
    )]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |elapsed| {
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// The monotonic clock.
pub(crate) fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "deadlines of running guests are real time"
    )]
    Instant::now()
}
