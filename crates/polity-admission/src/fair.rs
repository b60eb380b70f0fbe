//! Decides which request is evaluated next: a bounded number at once, policies in turn, no policy starved.
//!
//! Each policy has a lane. An evaluation starts at once while a place is free. After that requests wait in the lane of their
//! policy, first come first served, and lanes take turns. Each lane and all lanes together are bounded: a request that does
//! not fit is refused at once, while its caller still has time to retry.
//!
//! Turns alone do not help against a policy whose every evaluation takes seconds: it could hold every place while the others
//! wait for their turn. So a policy is *slow* if its last evaluation was, or if it has not been evaluated yet, and slow
//! policies together never hold the last place. A policy that was quick can become slow on every place at the same time:
//! an evaluation that [overruns](FairQueue::overrun) counts as slow from then on, and quick policies get an extra place.
//!
//! The queue is a value: the caller chooses what represents a waiting request, and time comes in as durations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The limits of a [`FairQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairLimits {
    /// How many evaluations run at once.
    pub places: usize,
    /// How many requests of all policies may wait.
    pub waiting: usize,
    /// How many requests of one policy may wait.
    pub waiting_per_policy: usize,
    /// An evaluation that takes longer than this makes its policy a slow one.
    pub slow_after: Duration,
}

/// Whether a policy may use the last free place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Its last evaluation was short: it may.
    Quick,
    /// Its last evaluation took long, or there was none: it may not.
    Slow,
    /// It was quick when the evaluation started, and the evaluation takes long. Only for [`FairQueue::leave`].
    Overrun,
}

/// How many policies without waiting requests are remembered. When there are more, all of them are forgotten.
const REMEMBERED: usize = 4096;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Too many requests for this policy are waiting.
    Policy,
    /// Too many requests are waiting.
    Everyone,
}

/// What happens to a new request.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    /// It starts now, and [leaves](FairQueue::leave) with the same pace.
    Now(Pace),
    /// It waits until [`FairQueue::leave`] returns its waiter, or until it [gives up](FairQueue::give_up).
    Wait(Ticket),
    /// It is refused.
    Refused(Full),
}

/// A waiting request that starts now.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted<W> {
    /// The policy whose turn it is.
    pub policy: Arc<str>,
    /// The pace to [leave](FairQueue::leave) with.
    pub pace: Pace,
    /// What the caller of [`FairQueue::enter`] provided.
    pub waiter: W,
}

/// Identifies a waiting request in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The queue. `W` represents a waiting request.
#[derive(Debug)]
pub struct FairQueue<W> {
    limits: FairLimits,
    running: usize,
    running_slow: usize,
    running_overrun: usize,
    n_waiting: usize,
    next_ticket: u64,
    lanes: HashMap<Arc<str>, Lane<W>>,
    /// The policies with waiting requests; the first one has the next turn.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct Lane<W> {
    waiting: VecDeque<(Ticket, W)>,
    pace: Pace,
}

impl<W> Default for Lane<W> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            pace: Pace::Slow,
        }
    }
}

impl<W> FairQueue<W> {
    /// An empty queue. It has at least one place, whatever the limits say.
    pub fn new(limits: FairLimits) -> Self {
        Self {
            limits: FairLimits {
                places: limits.places.max(1),
                ..limits
            },
            running: 0,
            running_slow: 0,
            running_overrun: 0,
            n_waiting: 0,
            next_ticket: 0,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Adds a request for a policy. `waiter` is called only if the request must wait.
    pub fn enter(&mut self, policy: &Arc<str>, waiter: impl FnOnce() -> W) -> Entered {
        let (pace, n_before) = match self.lanes.get(policy) {
            Some(lane) => (lane.pace, lane.waiting.len()),
            None => (Pace::Slow, 0),
        };
        // No request that may start is waiting while a place is free: only the policy's own lane matters.
        if n_before == 0 && self.has_place(pace) {
            self.start(pace);
            return Entered::Now(pace);
        }
        if self.n_waiting >= self.limits.waiting {
            return Entered::Refused(Full::Everyone);
        }
        if n_before >= self.limits.waiting_per_policy {
            return Entered::Refused(Full::Policy);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.n_waiting += 1;
        let lane = self.lanes.entry(policy.clone()).or_default();
        lane.waiting.push_back((ticket, waiter()));
        if n_before == 0 {
            self.turns.push_back(policy.clone());
        }
        Entered::Wait(ticket)
    }

    /// Ends an evaluation. Returns the requests that start now; each of them has a place already.
    pub fn leave(&mut self, policy: &Arc<str>, pace: Pace, took: Duration) -> Vec<Admitted<W>> {
        self.running -= 1;
        match pace {
            Pace::Quick => {}
            Pace::Slow => self.running_slow -= 1,
            Pace::Overrun => self.running_overrun -= 1,
        }
        let pace = match took > self.limits.slow_after {
            true => Pace::Slow,
            false => Pace::Quick,
        };
        self.set_pace(policy, pace);
        self.admit()
    }

    /// Counts a running evaluation that started as [`Pace::Quick`] as slow, because it has taken longer than
    /// [`FairLimits::slow_after`]. It leaves as [`Pace::Overrun`]. Returns the requests that start now.
    pub fn overrun(&mut self, policy: &Arc<str>) -> Vec<Admitted<W>> {
        self.running_overrun += 1;
        self.set_pace(policy, Pace::Slow);
        self.admit()
    }

    /// Removes a waiting request. A request that was admitted meanwhile is not found: it has a place and must leave.
    pub fn give_up(&mut self, policy: &Arc<str>, ticket: Ticket) -> Option<W> {
        let lane = self.lanes.get_mut(policy)?;
        let at = lane
            .waiting
            .binary_search_by_key(&ticket, |(ticket, _)| *ticket)
            .ok()?;
        let (_, waiter) = lane.waiting.remove(at)?;
        self.n_waiting -= 1;
        if lane.waiting.is_empty() {
            self.turns.retain(|turn| turn != policy);
        }
        Some(waiter)
    }

    /// The number of running evaluations.
    pub fn running(&self) -> usize {
        self.running
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.n_waiting
    }

    fn admit(&mut self) -> Vec<Admitted<W>> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Takes the first lane that may start, in turn, and puts it last.
    fn next(&mut self) -> Option<Admitted<W>> {
        let at = self.turns.iter().position(|policy| {
            let pace = self.lanes.get(policy).map_or(Pace::Slow, |lane| lane.pace);
            self.has_place(pace)
        })?;
        let policy = self.turns.remove(at)?;
        let lane = self.lanes.get_mut(&policy)?;
        let (_, waiter) = lane.waiting.pop_front()?;
        let (pace, is_empty) = (lane.pace, lane.waiting.is_empty());
        self.n_waiting -= 1;
        if !is_empty {
            self.turns.push_back(policy.clone());
        }
        self.start(pace);
        Some(Admitted {
            policy,
            pace,
            waiter,
        })
    }

    fn has_place(&self, pace: Pace) -> bool {
        // With a single place there is none to keep free.
        let places = self.limits.places;
        let slow_places = (places - 1).max(1);
        let n_slow = self.running_slow + self.running_overrun;
        match pace {
            Pace::Slow | Pace::Overrun => self.running < places && n_slow < slow_places,
            // Evaluations that overran hold places until they end. One quick evaluation may run beside them; the bound
            // limits what several policies that overrun one after the other can take.
            Pace::Quick => {
                let is_extra = self.running_overrun > 0 && self.running == n_slow;
                self.running < places || (is_extra && self.running < 2 * places)
            }
        }
    }

    fn start(&mut self, pace: Pace) {
        self.running += 1;
        if pace == Pace::Slow {
            self.running_slow += 1;
        }
    }

    fn set_pace(&mut self, policy: &Arc<str>, pace: Pace) {
        if let Some(lane) = self.lanes.get_mut(policy) {
            lane.pace = pace;
            return;
        }
        // Deleted policies must not stay here for ever.
        if self.lanes.len() >= REMEMBERED {
            self.lanes.retain(|_, lane| !lane.waiting.is_empty());
        }
        self.lanes.entry(policy.clone()).or_default().pace = pace;
    }
}

#[cfg(test)]
mod tests;
