//! Waiting for a condition: looked at again and again, with a deadline, and without a fixed sleep.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use polity_runtime::Clock;

/// Long enough for a busy machine; a test that passes never waits for it.
const DEADLINE: Duration = Duration::from_secs(20);
/// Between the first two looks; each pause is twice the one before, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What a look at the world can answer: whether it is as wanted, and if not, what it is.
pub trait Outcome {
    /// What the condition yields once it holds.
    type Value;

    /// The value, or what was seen instead.
    fn met(self) -> Result<Self::Value, String>;
}

impl Outcome for bool {
    type Value = ();

    fn met(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("false".to_owned())
        }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: Debug> Outcome for Result<T, E> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Waits until `look` answers true, `Some` or `Ok`, and returns what it holds. Panics with `what` and the
/// last thing seen when that takes more than twenty seconds.
#[track_caller]
pub fn eventually<O, F, L>(what: &str, look: L) -> impl Future<Output = O::Value>
where
    O: Outcome,
    F: Future<Output = O>,
    L: FnMut() -> F,
{
    eventually_within(DEADLINE, what, look)
}

/// [`eventually`] with a deadline of its own.
#[track_caller]
pub fn eventually_within<O, F, L>(
    deadline: Duration,
    what: &str,
    mut look: L,
) -> impl Future<Output = O::Value>
where
    O: Outcome,
    F: Future<Output = O>,
    L: FnMut() -> F,
{
    let caller = Location::caller();
    async move {
        let clock = Clock::system();
        let ends = clock.moment() + deadline;
        let mut pause = FIRST_PAUSE;
        let mut last = "no answer to the first look".to_owned();
        loop {
            // A look that hangs must not outlast the deadline either.
            let looked = tokio::select! {
                looked = look() => Some(looked.met()),
                () = clock.sleep_until(ends) => None,
            };
            match looked {
                Some(Ok(value)) => return value,
                Some(Err(seen)) => last = seen,
                None => {}
            }
            assert!(
                clock.moment() < ends,
                "not within {deadline:?}: {what}\n  at {caller}\n  last seen: {last}"
            );
            clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::AssertUnwindSafe;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_looks_until_the_condition_holds() {
        let n_looks = Cell::new(0);
        let look = || {
            n_looks.set(n_looks.get() + 1);
            let seen = n_looks.get();
            async move { if seen < 4 { Err(seen) } else { Ok("there") } }
        };
        assert_eq!(eventually("the fourth look", look).await, "there");
        assert_eq!(n_looks.get(), 4);
        eventually("true", || async { true }).await;
        assert_eq!(eventually("some", || async { Some(1) }).await, 1);
    }

    async fn said<T>(future: impl Future<Output = T>) -> String {
        let Err(panic) = AssertUnwindSafe(future).catch_unwind().await else {
            panic!("it came true")
        };
        *panic.downcast::<String>().unwrap()
    }

    #[tokio::test]
    async fn the_failure_says_what_was_waited_for_where_and_what_was_seen() {
        let short = Duration::from_millis(20);
        let message = said(eventually_within(short, "the moon is full", || async {
            Err::<(), _>("a half moon")
        }))
        .await;
        assert!(
            message.starts_with("not within 20ms: the moon is full\n  at "),
            "{message}"
        );
        assert!(message.contains("eventually.rs:"), "{message}");
        assert!(message.ends_with("last seen: \"a half moon\""), "{message}");

        let message = said(eventually_within(
            short,
            "an answer",
            std::future::pending::<bool>,
        ))
        .await;
        assert!(
            message.ends_with("last seen: no answer to the first look"),
            "{message}"
        );
    }
}
