//! Waiting for what comes about by itself.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// One minute: a loaded machine of two cores is slow.
const LOOKS: u32 = 1200;

/// Looks until there is something to see.
///
/// # Panics
/// When that takes more than a minute.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    eventually_seen(what, || look().ok_or("nothing"))
}

/// [`eventually`] with a word on what is seen instead.
///
/// # Panics
/// When it takes more than a minute, with the last word.
#[track_caller]
pub fn eventually_seen<T, S: Display>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let mut last = None;
    for _ in 0..LOOKS {
        match look() {
            Ok(seen) => return seen,
            Err(instead) => last = Some(instead),
        }
        thread::sleep(PAUSE); // tidy: between two looks
    }
    let last = last.map(|last| last.to_string()).unwrap_or_default();
    panic!("never happened: {what}; seen at last: {last}")
}
