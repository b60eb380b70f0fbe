//! How a store is opened.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Where a store is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In memory only: gone when the store is closed.
    Memory,
    /// In this directory, which is created if it does not exist.
    Directory(PathBuf),
}

/// How much of the past is kept. An event is dropped when it is beyond any of the limits, except
/// that the newest `at_least` events of a bucket always stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLimits {
    /// How long an event is kept.
    pub keep: Duration,
    /// How many events are kept in each bucket.
    pub per_bucket: usize,
    /// How many bytes of object versions are kept in each bucket's history.
    pub bytes_per_bucket: usize,
    /// How many events stay in each bucket regardless of the other limits.
    pub at_least: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            keep: Duration::from_mins(5),
            per_bucket: 10_000,
            bytes_per_bucket: 64 << 20,
            at_least: 100,
        }
    }
}

/// The size limits of stored objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeLimits {
    /// The bytes of one object.
    pub value: usize,
    /// The bytes of each part of a key; at most 65,535.
    pub key_part: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self {
            value: 8 << 20,
            key_part: 1024,
        }
    }
}

/// The source of time, for the age of events.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// A clock that calls this function.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since 1970, which is how the time of an event is stored.
    pub(crate) fn now_millis(&self) -> u64 {
        let since = (self.0)()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Clock {
    fn default() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the default of an argument; every caller may give its own"
        )]
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    pub location: Location,
    /// How much of the past is kept.
    pub history: HistoryLimits,
    pub sizes: SizeLimits,
    pub clock: Clock,
}

impl Options {
    pub fn memory() -> Self {
        Self::at(Location::Memory)
    }

    /// A store in this directory.
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        Self::at(Location::Directory(directory.into()))
    }

    fn at(location: Location) -> Self {
        Self {
            location,
            history: HistoryLimits::default(),
            sizes: SizeLimits::default(),
            clock: Clock::default(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::memory()
    }
}
