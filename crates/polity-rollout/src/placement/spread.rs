//! Spreading over topologies (6.6): clusters are chosen one at a time, each against what was chosen before.
//!
//! Candidates with the same values in every term are alike but for their scores, so only the best of each kind is
//! looked at: the work is clusters times distinct values, not clusters squared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

use polity_core::ManagedCluster;
use polity_core::placement::{SpreadTerm, TopologySource, Unsatisfiable};

/// The best score of a term; each term is worth this many values of the next.
const BEST_OF_TERM: u64 = 63;
const BITS_OF_TERM: u32 = 6;

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
        let best = kinds
            .open()
            .map(|(kind, position)| {
                let spread = kinds.spread_score(kind);
                let total = candidates[position].total + i64::from(weight) * i64::from(spread);
                (Reverse(total), position, kind, spread)
            })
            .min();
        let Some((_, position, kind, spread)) = best else {
            break;
        };
        kinds.take(kind);
        chosen.push(Chosen {
            position,
            spread: Some(spread),
        });
    }
    chosen
}

/// Candidates by the values they have, and how often each value was chosen.
struct Kinds<'a> {
    terms: &'a [SpreadTerm],
    kinds: Vec<Kind>,
    /// For each term, the chosen clusters of each value; values of one parent are siblings.
    domains: Vec<Vec<Siblings>>,
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
    most: u32,
}

impl Siblings {
    fn take(&mut self, place: usize) {
        self.counts[place] += 1;
        self.most = self.most.max(self.counts[place]);
        // Only the least used value can have lifted the least.
        if self.counts[place] == self.least + 1 {
            self.least = self.counts.iter().copied().min().unwrap_or(0);
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
                let counts = &mut domain[siblings].counts;
                let place = *places_of
                    .entry(values[..=level].to_vec())
                    .or_insert_with(|| {
                        counts.push(0);
                        counts.len() - 1
                    });
                (siblings, place)
            };
            let places = (0..terms.len()).map(place).collect();
            positions.sort_by_key(|position| Reverse(candidates[*position].total));
            kinds.push(Kind {
                places,
                waiting: positions.into(),
            });
        }
        Self {
            terms,
            kinds,
            domains,
        }
    }

    /// The kinds that may be chosen from now, with the best candidate of each.
    fn open(&self) -> impl Iterator<Item = (usize, usize)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter_map(|(number, kind)| {
            let position = *kind.waiting.front()?;
            let mut places = self.terms.iter().zip(self.counts(number));
            let fits = places.all(|(term, counts)| {
                term.when_unsatisfiable == Unsatisfiable::ScheduleAnyway
                    || counts.own + 1 - counts.least <= term.max_skew
            });
            fits.then_some((number, position))
        })
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

    /// How much choosing from this kind evens things out, -100 to 100; earlier terms outweigh later ones.
    fn spread_score(&self, kind: usize) -> i32 {
        let mut score: u64 = 0;
        let mut best: u64 = 0;
        for counts in self.counts(kind) {
            let room = u64::from(counts.most - counts.own);
            let range = u64::from(counts.most - counts.least);
            let of_term = (BEST_OF_TERM * room).checked_div(range);
            score = (score << BITS_OF_TERM) + of_term.unwrap_or(BEST_OF_TERM);
            best = (best << BITS_OF_TERM) + BEST_OF_TERM;
        }
        (score * 200).checked_div(best).unwrap_or(200) as i32 - 100
    }

    fn take(&mut self, kind: usize) {
        let kind = &mut self.kinds[kind];
        kind.waiting.pop_front();
        for (level, (siblings, place)) in kind.places.iter().enumerate() {
            self.domains[level][*siblings].take(*place);
        }
    }
}

/// How often a value, and the least and the most used of its siblings, were chosen.
struct Counts {
    own: u32,
    least: u32,
    most: u32,
}

/// The value of a cluster for a term; clusters without one are spread like those of one more value.
fn value<'c>(cluster: &'c ManagedCluster, term: &SpreadTerm) -> Option<&'c str> {
    let source = match term.source {
        TopologySource::Label => &cluster.labels,
        TopologySource::Claim => &cluster.claims,
    };
    source.get(&term.key).map(String::as_str)
}
