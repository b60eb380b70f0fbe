//! The election as a pure state machine.

use jiff::Timestamp;

use super::{
    Action, BadTiming, JITTER_FACTOR, Leadership, LeaseRecord, LeaseTiming, Observed, Outcome,
};
use crate::clock::Moment;

/// One candidate's view of an election.
#[derive(Debug, Clone)]
pub struct Elector {
    identity: String,
    timing: LeaseTiming,
    /// The last record that was read, and when it was first read with this content.
    seen: Option<Seen>,
    /// Our term, if we lead or led last.
    term: Option<LeaseTerm>,
    stage: Stage,
    is_releasing: bool,
}

#[derive(Debug, Clone, Copy)]
struct LeaseTerm {
    since: Moment,
    until: Moment,
}

#[derive(Debug, Clone)]
struct Seen {
    record: LeaseRecord,
    resource_version: String,
    since: Moment,
}

/// The state of an attempt. A follower reads, and writes when the lease is free. A leader writes with the version it
/// knows, and reads only when that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Resting { until: Moment },
    Looking,
    Creating,
    Updating,
    Finished,
}

impl Elector {
    /// A candidate that has not read the lease yet. Its identity must be unique, see
    /// [`unique_identity`](super::unique_identity).
    pub fn new(identity: impl Into<String>, timing: LeaseTiming) -> Result<Self, BadTiming> {
        let identity = identity.into();
        if identity.is_empty() {
            return Err(BadTiming::NoIdentity);
        }
        Ok(Self {
            identity,
            timing: timing.check()?,
            seen: None,
            term: None,
            stage: Stage::Looking,
            is_releasing: false,
        })
    }

    pub fn timing(&self) -> LeaseTiming {
        self.timing
    }

    /// Whether it leads at a moment.
    pub fn leadership(&self, now: Moment) -> Leadership {
        match self.term {
            Some(LeaseTerm { since, until }) if now < until => Leadership::Leading { since, until },
            _ => {
                let holder = self.seen.as_ref().map(|seen| seen.record.holder.clone());
                Leadership::Following {
                    leader: holder.filter(|holder| !holder.is_empty() && *holder != self.identity),
                }
            }
        }
    }

    /// The next action. `wall` is only written into the record for display.
    pub fn next(&self, now: Moment, wall: Timestamp) -> Action {
        match self.stage {
            Stage::Finished => Action::Finished,
            Stage::Resting { until } if now < until => Action::Wait(until),
            Stage::Resting { .. } if self.is_leading(now) => self.update(wall),
            Stage::Resting { .. } | Stage::Looking => Action::Read,
            Stage::Creating => Action::Create(self.successor(wall)),
            Stage::Updating => self.update(wall),
        }
    }

    /// Processes the outcome of the last action, which was requested at `asked_at`. `jitter` is a random number from 0
    /// to 1.
    pub fn observe(&mut self, outcome: Outcome, asked_at: Moment, now: Moment, jitter: f64) {
        self.stage = match outcome {
            Outcome::Found(observed) => self.found(observed, now, jitter),
            Outcome::Missing => self.missing(now, jitter),
            Outcome::Written(observed) => self.written(observed, asked_at, now, jitter),
            Outcome::Refused | Outcome::Failed => self.not_written(now, jitter),
        };
    }

    /// Stops leading immediately, and releases the lease in the following steps. Call it when all work that only a
    /// leader may do has ended.
    pub fn release(&mut self) {
        // A write that was under way when we were stopped may have happened.
        let is_writing = matches!(self.stage, Stage::Creating | Stage::Updating);
        let is_ours = (self.seen.as_ref()).is_some_and(|seen| seen.record.holder == self.identity);
        self.term = None;
        self.is_releasing = true;
        self.stage = if is_ours || is_writing {
            Stage::Looking
        } else {
            Stage::Finished
        };
    }

    fn found(&mut self, observed: Observed, now: Moment, jitter: f64) -> Stage {
        self.note(observed, now);
        let seen = self.seen.as_ref().expect("it was just noted");
        let is_ours = seen.record.holder == self.identity;
        if !is_ours {
            // Another candidate took the lease although our term was not over: by hand, or with other rules.
            self.term = None;
        }
        if self.is_releasing {
            return if is_ours {
                Stage::Updating
            } else {
                Stage::Finished
            };
        }
        let is_free =
            seen.record.holder.is_empty() || now >= self.timing.expiry(&seen.record, seen.since);
        if is_ours || is_free {
            Stage::Updating
        } else {
            self.rest(now, jitter)
        }
    }

    /// The Lease was deleted. The last record still counts, because its holder may not have noticed yet. For the same
    /// reason our own term ends here: a new candidate has not seen our record.
    fn missing(&mut self, now: Moment, jitter: f64) -> Stage {
        self.term = None;
        if self.is_releasing {
            return Stage::Finished;
        }
        let is_held = self.seen.as_ref().is_some_and(|seen| {
            let holder = &seen.record.holder;
            !holder.is_empty()
                && *holder != self.identity
                && now < self.timing.expiry(&seen.record, seen.since)
        });
        if is_held {
            self.rest(now, jitter)
        } else {
            Stage::Creating
        }
    }

    fn written(&mut self, observed: Observed, asked_at: Moment, now: Moment, jitter: f64) -> Stage {
        let is_ours = observed.record.holder == self.identity;
        self.note(observed, now);
        if self.is_releasing {
            return Stage::Finished;
        }
        if !is_ours {
            // A successful response with the record of another holder is not a success.
            self.term = None;
            return self.rest(now, jitter);
        }
        // A write after the end of the last term begins a new one, although the record names us all the time.
        let since = (self.term.filter(|term| now < term.until)).map_or(now, |term| term.since);
        self.term = Some(LeaseTerm {
            since,
            until: asked_at + self.timing.renew_deadline,
        });
        // Counted from the request, so that slow responses do not extend the deadline.
        Stage::Resting {
            until: asked_at + self.timing.retry_period,
        }
    }

    /// A leader that wrote with the version it knew reads immediately. An attempt that has read already ends here.
    fn not_written(&self, now: Moment, jitter: f64) -> Stage {
        match self.stage {
            Stage::Resting { .. } if self.is_leading(now) => Stage::Looking,
            Stage::Finished => Stage::Finished,
            Stage::Resting { .. } | Stage::Looking | Stage::Creating | Stage::Updating => {
                self.rest(now, jitter)
            }
        }
    }

    /// Leaders and named holders retry after the retry period, followers a little later.
    fn rest(&self, now: Moment, jitter: f64) -> Stage {
        let is_hurried = self.term.is_some() || self.is_releasing;
        let factor = if is_hurried {
            1.0
        } else {
            1.0 + JITTER_FACTOR * jitter.clamp(0.0, 1.0)
        };
        Stage::Resting {
            until: now + self.timing.retry_period.mul_f64(factor),
        }
    }

    fn note(&mut self, observed: Observed, now: Moment) {
        let Observed {
            record,
            resource_version,
        } = observed;
        let since = match &self.seen {
            Some(seen) if seen.record == record => seen.since,
            _ => now,
        };
        self.seen = Some(Seen {
            record,
            resource_version,
            since,
        });
    }

    fn is_leading(&self, now: Moment) -> bool {
        self.term.is_some_and(|term| now < term.until)
    }

    fn update(&self, wall: Timestamp) -> Action {
        let Some(seen) = &self.seen else {
            return Action::Read;
        };
        let record = if self.is_releasing {
            released(&seen.record, wall)
        } else {
            self.successor(wall)
        };
        Action::Update {
            record,
            resource_version: seen.resource_version.clone(),
        }
    }

    /// The record we would write after the one we saw.
    fn successor(&self, wall: Timestamp) -> LeaseRecord {
        let (acquired, transitions) = match self.seen.as_ref().map(|seen| &seen.record) {
            None => (None, 0),
            Some(last) if last.holder == self.identity => (last.acquired, last.transitions),
            Some(last) => (None, last.transitions.saturating_add(1)),
        };
        LeaseRecord {
            holder: self.identity.clone(),
            lease_duration: Some(self.timing.lease_duration),
            acquired: acquired.or(Some(wall)),
            renewed: Some(wall),
            transitions,
        }
    }
}

/// A record without a holder, which any candidate may take immediately. A Lease must have a duration, so the record
/// has the shortest.
fn released(last: &LeaseRecord, wall: Timestamp) -> LeaseRecord {
    LeaseRecord {
        holder: String::new(),
        lease_duration: Some(std::time::Duration::from_secs(1)),
        acquired: Some(wall),
        renewed: Some(wall),
        transitions: last.transitions,
    }
}

#[cfg(test)]
mod tests;
