//! Pods that are tried all the while something else happens, as a stream through the API server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Between two trials of one thread. The policies are judged here, not the speed of the machine.
const PAUSE: Duration = Duration::from_millis(40);

/// What came of them.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    pub(crate) n_asked: usize,
    /// What was said where the policy did not decide, or not as it has to.
    pub(crate) odd: Vec<String>,
}

/// Tries the guilty and the innocent in turn, in so many threads, from before `play` until it is over. The guilty must
/// be refused in these words, the innocent must not be refused.
pub(crate) fn during<T>(
    n_threads: usize,
    words: &str,
    attempt: impl Fn(bool) -> Result<(), String> + Sync,
    play: impl FnOnce() -> T,
) -> (T, Trials) {
    let is_over = AtomicBool::new(false);
    let ask = || {
        let mut trials = Trials::default();
        while !is_over.load(Ordering::Relaxed) {
            for is_guilty in [true, false] {
                trials.n_asked += 1;
                trials
                    .odd
                    .extend(oddity(is_guilty, attempt(is_guilty), words));
            }
            thread::park_timeout(PAUSE);
        }
        trials
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(ask)).collect();
        let played = {
            // Also when the play fails: nobody asks without end.
            let _over = Over(&is_over);
            play()
        };
        let mut all = Trials::default();
        for thread in threads {
            let Trials { n_asked, odd } = thread.join().unwrap();
            all.n_asked += n_asked;
            all.odd.extend(odd);
        }
        (played, all)
    })
}

/// What is wrong with an answer.
fn oddity(is_guilty: bool, answer: Result<(), String>, words: &str) -> Option<String> {
    match (is_guilty, answer) {
        (true, Ok(())) => Some("a guilty one passed".to_owned()),
        (true, Err(said)) if said.contains(words) => None,
        (false, Ok(())) => None,
        (_, Err(said)) => Some(said),
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
