//! Leader election over a Lease object, with client-go's rules.
//!
//! [`Elector`] is a pure state machine: the outcome of each request goes in, the next request comes out, and at any
//! moment it shows whether this candidate leads. [`Election`] is the thin shell around it.
//!
//! At most one candidate leads:
//!
//! - A leader counts its term from the moment it *sent* its last confirmed write, and only for the renew deadline.
//! - Other candidates wait a whole lease duration, which is longer, from the moment they *saw* the record change,
//!   which is later.
//! - Wall clocks do not matter, only that clocks run equally fast.
//! - Every write names the resource version that was read, so that of two candidates that take over concurrently one
//!   is refused.

use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::GetRandomFailed;

use crate::clock::Moment;

mod machine;
mod shell;
#[cfg(test)]
mod simulation;

pub use machine::Elector;
pub use shell::Election;

/// The timing of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long others wait, without seeing a change, before they take over.
    pub lease_duration: Duration,
    /// How long a leader leads after it sent its last confirmed renewal.
    pub renew_deadline: Duration,
    /// How long to wait between tries.
    pub retry_period: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Followers wait up to this much longer, in retry periods, so that they do not all send requests at the same time.
const JITTER_FACTOR: f64 = 1.2;

/// Why an election with this timing would not be safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    /// Others would take over before the leader has stepped down.
    #[error("the lease duration must be longer than the renew deadline")]
    LeaseTooShort,
    /// A leader would hardly have time for a second attempt.
    #[error("the renew deadline must be longer than {JITTER_FACTOR} retry periods")]
    DeadlineTooShort,
    /// A Lease counts whole seconds.
    #[error("the lease duration must be a whole number of seconds")]
    NotWholeSeconds,
    /// Requests would be sent without a pause.
    #[error("the retry period must not be zero")]
    NoRetryPeriod,
    /// An empty holder means that the lease is free.
    #[error("the identity must not be empty")]
    NoIdentity,
}

impl LeaseTiming {
    fn check(self) -> Result<Self, BadTiming> {
        if self.lease_duration <= self.renew_deadline {
            Err(BadTiming::LeaseTooShort)
        } else if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            Err(BadTiming::DeadlineTooShort)
        } else if self.lease_duration.subsec_nanos() != 0 {
            Err(BadTiming::NotWholeSeconds)
        } else if self.retry_period.is_zero() {
            Err(BadTiming::NoRetryPeriod)
        } else {
            Ok(self)
        }
    }

    /// When the record of a given age may be taken over.
    fn expiry(&self, record: &LeaseRecord, seen_at: Moment) -> Moment {
        // A holder that does not state its lease duration gets ours.
        seen_at + record.lease_duration.unwrap_or(self.lease_duration)
    }
}

/// The holder of a Lease and its times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The identity of the holder; empty when the lease was released.
    pub holder: String,
    /// How long the holder wants others to wait.
    pub lease_duration: Option<Duration>,
    /// When the holder took it, by the holder's clock.
    pub acquired: Option<Timestamp>,
    /// When the holder renewed it, by the holder's clock. Only ever compared for equality.
    pub renewed: Option<Timestamp>,
    /// How often it changed hands.
    pub transitions: u32,
}

/// A record as stored in the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub record: LeaseRecord,
    pub resource_version: String,
}

/// A unique identity: a readable name with a random suffix. Two candidates with the same identity would both take the
/// lease of either for their own.
pub fn unique_identity(name: &str) -> Result<String, GetRandomFailed> {
    let suffix = u128::from_be_bytes(crate::random::bytes()?);
    Ok(format!("{name}_{suffix:032x}"))
}

/// The next action of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Do nothing before this moment.
    Wait(Moment),
    Read,
    /// Create the Lease with this record.
    Create(LeaseRecord),
    /// Replace the record of the Lease, if it still has this version.
    Update {
        record: LeaseRecord,
        /// The version that it replaces.
        resource_version: String,
    },
    /// Nothing more: the lease was released, or was not ours to release.
    Finished,
}

/// The outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Found(Observed),
    Missing,
    /// The Lease was written. This is the result.
    Written(Observed),
    /// The write was refused: another candidate was faster.
    Refused,
    /// Unknown: an error or a timeout. A write may have happened, or may still happen.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// It leads until this moment at least; renewals extend it.
    Leading {
        /// The start of the term. A candidate that loses the lease and acquires it again begins a new term.
        since: Moment,
        /// The current end of the term.
        until: Moment,
    },
    Following {
        /// The identity of the leader, if one is known.
        leader: Option<String>,
    },
}

impl Leadership {
    /// Whether the candidate leads at a moment. To be checked right before each write that only a leader may make: a
    /// task that was not scheduled for a while may hold a value from before the end of its term.
    pub fn leads_at(&self, now: Moment) -> bool {
        matches!(self, Self::Leading { until, .. } if now < *until)
    }

    /// Whether both are moments of one term of this candidate.
    pub fn is_same_term(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Leading { since, .. }, Self::Leading { since: other, .. }) if since == other)
    }
}
