//! Scores of clusters: each prioritizer gives scores from -100 to 100, and weights add them up.

use jiff::Timestamp;
use polity_core::placement::{PlacementKey, Prioritizer, WeightedPrioritizer};

use super::fleet::Fleet;

const BEST: i32 = 100;

/// The scores of one prioritizer, one for each candidate.
pub(super) struct Column<'a> {
    pub(super) prioritizer: &'a Prioritizer,
    pub(super) weight: i32,
    pub(super) scores: Vec<i32>,
}

/// All scores of all candidates.
pub(super) struct Scoreboard<'a> {
    pub(super) columns: Vec<Column<'a>>,
    /// The weighted sum, for each candidate.
    pub(super) totals: Vec<i64>,
    pub(super) warnings: Vec<String>,
    /// When the first score that counts expires.
    pub(super) valid_until: Option<Timestamp>,
}

impl<'a> Scoreboard<'a> {
    pub(super) fn new(
        placement: &PlacementKey,
        prioritizers: &'a [WeightedPrioritizer],
        fleet: &Fleet,
        candidates: &[u32],
        now: Timestamp,
    ) -> Self {
        let mut board = Self {
            columns: Vec::with_capacity(prioritizers.len()),
            totals: vec![0; candidates.len()],
            warnings: Vec::new(),
            valid_until: None,
        };
        for WeightedPrioritizer {
            prioritizer,
            weight,
        } in prioritizers
        {
            let scores = match prioritizer {
                Prioritizer::Balance => balance(placement, fleet, candidates),
                Prioritizer::Steady => steady(placement, fleet, candidates),
                Prioritizer::ResourceAllocatableCpu => resource("cpu", fleet, candidates),
                Prioritizer::ResourceAllocatableMemory => resource("memory", fleet, candidates),
                Prioritizer::AddOn {
                    resource_name,
                    score_name,
                } => board.add_on(resource_name, score_name, fleet, candidates, now),
            };
            for (total, score) in board.totals.iter_mut().zip(&scores) {
                *total += i64::from(*weight) * i64::from(*score);
            }
            board.columns.push(Column {
                prioritizer,
                weight: *weight,
                scores,
            });
        }
        board
    }

    /// What an add-on says; nothing and what has expired count 0.
    fn add_on(
        &mut self,
        resource_name: &str,
        score_name: &str,
        fleet: &Fleet,
        candidates: &[u32],
        now: Timestamp,
    ) -> Vec<i32> {
        let mut expired = Vec::new();
        let mut scores = Vec::with_capacity(candidates.len());
        for number in candidates {
            let cluster = &fleet.cluster(*number).name;
            let found = fleet.score(resource_name, cluster);
            let found = found.and_then(|all| Some((all, *all.scores.get(score_name)?)));
            let score = match found {
                None => 0,
                Some((all, _)) if all.valid_until.is_some_and(|end| end <= now) => {
                    expired.push(cluster.as_str());
                    0
                }
                Some((all, score)) => {
                    let earlier = |end: Timestamp| self.valid_until.map_or(end, |u| u.min(end));
                    self.valid_until = all.valid_until.map(earlier).or(self.valid_until);
                    score.clamp(-BEST, BEST)
                }
            };
            scores.push(score);
        }
        if !expired.is_empty() {
            let clusters = expired.join(", ");
            self.warnings.push(format!(
                "scores {resource_name}/{score_name} have expired and count 0 for {clusters}"
            ));
        }
        scores
    }
}

/// Clusters that few other placements have.
fn balance(placement: &PlacementKey, fleet: &Fleet, candidates: &[u32]) -> Vec<i32> {
    let (counts, highest) = fleet.decided_by_others(placement);
    let score = |number: &u32| match counts[*number as usize] {
        0 => BEST,
        // In floats, and cut off there, as the scheduler that others use has it.
        count => {
            let usage = f64::from(count) / f64::from(highest);
            2 * (f64::from(BEST) * (0.5 - usage)) as i32
        }
    };
    candidates.iter().map(score).collect()
}

/// Clusters that the placement has already.
fn steady(placement: &PlacementKey, fleet: &Fleet, candidates: &[u32]) -> Vec<i32> {
    let decided = fleet.decided(placement);
    let is_decided = |number: &u32| decided.binary_search(number).is_ok();
    let score = |number: &u32| if is_decided(number) { BEST } else { 0 };
    candidates.iter().map(score).collect()
}

/// Clusters with most of a resource to give, on a scale from the poorest to the richest.
fn resource(name: &str, fleet: &Fleet, candidates: &[u32]) -> Vec<i32> {
    let allocatable = |number: &u32| {
        let cluster = fleet.cluster(*number);
        cluster.capacity.get(name)?;
        Some(cluster.allocatable.get(name)?.to_f64())
    };
    let amounts: Vec<Option<f64>> = candidates.iter().map(allocatable).collect();
    let known = || amounts.iter().flatten().copied();
    let least = known().fold(f64::INFINITY, f64::min);
    let most = known().fold(f64::NEG_INFINITY, f64::max);
    let score = |amount: &Option<f64>| match amount {
        None => 0,
        Some(_) if most <= least => BEST,
        Some(amount) => (((amount - least) / (most - least) - 0.5) * 2.0 * f64::from(BEST)) as i32,
    };
    amounts.iter().map(score).collect()
}
