//! How long a Pod that ended stays down: not at all the first time, then ten seconds, twice that each time up to
//! five minutes, and from the beginning again once it has run for ten minutes.

use std::time::Duration;

use jiff::Timestamp;

use super::later;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(5);
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// The memory of the restarts of one Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff {
    /// How long the next pause is, and when that was decided.
    last: Option<(Duration, Timestamp)>,
}

impl Backoff {
    /// When one that ended now comes back.
    pub fn after(&self, ended: Timestamp) -> Timestamp {
        match self.remembered(ended) {
            Some(pause) => later(ended, pause),
            None => ended,
        }
    }

    /// One that ended then comes back now: the next time takes longer.
    pub fn restarted(&mut self, ended: Timestamp, now: Timestamp) {
        let pause = match self.remembered(ended) {
            Some(pause) => pause.saturating_mul(2).min(LONGEST),
            None => FIRST,
        };
        self.last = Some((pause, now));
    }

    /// The pause before a start that waits for it, for the message.
    pub fn pause(&self) -> Option<Duration> {
        self.last.map(|(pause, _)| pause)
    }

    fn remembered(&self, now: Timestamp) -> Option<Duration> {
        let (pause, since) = self.last?;
        (now <= later(since, FORGOTTEN_AFTER)).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    /// The pauses of a Pod that runs for `alive` seconds each time.
    fn pauses(alive: i64, n: usize) -> Vec<i64> {
        let mut backoff = Backoff::default();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..n {
            now += alive;
            let (ended, back) = (at(now), backoff.after(at(now)));
            pauses.push(back.as_second() - ended.as_second());
            now = back.as_second() - at(0).as_second();
            backoff.restarted(ended, back);
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_five_minutes_and_are_forgotten_after_ten() {
        assert_eq!(pauses(1, 8), [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pauses(601, 4), [0, 0, 0, 0]);
        assert_eq!(pauses(599, 4), [0, 10, 20, 40]);
    }
}
