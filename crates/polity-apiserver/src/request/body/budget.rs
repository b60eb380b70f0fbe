//! Bounds the bytes of request bodies that the server holds at the same time, over all clients.
//!
//! Every body is limited by itself, but many of them at once would still fill the memory. The start of each body and
//! the rest of it come out of separate budgets, so that small requests pass while large ones are refused. Bytes are
//! counted when they arrive: a client that announces a large body and sends nothing occupies nothing.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::heavy::LARGE_BYTES;
use polity_kinds::status::ApiError;

/// For the first [`LARGE_BYTES`] of every body: 256 requests of that size, and thousands of usual ones.
const START_BYTES: usize = 16 << 20;
/// The budget for the rest of bodies: 16 bodies of the maximum size. A decoded object takes several times the bytes of
/// its text.
const REST_BYTES: usize = 48 << 20;

/// The budget of all clusters of a process.
#[derive(Debug, Clone)]
pub struct BodyBudget {
    start: Arc<Semaphore>,
    rest: Arc<Semaphore>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self::new(START_BYTES, REST_BYTES)
    }
}

impl BodyBudget {
    /// A budget for the first `LARGE_BYTES` of all bodies, and one for the rest of them.
    pub fn new(start_bytes: usize, rest_bytes: usize) -> Self {
        Self {
            start: Arc::new(Semaphore::new(start_bytes)),
            rest: Arc::new(Semaphore::new(rest_bytes)),
        }
    }

    /// Adds bytes to the reservation of a request, or refuses the request when too much is in flight.
    pub(super) fn reserve(&self, held: &mut Reservation, n_bytes: usize) -> Result<(), ApiError> {
        let n_start = n_bytes.min(LARGE_BYTES.saturating_sub(held.n_bytes));
        take(&self.start, &mut held.start, n_start)?;
        take(&self.rest, &mut held.rest, n_bytes - n_start)?;
        held.n_bytes += n_bytes;
        Ok(())
    }
}

/// Does not wait: requests that wait for each other's bytes while they hold their own would never end.
fn take(
    budget: &Arc<Semaphore>,
    held: &mut Option<OwnedSemaphorePermit>,
    n_bytes: usize,
) -> Result<(), ApiError> {
    if n_bytes == 0 {
        return Ok(());
    }
    let n_bytes = u32::try_from(n_bytes).map_err(|_| ApiError::too_many_requests())?;
    let permit = Arc::clone(budget)
        .try_acquire_many_owned(n_bytes)
        .map_err(|_| ApiError::too_many_requests())?;
    match held {
        Some(held) => held.merge(permit),
        None => *held = Some(permit),
    }
    Ok(())
}

/// The bytes of one request; they return to the budget when it is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    start: Option<OwnedSemaphorePermit>,
    rest: Option<OwnedSemaphorePermit>,
    n_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_leave_space_for_small_ones() {
        let budget = BodyBudget::new(4 * LARGE_BYTES, LARGE_BYTES);
        let mut large = Reservation::default();
        budget.reserve(&mut large, 2 * LARGE_BYTES).unwrap();
        let mut second = Reservation::default();
        budget.reserve(&mut second, LARGE_BYTES).unwrap();
        let refused = budget.reserve(&mut second, 1).unwrap_err();
        assert_eq!(refused.code.as_u16(), 429);
        assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
        let mut small = Reservation::default();
        budget.reserve(&mut small, 1000).unwrap();
        drop(large);
        budget.reserve(&mut second, 1).unwrap();
    }

    #[test]
    fn many_small_bodies_are_bounded_too() {
        let budget = BodyBudget::new(10_000, LARGE_BYTES);
        let reserve = || {
            let mut held = Reservation::default();
            budget.reserve(&mut held, 1000).map(|()| held)
        };
        let held: Vec<_> = std::iter::from_fn(|| reserve().ok()).collect();
        assert_eq!(held.len(), 10);
        drop(held);
        assert!(reserve().is_ok());
    }
}
