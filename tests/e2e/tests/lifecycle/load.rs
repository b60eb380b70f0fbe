//! Sends requests through the API server while a test performs an action.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Delay between two requests of a thread. The test is about correct verdicts, not about throughput.
const PAUSE: Duration = Duration::from_millis(40);

/// Counts and unexpected responses of a load.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) n_requests: usize,
    /// Messages of responses that are no verdict of the policy, or the wrong one.
    pub(crate) unexpected: Vec<String>,
}

/// Sends requests from several threads while `action` runs. The requests alternate between objects that violate the
/// policy, which must be denied with this message, and objects that do not, which must be allowed.
pub(crate) fn during<T>(
    n_threads: usize,
    words: &str,
    attempt: impl Fn(bool) -> Result<(), String> + Sync,
    action: impl FnOnce() -> T,
) -> (T, LoadResult) {
    let is_over = AtomicBool::new(false);
    let ask = || {
        let mut load = LoadResult::default();
        while !is_over.load(Ordering::Relaxed) {
            for violates in [true, false] {
                load.n_requests += 1;
                load.unexpected
                    .extend(unexpected_response(violates, attempt(violates), words));
            }
            thread::park_timeout(PAUSE);
        }
        load
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(ask)).collect();
        let result = {
            // Stop the threads also when the action panics.
            let _stop = StopOnDrop(&is_over);
            action()
        };
        let mut all = LoadResult::default();
        for thread in threads {
            let LoadResult {
                n_requests,
                unexpected,
            } = thread.join().unwrap();
            all.n_requests += n_requests;
            all.unexpected.extend(unexpected);
        }
        (result, all)
    })
}

/// Returns a description of a response that is not as expected.
fn unexpected_response(violates: bool, answer: Result<(), String>, words: &str) -> Option<String> {
    match (violates, answer) {
        (true, Ok(())) => Some("an object that violates the policy was allowed".to_owned()),
        (true, Err(output)) if output.contains(words) => None,
        (false, Ok(())) => None,
        (_, Err(output)) => Some(output),
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
