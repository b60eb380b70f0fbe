//! CPU time and memory of processes.

use std::time::Duration;

use polity_runtime::procfs::{self, Stat, TICKS_PER_SECOND};

/// CPU time of this process so far.
pub(crate) fn own() -> Duration {
    of("self")
}

/// CPU time of a process so far, including threads that have exited.
pub(crate) fn of(process: impl std::fmt::Display) -> Duration {
    let stat = Stat::read(process).expect("the process runs");
    Duration::from_millis(stat.cpu_ticks * 1000 / TICKS_PER_SECOND)
}

/// Resident memory of a process in megabytes.
pub(crate) fn resident_mb(process: u32) -> f64 {
    procfs::resident_bytes(process).expect("the process runs") as f64 / 1024.0 / 1000.0
}
