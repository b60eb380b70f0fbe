//! Many candidates on an unreliable API server, in simulated time: there are never two leaders, and there is one again
//! when the faults end.
//!
//! Requests and responses are delayed, requests fail, responses are lost after a write, reads may be stale, candidates
//! are partitioned for a while, wall clocks disagree, processes crash and restart.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Action, Elector, LeaseRecord, LeaseTiming, Observed, Outcome};
use crate::clock::Moment;

/// The probability of faults, in percent.
#[derive(Debug, Clone, Copy)]
struct Faults {
    failing: u64,
    losing_answers: u64,
    stale_reads: u64,
    slow: u64,
    cutting_off: u64,
    dying: u64,
}

const NO_FAULTS: Faults = Faults {
    failing: 0,
    losing_answers: 0,
    stale_reads: 0,
    slow: 0,
    cutting_off: 0,
    dying: 0,
};

/// A small reproducible source of chance (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Milliseconds of simulated time.
type Millis = u64;

fn at(now: Millis) -> Moment {
    Moment::START + Duration::from_millis(now)
}

/// The next event of a candidate. The life number distinguishes restarts of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Requests the next action from the state machine.
    Think,
    /// Its question reaches the server.
    Arrive { question: usize },
    /// A response or a timeout reaches the candidate.
    Hear { question: usize, is_timeout: bool },
    /// The candidate crashes and restarts with a new name.
    Die,
}

/// A scheduled event. Events of the same moment are ordered by their creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    when: Millis,
    number: u64,
    index: usize,
    life: u64,
    event: Event,
}

struct Candidate {
    elector: Elector,
    life: u64,
    /// How far its wall clock is off, in seconds.
    skew: u64,
    /// Until when none of its questions get through.
    cut_off_until: Millis,
    pending: Option<usize>,
}

struct Question {
    action: Action,
    asked_at: Millis,
    outcome: Outcome,
}

struct Simulation {
    chance: Chance,
    faults: Faults,
    now: Millis,
    agenda: BinaryHeap<Reverse<Planned>>,
    n_planned: u64,
    candidates: Vec<Candidate>,
    questions: Vec<Question>,
    /// All versions of the Lease, the current one last.
    lease: VecDeque<Observed>,
}

impl Simulation {
    fn new(seed: u64, n_candidates: usize, faults: Faults) -> Self {
        let mut simulation = Self {
            chance: Chance(seed),
            faults,
            now: 0,
            agenda: BinaryHeap::new(),
            n_planned: 0,
            candidates: Vec::new(),
            questions: Vec::new(),
            lease: VecDeque::new(),
        };
        for index in 0..n_candidates {
            let skew = simulation.chance.below(100_000);
            simulation.candidates.push(Candidate {
                elector: elector(index, 0),
                life: 0,
                skew,
                cut_off_until: 0,
                pending: None,
            });
            let start = simulation.chance.below(5_000);
            simulation.plan(start, index, Event::Think);
        }
        simulation
    }

    fn plan(&mut self, when: Millis, index: usize, event: Event) {
        self.n_planned += 1;
        self.agenda.push(Reverse(Planned {
            when,
            number: self.n_planned,
            index,
            life: self.candidates[index].life,
            event,
        }));
    }

    /// Advances time. Fails when two candidates lead at the same time.
    fn run_until(&mut self, end: Millis) -> Result<(), TestCaseError> {
        while let Some(next) = self.next_before(end) {
            let Planned {
                when,
                index,
                life,
                event,
                ..
            } = next;
            self.now = when;
            match event {
                // The server also processes requests of candidates that have crashed.
                Event::Arrive { question } => self.arrive(question),
                _ if life != self.candidates[index].life => {}
                Event::Think => self.think(index),
                Event::Hear {
                    question,
                    is_timeout,
                } => self.hear(index, question, is_timeout),
                Event::Die => self.die(index),
            }
            // Terms only begin at events, so it is enough to look there.
            let leaders = self.leaders();
            prop_assert!(
                leaders.len() <= 1,
                "at {} ms all of {leaders:?} lead",
                self.now
            );
        }
        self.now = end;
        Ok(())
    }

    fn next_before(&mut self, end: Millis) -> Option<Planned> {
        let is_due = self
            .agenda
            .peek()
            .is_some_and(|Reverse(next)| next.when <= end);
        is_due
            .then(|| self.agenda.pop())
            .flatten()
            .map(|Reverse(next)| next)
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |index: &usize| {
            let leadership = self.candidates[*index].elector.leadership(at(self.now));
            leadership.leads_at(at(self.now))
        };
        (0..self.candidates.len()).filter(leads).collect()
    }

    fn think(&mut self, index: usize) {
        if self.chance.percent(self.faults.dying) {
            let when = self.now + self.chance.below(3_000);
            self.plan(when, index, Event::Die);
        }
        if self.chance.percent(self.faults.cutting_off) {
            self.candidates[index].cut_off_until = self.now + self.chance.below(60_000);
        }
        let candidate = &self.candidates[index];
        let wall = Timestamp::from_second((self.now / 1000 + candidate.skew) as i64).unwrap();
        let action = match candidate.elector.next(at(self.now), wall) {
            Action::Wait(until) => {
                let wait = until.since(at(self.now)).as_micros().div_ceil(1000) as Millis;
                return self.plan(self.now + wait, index, Event::Think);
            }
            action => action,
        };
        let question = self.questions.len();
        self.questions.push(Question {
            action,
            asked_at: self.now,
            outcome: Outcome::Failed,
        });
        self.candidates[index].pending = Some(question);

        let patience = LeaseTiming::default().renew_deadline.as_millis() as Millis / 2;
        self.plan(
            self.now + patience,
            index,
            Event::Hear {
                question,
                is_timeout: true,
            },
        );
        if self.now < self.candidates[index].cut_off_until {
            return;
        }
        let arrival = self.now + self.delay();
        if self.chance.percent(self.faults.failing) {
            return self.plan(
                arrival,
                index,
                Event::Hear {
                    question,
                    is_timeout: true,
                },
            );
        }
        self.plan(arrival, index, Event::Arrive { question });
        if !self.chance.percent(self.faults.losing_answers) {
            let answer = arrival + self.delay();
            self.plan(
                answer,
                index,
                Event::Hear {
                    question,
                    is_timeout: false,
                },
            );
        }
    }

    /// Mostly short, sometimes close to the timeout, and rarely longer.
    fn delay(&mut self) -> Millis {
        let limit = if !self.chance.percent(self.faults.slow) {
            100
        } else if self.chance.percent(80) {
            6_000
        } else {
            30_000
        };
        self.chance.below(limit)
    }

    fn arrive(&mut self, question: usize) {
        let current = self.lease.back().cloned();
        let outcome = match (&self.questions[question].action, current) {
            (Action::Read, None) => Outcome::Missing,
            (Action::Read, Some(_)) => Outcome::Found(self.read()),
            (Action::Create(record), None) => self.write(record.clone()),
            (
                Action::Update {
                    record,
                    resource_version,
                },
                Some(current),
            ) if current.resource_version == *resource_version => self.write(record.clone()),
            (Action::Create(_) | Action::Update { .. }, _) => Outcome::Refused,
            (Action::Wait(_) | Action::Finished, _) => unreachable!("these are not asked"),
        };
        self.questions[question].outcome = outcome;
    }

    fn read(&mut self) -> Observed {
        let n_versions = self.lease.len() as u64;
        let back = if self.chance.percent(self.faults.stale_reads) {
            self.chance.below(n_versions.min(5))
        } else {
            0
        };
        self.lease[(n_versions - 1 - back) as usize].clone()
    }

    fn write(&mut self, record: LeaseRecord) -> Outcome {
        let resource_version = (self.lease.len() + 1).to_string();
        let written = Observed {
            record,
            resource_version,
        };
        self.lease.push_back(written.clone());
        Outcome::Written(written)
    }

    fn hear(&mut self, index: usize, question: usize, is_timeout: bool) {
        let candidate = &mut self.candidates[index];
        if candidate.pending != Some(question) {
            return;
        }
        candidate.pending = None;
        let Question {
            asked_at, outcome, ..
        } = &self.questions[question];
        let outcome = if is_timeout {
            Outcome::Failed
        } else {
            outcome.clone()
        };
        let jitter = self.chance.below(1000) as f64 / 1000.0;
        candidate
            .elector
            .observe(outcome, at(*asked_at), at(self.now), jitter);
        self.plan(self.now, index, Event::Think);
    }

    fn die(&mut self, index: usize) {
        let life = self.candidates[index].life + 1;
        let skew = self.candidates[index].skew;
        self.candidates[index] = Candidate {
            elector: elector(index, life),
            life,
            skew,
            cut_off_until: 0,
            pending: None,
        };
        let birth = self.now + self.chance.below(20_000);
        self.plan(birth, index, Event::Think);
    }
}

fn elector(index: usize, life: u64) -> Elector {
    Elector::new(format!("{index}-{life}"), LeaseTiming::default()).unwrap()
}

fn faults() -> impl Strategy<Value = Faults> {
    let rare = 0..5u64;
    let some = 0..50u64;
    let often = (some.clone(), some.clone(), some.clone(), some);
    (often, rare.clone(), rare).prop_map(
        |((failing, losing_answers, stale_reads, slow), cutting_off, dying)| Faults {
            failing,
            losing_answers,
            stale_reads,
            slow,
            cutting_off,
            dying,
        },
    )
}

proptest! {
    #[test]
    fn never_two_leaders_and_always_one_in_the_end(seed: u64, n_candidates in 1..6usize, faults in faults()) {
        let mut simulation = Simulation::new(seed, n_candidates, faults);
        let (an_hour, two_minutes) = (3_600_000, 120_000);
        simulation.run_until(an_hour)?;
        simulation.faults = NO_FAULTS;
        simulation.run_until(an_hour + two_minutes)?;
        let leaders = simulation.leaders();
        prop_assert_eq!(leaders.len(), 1, "a candidate leads once there are no faults");

        // Every change of hands was counted, once.
        for (before, after) in simulation.lease.iter().zip(simulation.lease.iter().skip(1)) {
            let changed = before.record.holder != after.record.holder;
            prop_assert_eq!(after.record.transitions, before.record.transitions + u32::from(changed));
            // Each candidate has its own clock, so two of them can acquire at what they take for the same time.
            let acquired = if changed { after.record.renewed } else { before.record.acquired };
            prop_assert_eq!(after.record.acquired, acquired);
        }
    }

    #[test]
    fn without_faults_the_first_leader_stays(seed: u64, n_candidates in 1..6usize) {
        let mut simulation = Simulation::new(seed, n_candidates, NO_FAULTS);
        simulation.run_until(10_000)?;
        let leaders = simulation.leaders();
        prop_assert_eq!(leaders.len(), 1);
        simulation.run_until(600_000)?;
        prop_assert_eq!(simulation.leaders(), leaders);
    }
}
