//! Spreading over topologies: clusters are chosen one at a time, each against what was chosen before.
//!
//! Candidates with the same values in every term are alike but for their scores, so only the best of each kind is
//! looked at; and kinds that differ in the last term alone are alike as long as equally many were chosen of them. What
//! is left is looked at in the order of the other scores, and no further than evenness can make up for.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use polity_core::ManagedCluster;
use polity_core::placement::{SpreadTerm, TopologySource, Unsatisfiable};

/// The best spread score.
const BEST: i64 = 100;
/// The best score of a term; each term is worth this many values of the next.
const BEST_OF_TERM: u64 = 63;
const BITS_OF_TERM: u32 = 6;
/// As many terms as a placement may have; more would not fit a score.
const MAX_TERMS: usize = 8;

/// A candidate with what it scores otherwise; candidates are ordered by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) cluster: &'a ManagedCluster,
    pub(super) total: i64,
}

/// A candidate that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The position among the candidates.
    pub(super) position: usize,
    /// The spread score at the time, -100 to 100; none where nothing is spread.
    pub(super) spread: Option<i32>,
}

impl Chosen {
    /// Chosen for its other scores alone.
    pub(super) fn unspread(position: usize) -> Self {
        Self {
            position,
            spread: None,
        }
    }
}

/// Chooses at most `limit` candidates, in order of choice. Those that would exceed a skew that must hold are left.
pub(super) fn choose(
    candidates: &[Candidate],
    terms: &[SpreadTerm],
    weight: i32,
    limit: usize,
) -> Vec<Chosen> {
    let mut kinds = Kinds::new(candidates, terms);
    let mut chosen = Vec::new();
    while chosen.len() < limit {
        let Some((turn, spread)) = kinds.best(weight) else {
            break;
        };
        kinds.take(turn.kind, candidates);
        chosen.push(Chosen {
            position: turn.position,
            spread: Some(spread),
        });
    }
    chosen
}

/// The best candidate of a kind. Whom it comes before it beats, as long as evenness does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    total: Reverse<i64>,
    position: usize,
    kind: usize,
}

/// Kinds that fit and score alike: they differ in the last term alone, and equally many were chosen of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Class {
    /// Which siblings in the last term.
    siblings: usize,
    n_chosen: u32,
}

/// Candidates by the values they have, and how often each value was chosen.
struct Kinds<'a> {
    terms: &'a [SpreadTerm],
    kinds: Vec<Kind>,
    /// For each term, the chosen clusters of each value; values of one parent are siblings.
    domains: Vec<Vec<Siblings>>,
    classes: HashMap<Class, BTreeSet<Turn>>,
    /// The first of each class.
    first: BTreeSet<(Turn, Class)>,
}

/// Candidates that have the same values in every term.
struct Kind {
    /// For each term, which siblings and which of them.
    places: Vec<(usize, usize)>,
    /// The best first.
    waiting: VecDeque<usize>,
}

/// How often each value under one parent was chosen, and the extremes of that.
#[derive(Default)]
struct Siblings {
    counts: Vec<u32>,
    least: u32,
    /// How many values were chosen least often.
    n_least: usize,
    most: u32,
}

impl Siblings {
    fn add(&mut self) -> usize {
        self.counts.push(0);
        self.n_least += 1;
        self.counts.len() - 1
    }

    fn take(&mut self, place: usize) {
        if self.counts[place] == self.least {
            self.n_least -= 1;
        }
        self.counts[place] += 1;
        self.most = self.most.max(self.counts[place]);
        if self.n_least == 0 {
            self.least = self.counts.iter().copied().min().unwrap_or(0);
            self.n_least = self.counts.iter().filter(|n| **n == self.least).count();
        }
    }
}

impl<'a> Kinds<'a> {
    fn new(candidates: &[Candidate], terms: &'a [SpreadTerm]) -> Self {
        let mut by_values: BTreeMap<Vec<Option<&str>>, Vec<usize>> = BTreeMap::new();
        for (position, candidate) in candidates.iter().enumerate() {
            let values = terms.iter().map(|term| value(candidate.cluster, term));
            let alike = by_values.entry(values.collect()).or_default();
            alike.push(position);
        }
        let mut domains: Vec<Vec<Siblings>> = terms.iter().map(|_| Vec::new()).collect();
        let mut siblings_of: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        let mut places_of: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        let mut kinds = Vec::with_capacity(by_values.len());
        for (values, mut positions) in by_values {
            let place = |level: usize| {
                let parent = values[..level].to_vec();
                let domain = &mut domains[level];
                let siblings = *siblings_of.entry(parent).or_insert_with(|| {
                    domain.push(Siblings::default());
                    domain.len() - 1
                });
                let place = *places_of
                    .entry(values[..=level].to_vec())
                    .or_insert_with(|| domain[siblings].add());
                (siblings, place)
            };
            let places = (0..terms.len()).map(place).collect();
            positions.sort_by_key(|position| Reverse(candidates[*position].total));
            kinds.push(Kind {
                places,
                waiting: positions.into(),
            });
        }
        let mut all = Self {
            terms,
            kinds,
            domains,
            classes: HashMap::new(),
            first: BTreeSet::new(),
        };
        for kind in 0..all.kinds.len() {
            all.enter(kind, candidates);
        }
        all
    }

    /// Whose turn it is, with its spread score: the best of all that fit, and the first by name among equals.
    fn best(&self, weight: i32) -> Option<(Turn, i32)> {
        let weight = i64::from(weight);
        let mut best: Option<(Reverse<i64>, usize, Turn, i32)> = None;
        for (turn, _) in &self.first {
            // Everyone from here on has less to begin with, and evenness is worth no more than this.
            let bound = Reverse(turn.total.0 + weight.abs() * BEST);
            if best.is_some_and(|(total, position, ..)| (bound, turn.position) > (total, position))
            {
                break;
            }
            if !self.fits(turn.kind) {
                continue;
            }
            let spread = spread_score(self.counts(turn.kind));
            let total = Reverse(turn.total.0 + weight * i64::from(spread));
            let found = (total, turn.position, *turn, spread);
            best = Some(best.map_or(found, |best| best.min(found)));
        }
        best.map(|(_, _, turn, spread)| (turn, spread))
    }

    /// Whether no skew that must hold forbids choosing from this kind.
    fn fits(&self, kind: usize) -> bool {
        let mut terms = self.terms.iter().zip(self.counts(kind));
        terms.all(|(term, counts)| {
            term.when_unsatisfiable == Unsatisfiable::ScheduleAnyway
                || counts.own + 1 - counts.least <= term.max_skew
        })
    }

    /// The turn of a kind and the class it is in; none when no cluster of it is left.
    fn turn(&self, kind: usize, candidates: &[Candidate]) -> Option<(Turn, Class)> {
        let position = *self.kinds[kind].waiting.front()?;
        let (siblings, place) = *self.kinds[kind].places.last()?;
        let turn = Turn {
            total: Reverse(candidates[position].total),
            position,
            kind,
        };
        let n_chosen = self.domains.last()?[siblings].counts[place];
        Some((turn, Class { siblings, n_chosen }))
    }

    fn enter(&mut self, kind: usize, candidates: &[Candidate]) {
        if let Some((turn, class)) = self.turn(kind, candidates) {
            self.change(class, |turns| turns.insert(turn));
        }
    }

    fn leave(&mut self, kind: usize, candidates: &[Candidate]) {
        if let Some((turn, class)) = self.turn(kind, candidates) {
            self.change(class, |turns| turns.remove(&turn));
        }
    }

    /// Changes a class and keeps its first where it belongs.
    fn change(&mut self, class: Class, change: impl FnOnce(&mut BTreeSet<Turn>) -> bool) {
        let turns = self.classes.entry(class).or_default();
        if let Some(first) = turns.first() {
            self.first.remove(&(*first, class));
        }
        change(turns);
        if let Some(first) = turns.first() {
            self.first.insert((*first, class));
        }
    }

    fn counts(&self, kind: usize) -> impl Iterator<Item = Counts> {
        let places = self.kinds[kind].places.iter().enumerate();
        places.map(|(level, (siblings, place))| {
            let siblings = &self.domains[level][*siblings];
            Counts {
                own: siblings.counts[*place],
                least: siblings.least,
                most: siblings.most,
            }
        })
    }

    fn take(&mut self, number: usize, candidates: &[Candidate]) {
        self.leave(number, candidates);
        let kind = &mut self.kinds[number];
        kind.waiting.pop_front();
        for (level, (siblings, place)) in kind.places.iter().enumerate() {
            self.domains[level][*siblings].take(*place);
        }
        self.enter(number, candidates);
    }
}

/// How often a value, and the least and the most used of its siblings, were chosen.
struct Counts {
    own: u32,
    least: u32,
    most: u32,
}

/// How much choosing a value evens things out, -100 to 100; earlier terms outweigh later ones.
fn spread_score(counts: impl IntoIterator<Item = Counts>) -> i32 {
    let mut score: u64 = 0;
    let mut best: u64 = 0;
    for counts in counts.into_iter().take(MAX_TERMS) {
        let room = u64::from(counts.most - counts.own);
        let range = u64::from(counts.most - counts.least);
        let of_term = (BEST_OF_TERM * room).checked_div(range);
        score = (score << BITS_OF_TERM) + of_term.unwrap_or(BEST_OF_TERM);
        best = (best << BITS_OF_TERM) + BEST_OF_TERM;
    }
    (score * 200).checked_div(best).unwrap_or(200) as i32 - 100
}

/// The value of a cluster for a term; clusters without one are spread like those of one more value.
fn value<'c>(cluster: &'c ManagedCluster, term: &SpreadTerm) -> Option<&'c str> {
    let source = match term.source {
        TopologySource::Label => &cluster.labels,
        TopologySource::Claim => &cluster.claims,
    };
    source.get(&term.key).map(String::as_str)
}
