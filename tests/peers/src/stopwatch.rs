//! Time measurement for benchmarks.

use std::time::{Duration, Instant};

/// The start time of a measurement.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn start() -> Instant {
    Instant::now()
}

/// The shortest of several runs. Disturbances only make a run slower.
pub fn best_of(n_runs: u32, mut work: impl FnMut()) -> Duration {
    let run = |_| {
        let start = start();
        work();
        start.elapsed()
    };
    (0..n_runs).map(run).min().unwrap_or_default()
}

/// Prints a figure: a name, milliseconds and their unit, separated by tabs.
#[expect(clippy::print_stdout, reason = "the figures are a benchmark's output")]
pub fn report(name: &str, took: Duration) {
    println!("{name}\t{:.3}\tms", took.as_secs_f64() * 1000.0);
}
