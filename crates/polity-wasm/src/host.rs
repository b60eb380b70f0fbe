//! Whom a guest talks to while it runs.

use crate::{Deadline, Limits};

/// One call of a guest: which function, and what with.
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

/// Where a printed line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `__console_log` of waPC.
    Console,
    /// Standard output of a waPC guest; that of a WASI guest is its answer.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What is left of an evaluation's limits when a host call is made.
#[derive(Debug)]
pub struct Bounds {
    /// When the whole evaluation must be over, this call included.
    pub deadline: Deadline,
    /// What may still be logged.
    pub log: LogBudget,
}

/// How much an evaluation may still log. Past it, entries are dropped: a flood of lines is a fault of
/// the guest, but no reason to refuse a request.
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

    /// The part of `text` that may be logged: all of it, its beginning, or nothing.
    pub fn admit<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if self.left == 0 {
            self.n_dropped += 1;
            return None;
        }
        let end = text.floor_char_boundary(text.len().min(self.entry).min(self.left));
        // An entry costs more than its text: a flood of empty lines is a flood.
        self.left = self.left.saturating_sub(end.max(64));
        Some(&text[..end])
    }

    /// How many entries were dropped.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped
    }
}

/// The host side of one evaluation.
pub trait Host: Send {
    /// Answers one call; an `Err` goes to the guest as the call's error text.
    fn call(&mut self, call: HostCall<'_>, bounds: &mut Bounds) -> Result<Vec<u8>, String>;

    /// Takes a line that the guest printed, already within its log budget.
    fn print(&mut self, stream: Stream, text: &str);

    /// The guest did not end within some milliseconds and goes on running. Called on its thread, less and less often
    /// the longer it takes.
    fn still_running(&mut self) {}
}

/// A host that grants nothing and ignores what is printed.
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
