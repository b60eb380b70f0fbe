//! Waiting for what comes about by itself.

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
    for _ in 0..LOOKS {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(PAUSE); // tidy: between two looks
    }
    panic!("never happened: {what}")
}
