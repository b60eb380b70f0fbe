//! What processes take of the machine.

use std::fs;
use std::time::Duration;

/// CPU time of this process so far.
pub(crate) fn own() -> Duration {
    of("self")
}

/// CPU time of a process so far, threads that have ended included.
pub(crate) fn of(process: impl std::fmt::Display) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // The name in parentheses may hold anything; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// What Linux counts CPU time in for everybody outside of it, on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory of a process in megabytes.
pub(crate) fn resident_mb(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<f64>().ok());
    kilobytes.expect("it has memory") / 1000.0
}
