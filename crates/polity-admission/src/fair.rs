//! Who is evaluated next: a bounded number at once, policies in turn, nobody starved.
//!
//! Each policy has a lane. As long as there is room an evaluation starts at once; after that it waits
//! in its policy's lane, first come first served, and lanes take turns. Lanes and all of them together
//! are bounded: what does not fit is turned away at once, while there is still time to ask again.
//!
//! Turns alone do not help against a policy whose every evaluation takes seconds: it could hold every
//! place while the others wait for their turn. So a policy is *slow* when its last evaluation was, or when
//! nothing is known about it yet, and slow policies together never hold the last place.
//!
//! This is a value: who waits is whatever the caller hands in, and time comes in as durations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How much may go on, and how much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairLimits {
    /// Evaluations at once.
    pub places: usize,
    /// Requests that wait, of all policies.
    pub waiting: usize,
    /// Requests that wait, of one policy.
    pub waiting_per_policy: usize,
    /// An evaluation that takes longer than this makes its policy a slow one.
    pub slow_after: Duration,
}

/// Whether a policy may take the last place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It may.
    Quick,
    /// Its last evaluation took long, or there was none: it may not.
    Slow,
}

/// So many policies are remembered that nobody waits for; more than that are strangers again.
const REMEMBERED: usize = 4096;

/// Why somebody was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Too many of this policy wait.
    Policy,
    /// Too many of all policies wait.
    Everyone,
}

/// What happens to somebody who comes in.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    /// Go ahead, and [leave](FairQueue::leave) with the same pace.
    Now(Pace),
    /// Wait until [`FairQueue::leave`] hands the waiter back, or [give up](FairQueue::give_up).
    Wait(Ticket),
    /// There is no room.
    Refused(Full),
}

/// Somebody who may start now.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted<W> {
    /// The policy whose turn it is.
    pub policy: Arc<str>,
    /// To leave with.
    pub pace: Pace,
    /// What was handed in.
    pub waiter: W,
}

/// A place in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The queue. `W` stands for whoever waits.
#[derive(Debug)]
pub struct FairQueue<W> {
    limits: FairLimits,
    running: usize,
    running_slow: usize,
    n_waiting: usize,
    next_ticket: u64,
    lanes: HashMap<Arc<str>, Lane<W>>,
    /// The policies with somebody waiting; the first one's turn is next.
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
    /// A queue with nobody in it. There is always at least one place.
    pub fn new(limits: FairLimits) -> Self {
        Self {
            limits: FairLimits {
                places: limits.places.max(1),
                ..limits
            },
            running: 0,
            running_slow: 0,
            n_waiting: 0,
            next_ticket: 0,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Somebody wants to evaluate a policy. `waiter` is asked for only when they must wait.
    pub fn enter(&mut self, policy: &Arc<str>, waiter: impl FnOnce() -> W) -> Entered {
        let (pace, n_before) = match self.lanes.get(policy) {
            Some(lane) => (lane.pace, lane.waiting.len()),
            None => (Pace::Slow, 0),
        };
        // Nobody who may start is waiting while there is a place: only one's own lane matters.
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

    /// An evaluation is over. Answers who may start now; each of them has a place already.
    pub fn leave(&mut self, policy: &Arc<str>, pace: Pace, took: Duration) -> Vec<Admitted<W>> {
        self.running -= 1;
        if pace == Pace::Slow {
            self.running_slow -= 1;
        }
        self.remember(policy, took);
        let mut admitted = Vec::new();
        while let Some(next) = self.next() {
            admitted.push(next);
        }
        admitted
    }

    /// Somebody does not want to wait any more. Whoever was admitted meanwhile is not found here: they
    /// have a place and must leave.
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

    /// How many evaluations go on.
    pub fn running(&self) -> usize {
        self.running
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.n_waiting
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
        let slow_places = (self.limits.places - 1).max(1);
        self.running < self.limits.places
            && (pace == Pace::Quick || self.running_slow < slow_places)
    }

    fn start(&mut self, pace: Pace) {
        self.running += 1;
        if pace == Pace::Slow {
            self.running_slow += 1;
        }
    }

    fn remember(&mut self, policy: &Arc<str>, took: Duration) {
        let pace = match took > self.limits.slow_after {
            true => Pace::Slow,
            false => Pace::Quick,
        };
        if let Some(lane) = self.lanes.get_mut(policy) {
            lane.pace = pace;
            return;
        }
        // Policies come and go; those that are gone must not stay here for ever.
        if self.lanes.len() >= REMEMBERED {
            self.lanes.retain(|_, lane| !lane.waiting.is_empty());
        }
        self.lanes.entry(policy.clone()).or_default().pace = pace;
    }
}

#[cfg(test)]
mod tests;
