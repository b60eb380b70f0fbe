//! Polls for a condition until a deadline.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

/// Delay between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// One minute in total: a loaded machine with two cores is slow.
const ATTEMPTS: u32 = 1200;

/// Calls `look` until it returns a value.
///
/// # Panics
/// After one minute without a value.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    eventually_seen(what, || look().ok_or("nothing"))
}

/// Like [`eventually`], but includes the last observed value in the panic message.
///
/// # Panics
/// After one minute without success.
#[track_caller]
pub fn eventually_seen<T, S: Display>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match look() {
            Ok(seen) => return seen,
            Err(instead) => last = Some(instead),
        }
        thread::sleep(PAUSE); // tidy: between two looks
    }
    let last = last.map(|last| last.to_string()).unwrap_or_default();
    panic!("timed out waiting until {what}; last observed: {last}")
}
