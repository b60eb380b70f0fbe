//! The ledger: every request, everything that happened, and the sum of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use e2e::door::Answer;
use jiff::Timestamp;
use polity_runtime::Clock;

use crate::judge::{Asked, Excuse, Finding, History, Outage, Request, Span, Switch, Victim, Wrong};
use crate::troubles::Trouble;

/// How many wrong answers of each sort are shown in full.
const SHOWN: usize = 5;

/// What is recorded.
pub(crate) struct Ledger {
    clock: Clock,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    requests: Vec<Request>,
    history: History,
    /// Generations that are broken on purpose.
    broken: BTreeSet<(&'static str, i64)>,
    n_updates: usize,
    troubles: BTreeMap<Trouble, usize>,
    n_in_step: usize,
    api_server_is_down: bool,
}

/// Where a request begins.
pub(crate) struct Begun {
    pub(crate) policy: &'static str,
    pub(crate) asked: Asked,
    pub(crate) is_guilty: bool,
    from: Timestamp,
}

impl Ledger {
    pub(crate) fn new(drain: Duration) -> Self {
        let books = Books {
            history: History {
                drain,
                ..History::default()
            },
            ..Books::default()
        };
        Self {
            clock: Clock::system(),
            books: Mutex::new(books),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn begin(&self, policy: &'static str, asked: Asked, is_guilty: bool) -> Begun {
        Begun {
            policy,
            asked,
            is_guilty,
            from: self.now(),
        }
    }

    pub(crate) fn end(&self, begun: Begun, answer: Answer) {
        let Begun {
            policy,
            asked,
            is_guilty,
            from,
        } = begun;
        let span = Span {
            from,
            until: self.now(),
        };
        self.books().requests.push(Request {
            policy,
            asked,
            is_guilty,
            span,
            answer,
        });
    }

    /// A webhook names a generation, since then; it may be seen more than once.
    pub(crate) fn switched(&self, policy: &'static str, switch: Switch) {
        let mut books = self.books();
        let switches = books.history.switches.entry(policy).or_default();
        if switches.last().map(|last| last.generation) != Some(switch.generation) {
            switches.push(switch);
        }
    }

    pub(crate) fn outage(&self, outage: Outage) {
        self.books().history.outages.push(outage);
    }

    /// Whether everybody could hear what the API server had to tell since a time.
    pub(crate) fn could_hear_since(&self, since: Timestamp) -> bool {
        let books = self.books();
        let mut outages = books.history.outages.iter();
        !books.api_server_is_down
            && !outages
                .any(|outage| outage.victim == Victim::ApiServer && outage.absence.until >= since)
    }

    /// The API server is about to go, or is back.
    pub(crate) fn api_server_is_down(&self, is_down: bool) {
        self.books().api_server_is_down = is_down;
    }

    /// A generation will be broken.
    pub(crate) fn breaks(&self, policy: &'static str, generation: i64) {
        self.books().broken.insert((policy, generation));
    }

    /// One of the generations that were broken lately.
    pub(crate) fn broken_one(&self, n: usize) -> Option<(&'static str, i64)> {
        let books = self.books();
        let mut latest = books.broken.iter().rev().take(8);
        let n_latest = latest.len();
        latest.nth(n.checked_rem(n_latest)?).copied()
    }

    pub(crate) fn updated(&self) {
        self.books().n_updates += 1;
    }

    pub(crate) fn n_updates(&self) -> usize {
        self.books().n_updates
    }

    /// A trouble struck, in the step of an update for which it was meant or not.
    pub(crate) fn struck(&self, trouble: Trouble, is_in_step: bool) {
        let mut books = self.books();
        *books.troubles.entry(trouble).or_default() += 1;
        books.n_in_step += usize::from(is_in_step);
    }

    /// Everything judged and counted.
    pub(crate) fn close(&self) -> Summary {
        let books = self.books();
        let mut summary = Summary {
            n_updates: books.n_updates,
            n_broken: books.broken.len(),
            troubles: books.troubles.clone(),
            n_in_step: books.n_in_step,
            ..Summary::default()
        };
        for request in &books.requests {
            let n = match request.asked {
                Asked::ApiServer => &mut summary.n_through_api_server,
                Asked::Replica { .. } => &mut summary.n_to_replicas,
                Asked::Ghost { .. } => &mut summary.n_to_ghosts,
            };
            *n += 1;
            match books.history.judge(request) {
                Finding::Fine => {}
                Finding::Excused(excuse) => *summary.excused.entry(excuse).or_default() += 1,
                Finding::Wrong(wrong) => {
                    let n_wrong = summary.wrong.entry(wrong).or_default();
                    *n_wrong += 1;
                    if *n_wrong <= SHOWN {
                        let around = books.history.around(request);
                        let example = format!("{wrong:?}: {request:?}\n{around}");
                        summary.examples.push(example);
                    }
                }
            }
        }
        summary
    }
}

impl History {
    /// What happened around a request, for whoever looks for the cause.
    fn around(&self, request: &Request) -> String {
        const AROUND: Duration = Duration::from_secs(5);
        let widened = Span {
            from: request.span.from.saturating_sub(AROUND).expect("in range"),
            until: request.span.until.saturating_add(AROUND).expect("in range"),
        };
        let switches = self.switches.get(request.policy).into_iter().flatten();
        let at = |time| Span {
            from: time,
            until: time,
        };
        let switches = switches.filter(|switch| widened.overlaps(at(switch.at)));
        let outages = self.outages.iter();
        let outages = outages.filter(|outage| widened.overlaps(outage.absence));
        let lines = switches
            .map(|switch| format!("    {switch:?}\n"))
            .chain(outages.map(|outage| format!("    {outage:?}\n")));
        lines.collect()
    }
}

/// What a run has to tell.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    n_updates: usize,
    n_broken: usize,
    n_through_api_server: usize,
    n_to_replicas: usize,
    n_to_ghosts: usize,
    troubles: BTreeMap<Trouble, usize>,
    n_in_step: usize,
    excused: BTreeMap<Excuse, usize>,
    wrong: BTreeMap<Wrong, usize>,
    examples: Vec<String>,
}

impl Summary {
    /// # Panics
    /// When anything is wrong; the first of it is shown in full.
    pub(crate) fn check(&self) {
        let n_wrong: usize = self.wrong.values().sum();
        assert_eq!(n_wrong, 0, "{self}\n{}", self.examples.join("\n"));
        assert!(
            self.n_through_api_server > 0 && self.n_to_replicas > 0 && self.n_to_ghosts > 0,
            "nobody asked anything: {self}"
        );
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            n_updates,
            n_broken,
            n_through_api_server,
            n_to_replicas,
            n_to_ghosts,
            troubles,
            n_in_step,
            excused,
            wrong,
            examples: _,
        } = self;
        writeln!(
            out,
            "{n_updates} updates, {n_broken} of them broken; {n_through_api_server} requests through the API server, \
             {n_to_replicas} to replicas, {n_to_ghosts} for generations that are not there"
        )?;
        let n_troubles: usize = troubles.values().sum();
        writeln!(
            out,
            "troubles: {}; {n_in_step} of {n_troubles} in the step of an update that was waited for",
            counts(troubles)
        )?;
        writeln!(out, "excused: {}", counts(excused))?;
        write!(out, "wrong: {}", counts(wrong))
    }
}

fn counts<K: fmt::Debug>(counts: &BTreeMap<K, usize>) -> String {
    let each = counts.iter().map(|(what, n)| format!("{n} {what:?}"));
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        "0".to_owned()
    } else {
        each.join(", ")
    }
}
