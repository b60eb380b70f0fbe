//! The interface to the runtime that has the logs of Pods.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;

/// The options of a log request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Empty means the only container.
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub tail_lines: Option<u64>,
    pub since_seconds: Option<u64>,
    pub timestamps: bool,
    pub limit_bytes: Option<u64>,
}

/// A stream of log lines.
pub type LogStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Provides the logs of Pods.
pub trait LogSource: Send + Sync {
    /// The log of a Pod, or `None` when this source does not run it.
    fn open(&self, namespace: &str, pod: &str, options: &LogOptions) -> Option<LogStream>;
}
