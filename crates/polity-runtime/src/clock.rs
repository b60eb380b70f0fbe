//! The clock: the only module that reads the system time.
//!
//! A [`Clock`] is a handle that shells pass around. The system clock returns the time and sleeps. A manual clock only
//! moves when a test advances it, and then wakes the sleeping tasks. Durations are measured in [`Moment`]s, which
//! adjustments of the wall clock do not affect.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// A point on a clock's monotonic scale. Only moments of the same clock compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment a clock starts with.
    pub const START: Self = Self(Duration::ZERO);

    /// The time from `earlier` to this moment, zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// A handle on the time. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    System { start: tokio::time::Instant },
    Manual(Arc<Manual>),
}

#[derive(Debug)]
struct Manual {
    start: Timestamp,
    elapsed: watch::Sender<Duration>,
    n_sleepers: watch::Sender<usize>,
}

impl Clock {
    pub fn system() -> Self {
        Self(Kind::System {
            start: tokio::time::Instant::now(),
        })
    }

    /// A clock that stays at `start` until it is advanced.
    pub fn manual(start: Timestamp) -> Self {
        Self(Kind::Manual(Arc::new(Manual {
            start,
            elapsed: watch::Sender::new(Duration::ZERO),
            n_sleepers: watch::Sender::new(0),
        })))
    }

    /// The wall-clock time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that asks for the time"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System { .. } => Timestamp::now(),
            Kind::Manual(manual) => {
                let elapsed = *manual.elapsed.borrow();
                manual
                    .start
                    .saturating_add(elapsed)
                    .unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// The present moment, for measuring durations.
    pub fn moment(&self) -> Moment {
        Moment(match &self.0 {
            Kind::System { start } => start.elapsed(),
            Kind::Manual(manual) => *manual.elapsed.borrow(),
        })
    }

    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.moment() + duration).await;
    }

    /// Sleeps until a moment; returns at once when it has passed.
    pub async fn sleep_until(&self, until: Moment) {
        match &self.0 {
            // Far beyond any deadline: tokio refuses instants past its calendar.
            Kind::System { start } => match start.checked_add(until.0) {
                Some(instant) => tokio::time::sleep_until(instant).await,
                None => std::future::pending().await,
            },
            Kind::Manual(manual) => manual.sleep_until(until).await,
        }
    }

    /// Advances a manual clock and wakes the tasks that slept until then.
    ///
    /// # Panics
    /// On the system clock, which cannot be advanced.
    pub fn advance(&self, duration: Duration) {
        self.expect_manual()
            .elapsed
            .send_modify(|elapsed| *elapsed += duration);
    }

    /// Waits until at least `n` tasks sleep on a manual clock. A test calls this before it advances the clock, instead
    /// of sleeping itself.
    ///
    /// # Panics
    /// On the system clock, which does not count its sleepers.
    pub async fn wait_for_sleepers(&self, n: usize) {
        let mut n_sleepers = self.expect_manual().n_sleepers.subscribe();
        let counted = n_sleepers.wait_for(|sleeping| *sleeping >= n).await;
        drop(counted.expect("the clock outlives its sleepers"));
    }

    fn expect_manual(&self) -> &Manual {
        match &self.0 {
            Kind::System { .. } => panic!("the system clock cannot be driven by hand"),
            Kind::Manual(manual) => manual,
        }
    }
}

impl Manual {
    async fn sleep_until(&self, until: Moment) {
        let mut elapsed = self.elapsed.subscribe();
        if *elapsed.borrow_and_update() >= until.0 {
            return;
        }
        let _counted = Sleeper::enter(&self.n_sleepers);
        let reached = elapsed.wait_for(|elapsed| *elapsed >= until.0).await;
        drop(reached.expect("the clock outlives its sleepers"));
    }
}

/// Counts a sleeper for as long as it sleeps, also when its task is dropped.
struct Sleeper<'a>(&'a watch::Sender<usize>);

impl<'a> Sleeper<'a> {
    fn enter(n_sleepers: &'a watch::Sender<usize>) -> Self {
        n_sleepers.send_modify(|n| *n += 1);
        Self(n_sleepers)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_manual_clock_stands_until_advanced() {
        let clock = Clock::manual(noon());
        let before = clock.moment();
        assert_eq!(clock.now(), noon());
        clock.advance(Duration::from_mins(1));
        assert_eq!(clock.now().to_string(), "2026-11-15T12:01:00Z");
        assert_eq!(clock.moment().since(before), Duration::from_mins(1));
        assert_eq!(before.since(clock.moment()), Duration::ZERO);
    }

    #[tokio::test]
    async fn sleepers_wake_in_order_and_are_counted() {
        let clock = Clock::manual(noon());
        let sleeper = |seconds| {
            let clock = clock.clone();
            tokio::spawn(async move { clock.sleep(Duration::from_secs(seconds)).await })
        };
        let (short, long) = (sleeper(1), sleeper(10));
        clock.wait_for_sleepers(2).await;
        clock.advance(Duration::from_secs(1));
        short.await.unwrap();
        assert!(!long.is_finished());
        clock.advance(Duration::from_secs(9));
        long.await.unwrap();
        clock.sleep_until(clock.moment()).await;
    }

    #[tokio::test]
    async fn a_dropped_sleeper_is_not_counted() {
        let clock = Clock::manual(noon());
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::MAX).await }
        });
        clock.wait_for_sleepers(1).await;
        sleeper.abort();
        assert!(sleeper.await.unwrap_err().is_cancelled());
        assert_eq!(*clock.expect_manual().n_sleepers.borrow(), 0);
    }

    #[tokio::test]
    async fn the_system_clock_moves() {
        let clock = Clock::system();
        let before = clock.moment();
        clock.sleep(Duration::from_millis(2)).await;
        assert!(clock.moment().since(before) >= Duration::from_millis(2));
        assert!(clock.now() > noon());
    }
}
