//! Reads request bodies, with a limit for each and for all of them together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use polity_runtime::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How many bytes a unit of the budget is.
const UNIT: usize = 1 << 10;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("too many large requests at once")]
    NoRoom,
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error("the body did not arrive: {0}")]
    Broken(BoxError),
}

/// Limits how many bytes of bodies are in memory. Clones share the budget.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    limit: usize,
    left: Arc<Semaphore>,
}

/// A body and its part of the budget.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _part: OwnedSemaphorePermit,
}

impl BodyBudget {
    /// A budget of `limit` bytes for each body and `total` bytes for all.
    pub(crate) fn new(limit: usize, total: usize) -> Self {
        let units = (total.max(limit) / UNIT + 1).min(Semaphore::MAX_PERMITS);
        Self {
            limit,
            left: Arc::new(Semaphore::new(units)),
        }
    }

    /// Reads a body to its end.
    pub(crate) async fn read<B>(
        &self,
        body: B,
        clock: &Clock,
        patience: Duration,
    ) -> Result<Received, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let limit = self.limit;
        // A body without a length may become as large as the limit.
        let expected = body.size_hint().exact().map_or(limit, |length| {
            usize::try_from(length).unwrap_or(usize::MAX)
        });
        if expected > limit {
            return Err(BodyError::TooLarge { limit });
        }
        let units = u32::try_from(expected / UNIT + 1).unwrap_or(u32::MAX);
        let part = self
            .left
            .clone()
            .try_acquire_many_owned(units)
            .map_err(|_| BodyError::NoRoom)?;
        let collected = tokio::select! {
            biased;
            collected = Limited::new(body, limit).collect() => collected,
            () = clock.sleep(patience) => return Err(BodyError::TooSlow),
        };
        match collected {
            Ok(collected) => Ok(Received {
                bytes: collected.to_bytes(),
                _part: part,
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { limit }),
            Err(error) => Err(BodyError::Broken(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use jiff::Timestamp;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn clock() -> Clock {
        Clock::manual(Timestamp::UNIX_EPOCH)
    }

    fn pieces(pieces: &[&'static str]) -> impl Body<Data = Bytes, Error = std::io::Error> {
        let frames: Vec<_> = pieces
            .iter()
            .map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))))
            .collect();
        StreamBody::new(stream::iter(frames))
    }

    #[tokio::test]
    async fn bodies_are_bounded_one_by_one() {
        let budget = BodyBudget::new(5, 1 << 20);
        for (text, fits) in [("12345", true), ("123456", false), ("", true)] {
            let read = budget.read(Full::from(text), &clock(), PATIENCE).await;
            assert_eq!(read.is_ok(), fits, "{text}");
        }
        let read = budget
            .read(pieces(&["123", "45"]), &clock(), PATIENCE)
            .await;
        assert_eq!(read.unwrap().bytes, "12345");
        let read = budget
            .read(pieces(&["123", "456"]), &clock(), PATIENCE)
            .await;
        assert!(matches!(read, Err(BodyError::TooLarge { limit: 5 })));
    }

    #[tokio::test]
    async fn bodies_are_bounded_together() {
        let budget = BodyBudget::new(2 * UNIT, 4 * UNIT);
        let read = async |length: usize| {
            let body = Full::from(vec![b' '; length]);
            budget.read(body, &clock(), PATIENCE).await
        };
        let first = read(2 * UNIT).await.unwrap();
        let _second = read(UNIT).await.unwrap();
        assert!(matches!(read(UNIT).await, Err(BodyError::NoRoom)));
        drop(first);
        assert!(read(UNIT).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let clock = clock();
        let budget = BodyBudget::new(5, 5);
        let silent = StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        let reading = tokio::spawn({
            let clock = clock.clone();
            async move { budget.read(silent, &clock, PATIENCE).await.map(|_| ()) }
        });
        clock.wait_for_sleepers(1).await;
        clock.advance(PATIENCE);
        assert!(matches!(reading.await.unwrap(), Err(BodyError::TooSlow)));
    }
}
