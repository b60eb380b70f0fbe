//! The interface between a running guest and its host.

use crate::{Deadline, Limits};

/// A host call of a guest.
#[derive(Debug, Clone, Copy)]
pub struct HostCall<'a> {
    /// Always `kubewarden` for the calls that exist.
    pub binding: &'a str,
    /// `kubernetes`, `oci`, …
    pub namespace: &'a str,
    /// `list_resources_all`, `v1/verify`, …
    pub operation: &'a str,
    /// JSON, as the guest wrote it.
    pub payload: &'a [u8],
}

/// The origin of a printed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `__console_log` of waPC.
    Console,
    /// Standard output of a waPC guest; that of a WASI guest is its result.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The remaining limits of an evaluation during a host call.
#[derive(Debug)]
pub struct Bounds {
    /// When the whole evaluation must end, including this call.
    pub deadline: Deadline,
    /// The remaining log budget.
    pub log: LogBudget,
}

/// How much an evaluation may still log. Further entries are dropped: a flood of lines is no reason to refuse a
/// request.
#[derive(Debug, Clone)]
pub struct LogBudget {
    entry: usize,
    left: usize,
    n_dropped: u64,
}

impl LogBudget {
    /// A full budget.
    pub fn new(limits: &Limits) -> Self {
        Self {
            entry: limits.log_entry,
            left: limits.log_total,
            n_dropped: 0,
        }
    }

    /// The part of `text` that may be logged: all of it, its start, or nothing.
    pub fn admit<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if self.left == 0 {
            self.n_dropped += 1;
            return None;
        }
        let end = text.floor_char_boundary(text.len().min(self.entry).min(self.left));
        // An entry costs more than its text, so that empty lines count too.
        self.left = self.left.saturating_sub(end.max(64));
        Some(&text[..end])
    }

    /// How many entries were dropped.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped
    }
}

/// The host of one evaluation.
pub trait Host: Send {
    /// Answers a host call. The guest gets an `Err` as the error message of the call.
    fn call(&mut self, call: HostCall<'_>, bounds: &mut Bounds) -> Result<Vec<u8>, String>;

    /// Receives a line that the guest printed, within its log budget.
    fn print(&mut self, stream: Stream, text: &str);

    /// Called on the thread of a guest that has been running for some milliseconds, then in growing intervals.
    fn still_running(&mut self) {}
}

/// A host that refuses every call and ignores output.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn call(&mut self, call: HostCall<'_>, _: &mut Bounds) -> Result<Vec<u8>, String> {
        Err(format!("unknown binding: {}", call.binding))
    }

    fn print(&mut self, _: Stream, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_budget_cuts_then_drops() {
        let limits = Limits {
            log_entry: 100,
            log_total: 250,
            ..Limits::default()
        };
        let mut budget = LogBudget::new(&limits);
        let long = "é".repeat(80);
        assert_eq!(budget.admit(&long).map(str::len), Some(100));
        assert_eq!(budget.admit("x"), Some("x"), "costs 64");
        assert_eq!(budget.admit(&long).map(str::len), Some(86), "what is left");
        assert_eq!(budget.admit("y"), None);
        assert_eq!(budget.n_dropped(), 1);
    }

    #[test]
    fn log_budget_never_splits_a_character() {
        let limits = Limits {
            log_entry: 3,
            ..Limits::default()
        };
        assert_eq!(LogBudget::new(&limits).admit("éé"), Some("é"));
    }
}
