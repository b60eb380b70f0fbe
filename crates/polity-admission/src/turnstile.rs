//! Waits for a place in the fair queue, and gives it back.
//!
//! A request is evaluated on the thread that serves its connection: a switch to another thread and back would cost more than
//! a small guest. So a place is a permission to run, not a thread. An evaluation that ends hands its place to the next
//! request in the queue. A guest that runs for long keeps its thread, and another thread takes over the connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polity_eval::Deadline;
use polity_runtime::{Clock, Moment};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::fair::{Admitted, Entered, FairLimits, FairQueue, Full, Pace, Ticket};

/// Waiting requests look at the time of running evaluations at most this often.
const SHORTEST_CHECK: Duration = Duration::from_millis(1);

/// Why a request is not evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// Too many requests for this policy are waiting.
    PolicyQueue,
    /// Too many requests are waiting.
    Queue,
    /// Its deadline passed while it waited.
    Deadline,
    /// The bodies of running and waiting requests take too much memory.
    Memory,
}

impl Shed {
    /// The value of the metric label `reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::PolicyQueue => "policy_queue",
            Self::Queue => "queue",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
        }
    }

    /// The message for the caller.
    pub fn message(self) -> &'static str {
        match self {
            Self::PolicyQueue => "too many requests for this policy are waiting, retry later",
            Self::Queue => "too many requests are waiting, retry later",
            Self::Deadline => "no evaluation could start in time, retry later",
            Self::Memory => "too many large requests at once, retry later",
        }
    }
}

/// A handle to the queue. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Turnstile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    slow_after: Duration,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    queue: FairQueue<oneshot::Sender<Pass>>,
    /// The running evaluations that count as quick.
    quick: Vec<RunningQuick>,
    n_passes: u64,
}

#[derive(Debug)]
struct RunningQuick {
    pass: u64,
    policy: Arc<str>,
    since: Moment,
}

/// A permission to run an evaluation; dropping it gives the place to the next request.
#[derive(Debug)]
pub(crate) struct Pass {
    turnstile: Turnstile,
    id: u64,
    policy: Arc<str>,
    /// The pace at the start. An evaluation that overruns counts as slow later.
    pace: Pace,
    since: Moment,
}

impl State {
    /// Notes that an evaluation starts. Returns the id of its pass.
    fn start(&mut self, policy: &Arc<str>, pace: Pace, since: Moment) -> u64 {
        self.n_passes += 1;
        let pass = self.n_passes;
        if pace == Pace::Quick {
            self.quick.push(RunningQuick {
                pass,
                policy: policy.clone(),
                since,
            });
        }
        pass
    }

    /// Removes an evaluation from those that count as quick. Returns whether it was one of them.
    fn remove_quick(&mut self, pass: u64) -> bool {
        let at = self.quick.iter().position(|running| running.pass == pass);
        at.map(|at| self.quick.swap_remove(at)).is_some()
    }
}

impl Turnstile {
    pub(crate) fn new(limits: FairLimits, clock: Clock) -> Self {
        let state = State {
            queue: FairQueue::new(limits),
            quick: Vec::new(),
            n_passes: 0,
        };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            slow_after: limits.slow_after.max(SHORTEST_CHECK),
            clock,
        }))
    }

    /// Waits for a place, at most until the deadline.
    pub(crate) async fn enter(&self, policy: &Arc<str>, deadline: Deadline) -> Result<Pass, Shed> {
        let mut granted = None;
        let since = self.0.clock.moment();
        let (entered, id) = self.state(|state| {
            let entered = state.queue.enter(policy, || {
                let (grant, wait) = oneshot::channel();
                granted = Some(wait);
                grant
            });
            let id = match entered {
                Entered::Now(pace) => state.start(policy, pace, since),
                Entered::Wait(_) | Entered::Refused(_) => 0,
            };
            (entered, id)
        });
        match (entered, granted) {
            (Entered::Now(pace), _) => Ok(Pass {
                turnstile: self.clone(),
                id,
                policy: policy.clone(),
                pace,
                since,
            }),
            (Entered::Refused(Full::Policy), _) => Err(Shed::PolicyQueue),
            (Entered::Refused(Full::Everyone), _) => Err(Shed::Queue),
            (Entered::Wait(ticket), Some(granted)) => {
                self.wait(policy, ticket, granted, deadline).await
            }
            (Entered::Wait(_), None) => Err(Shed::Queue),
        }
    }

    async fn wait(
        &self,
        policy: &Arc<str>,
        ticket: Ticket,
        mut granted: oneshot::Receiver<Pass>,
        deadline: Deadline,
    ) -> Result<Pass, Shed> {
        // Leaves the queue also when the client disconnects and this future is dropped.
        let _waiting = Waiting {
            turnstile: self,
            policy,
            ticket,
        };
        let too_late = async {
            match deadline.remaining() {
                Some(left) => self.0.clock.sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let mut too_late = std::pin::pin!(too_late);
        loop {
            // Only requests that wait look at the time of those that run: an evaluation that does not hold up anyone
            // needs no timer.
            self.count_overruns();
            tokio::select! {
                biased;
                pass = &mut granted => return pass.map(Pass::starting_now).map_err(|_| Shed::Queue),
                () = &mut too_late => return Err(Shed::Deadline),
                () = self.0.clock.sleep(self.0.slow_after) => {}
            }
        }
    }

    /// Counts quick evaluations that have run for too long as slow, and starts the requests that get a place by that.
    fn count_overruns(&self) {
        let now = self.0.clock.moment();
        let slow_after = self.0.slow_after;
        let admitted = self.state(|state| {
            let is_over = |running: &mut RunningQuick| now.since(running.since) > slow_after;
            let overruns: Vec<_> = state.quick.extract_if(.., is_over).collect();
            let queue = &mut state.queue;
            let admitted = overruns.iter().flat_map(|run| queue.overrun(&run.policy));
            admitted.collect()
        });
        self.grant(admitted);
    }

    fn release(&self, pass: &Pass) {
        let took = self.0.clock.moment().since(pass.since);
        let admitted = self.state(|state| {
            let has_overrun = !state.remove_quick(pass.id) && pass.pace == Pace::Quick;
            let pace = if has_overrun {
                Pace::Overrun
            } else {
                pass.pace
            };
            state.queue.leave(&pass.policy, pace, took)
        });
        self.grant(admitted);
    }

    fn grant(&self, admitted: Vec<Admitted<oneshot::Sender<Pass>>>) {
        for Admitted {
            policy,
            pace,
            waiter,
        } in admitted
        {
            let since = self.0.clock.moment();
            let pass = Pass {
                id: self.state(|state| state.start(&policy, pace, since)),
                turnstile: self.clone(),
                policy,
                pace,
                since,
            };
            // If the waiter is gone, its pass is dropped and goes to the next one.
            drop(waiter.send(pass));
        }
    }

    fn state<T>(&self, edit: impl FnOnce(&mut State) -> T) -> T {
        // Nothing panics while it holds the lock; if it did, the queue would still be whole.
        edit(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pass {
    /// Runs an evaluation on this thread. For a slow policy the runtime first moves the other tasks of this thread to
    /// another one.
    pub(crate) fn run<T>(&self, evaluate: impl FnOnce() -> T) -> T {
        match self.pace {
            Pace::Quick => evaluate(),
            Pace::Slow | Pace::Overrun => off_the_worker(evaluate),
        }
    }

    /// Starts the measurement of the evaluation, which does not include the time in the queue.
    fn starting_now(mut self) -> Self {
        let since = self.turnstile.0.clock.moment();
        self.since = since;
        self.turnstile.state(|state| {
            let mut quick = state.quick.iter_mut();
            if let Some(running) = quick.find(|running| running.pass == self.id) {
                running.since = since;
            }
        });
        self
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.turnstile.release(self);
    }
}

/// A request in the queue; dropping it removes the request.
struct Waiting<'a> {
    turnstile: &'a Turnstile,
    policy: &'a Arc<str>,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let grant = self
            .turnstile
            .state(|state| state.queue.give_up(self.policy, self.ticket));
        drop(grant);
    }
}

/// How long another thread gets to take over the tasks of this one.
const TAKING_OVER: Duration = Duration::from_millis(1);

/// Gives the other tasks of this thread to another thread for good: the evaluation continues here and delays no other task.
/// If no thread takes over in time nothing has changed, and the call can be repeated.
pub(crate) fn leave_the_worker() {
    off_the_worker(|| std::thread::sleep(TAKING_OVER));
}

/// Runs a function that may block for long, without delaying the other tasks of this thread.
pub(crate) fn off_the_worker<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn turnstile(waiting: usize) -> (Clock, Turnstile) {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let limits = FairLimits {
            places: 1,
            waiting,
            waiting_per_policy: waiting,
            slow_after: Duration::from_millis(100),
        };
        (clock.clone(), Turnstile::new(limits, clock))
    }

    fn policy(name: &str) -> Arc<str> {
        name.into()
    }

    #[tokio::test]
    async fn a_place_goes_to_the_next_request() {
        let (_, turnstile) = turnstile(2);
        let first = turnstile
            .enter(&policy("a"), Deadline::NEVER)
            .await
            .unwrap();
        let waiting = tokio::spawn({
            let turnstile = turnstile.clone();
            async move { turnstile.enter(&policy("b"), Deadline::NEVER).await }
        });
        until(|| turnstile.state(|state| state.queue.waiting()) == 1).await;
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert_eq!(&*second.policy, "b");
        assert_eq!(turnstile.state(|state| state.queue.running()), 1);
        drop(second);
        assert_eq!(turnstile.state(|state| state.queue.running()), 0);
    }

    #[tokio::test]
    async fn a_request_that_does_not_fit_is_shed() {
        let (_, turnstile) = turnstile(0);
        let _first = turnstile
            .enter(&policy("a"), Deadline::NEVER)
            .await
            .unwrap();
        let refused = turnstile.enter(&policy("a"), Deadline::NEVER).await;
        assert_eq!(refused.unwrap_err(), Shed::Queue);
    }

    #[tokio::test]
    async fn waiting_ends_with_the_deadline() {
        let (clock, turnstile) = turnstile(1);
        let _first = turnstile
            .enter(&policy("a"), Deadline::NEVER)
            .await
            .unwrap();
        let waiting = tokio::spawn({
            let turnstile = turnstile.clone();
            async move { turnstile.enter(&policy("a"), Deadline::after(WAIT)).await }
        });
        clock.wait_for_sleepers(1).await;
        clock.advance(WAIT);
        assert_eq!(waiting.await.unwrap().unwrap_err(), Shed::Deadline);
        assert_eq!(turnstile.state(|state| state.queue.waiting()), 0);
    }

    #[tokio::test]
    async fn a_policy_that_stops_being_quick_does_not_hold_up_others() {
        let (clock, turnstile) = turnstile(2);
        let enter = |name: &'static str| {
            let turnstile = turnstile.clone();
            tokio::spawn(async move { turnstile.enter(&policy(name), Deadline::NEVER).await })
        };
        for name in ["noisy", "other"] {
            // Evaluated once, both are known to be quick.
            drop(enter(name).await.unwrap().unwrap());
        }
        let noisy = enter("noisy").await.unwrap().unwrap();
        assert_eq!(noisy.pace, Pace::Quick);
        let other = enter("other");
        clock.wait_for_sleepers(1).await;
        clock.advance(Duration::from_millis(101));
        let other = other.await.unwrap().unwrap();
        assert_eq!(turnstile.state(|state| state.queue.running()), 2);
        // The noisy policy does not get an extra place.
        let again = enter("noisy");
        until(|| turnstile.state(|state| state.queue.waiting()) == 1).await;
        drop(other);
        assert_eq!(turnstile.state(|state| state.queue.waiting()), 1);
        drop(noisy);
        let again = again.await.unwrap().unwrap();
        assert_eq!(again.pace, Pace::Slow);
        drop(again);
        assert_eq!(turnstile.state(|state| state.queue.running()), 0);
    }

    #[tokio::test]
    async fn a_dropped_request_leaves_the_queue() {
        let (_, turnstile) = turnstile(2);
        let first = turnstile
            .enter(&policy("a"), Deadline::NEVER)
            .await
            .unwrap();
        let enter = |name: &'static str| {
            let turnstile = turnstile.clone();
            tokio::spawn(async move { turnstile.enter(&policy(name), Deadline::NEVER).await })
        };
        let gone = enter("b");
        until(|| turnstile.state(|state| state.queue.waiting()) == 1).await;
        let stays = enter("c");
        until(|| turnstile.state(|state| state.queue.waiting()) == 2).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        assert_eq!(turnstile.state(|state| state.queue.waiting()), 1);
        drop(first);
        assert_eq!(&*stays.await.unwrap().unwrap().policy, "c");
    }

    #[tokio::test]
    async fn a_grant_to_a_dropped_request_goes_to_the_next() {
        let (_, turnstile) = turnstile(2);
        let first = turnstile
            .enter(&policy("a"), Deadline::NEVER)
            .await
            .unwrap();
        let (b, c) = (policy("b"), policy("c"));
        let mut gone = Box::pin(turnstile.enter(&b, Deadline::NEVER));
        assert!(futures::poll!(gone.as_mut()).is_pending());
        let mut stays = Box::pin(turnstile.enter(&c, Deadline::NEVER));
        assert!(futures::poll!(stays.as_mut()).is_pending());
        // Granted to the first of them, which is dropped before it is polled.
        drop(first);
        drop(gone);
        assert_eq!(&*stays.await.unwrap().policy, "c");
    }

    async fn until(mut holds: impl FnMut() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }
}
