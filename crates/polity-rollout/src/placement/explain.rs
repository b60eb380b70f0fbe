//! The same schedule, with the fate of every cluster.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::cluster::Taint;
use polity_core::placement::Placement;
use polity_core::rollout_strategy::GroupKey;

use super::Schedule;
use super::decide::{Choice, Decided, Stages, decide};
use super::expression::ClusterExpressions;
pub use super::filter::Miss;
use super::fleet::Fleet;
use super::spread::Chosen;

/// A schedule and why it is so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub schedule: Schedule,
    /// The sets that the placement chose from.
    pub eligible_sets: Vec<String>,
    /// Every cluster of the fleet, by name.
    pub clusters: Vec<ClusterFate>,
}

/// A cluster and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFate {
    pub cluster: ClusterName,
    pub fate: Fate,
}

/// What became of a cluster, by the stage that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way out.
    Deleting,
    /// It is in these sets only, and the placement may not or does not choose from them.
    NotInBoundSet { sets: Vec<String> },
    /// The placement is invalid, so no cluster was considered.
    NotConsidered,
    /// None of the predicates holds; what is missing in each.
    NoPredicate { misses: Vec<Miss> },
    /// It has a taint that is not tolerated.
    Tainted { taint: Taint },
    /// Others are better, or a skew forbids it.
    PassedOver { rank: usize, scores: Scores },
    Selected {
        /// From 1.
        rank: usize,
        scores: Scores,
        group: GroupKey,
        /// When its taints are no longer tolerated.
        tolerated_until: Option<Timestamp>,
    },
}

/// What a cluster scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scores {
    pub total: i64,
    pub parts: Vec<ScorePart>,
}

/// What one prioritizer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScorePart {
    pub prioritizer: String,
    pub weight: i32,
    pub score: i32,
}

/// Chooses clusters for a placement as [`schedule`](super::schedule) does, and says why.
pub fn explain(
    placement: &Placement,
    fleet: &Fleet,
    expressions: &dyn ClusterExpressions,
    now: Timestamp,
) -> Explanation {
    let Decided {
        schedule,
        eligible_sets,
        available,
        stages,
    } = decide(placement, fleet, expressions, now);
    let mut fates = match &stages {
        Some(stages) => fates(stages, fleet, &available, &schedule),
        None => available
            .iter()
            .map(|number| (*number, Fate::NotConsidered))
            .collect(),
    };
    let clusters = fleet.clusters().iter().zip(0..);
    let clusters = clusters.map(|(cluster, number)| ClusterFate {
        cluster: cluster.name.clone(),
        fate: fates.remove(&number).unwrap_or_else(|| {
            if cluster.is_deleting {
                Fate::Deleting
            } else {
                let sets = fleet.sets_of(number).into_iter();
                Fate::NotInBoundSet {
                    sets: sets.map(str::to_owned).collect(),
                }
            }
        }),
    });
    Explanation {
        clusters: clusters.collect(),
        eligible_sets: eligible_sets.into_iter().map(str::to_owned).collect(),
        schedule,
    }
}

fn fates(
    stages: &Stages,
    fleet: &Fleet,
    available: &[u32],
    schedule: &Schedule,
) -> HashMap<u32, Fate> {
    let mut fates = HashMap::new();
    for (number, taint) in &stages.tainted {
        let taint = (*taint).clone();
        fates.insert(*number, Fate::Tainted { taint });
    }
    let mut group_of = HashMap::new();
    for group in &schedule.groups {
        let clusters = group.clusters.iter();
        group_of.extend(clusters.map(|decision| (&decision.cluster, &group.key)));
    }
    for (chosen, rank) in ranking(stages).into_iter().zip(1..) {
        let number = stages.candidates[chosen.position];
        let scores = scores(stages, chosen);
        let fate = match group_of.get(&fleet.cluster(number).name) {
            Some(group) => Fate::Selected {
                rank,
                scores,
                group: (*group).clone(),
                tolerated_until: stages.tolerated_until[chosen.position],
            },
            None => Fate::PassedOver { rank, scores },
        };
        fates.insert(number, fate);
    }
    for number in available {
        fates.entry(*number).or_insert_with(|| Fate::NoPredicate {
            misses: stages.predicates.misses(fleet.cluster(*number)),
        });
    }
    fates
}

/// All candidates, the chosen ones first and in the order of choice, the others by what they score.
fn ranking(stages: &Stages) -> Vec<Chosen> {
    let mut ranking = match &stages.choice {
        Choice::Everyone => Vec::new(),
        Choice::Some(chosen) => chosen.clone(),
    };
    let mut is_ranked = vec![false; stages.candidates.len()];
    for chosen in &ranking {
        is_ranked[chosen.position] = true;
    }
    let mut others: Vec<usize> = (0..is_ranked.len())
        .filter(|position| !is_ranked[*position])
        .collect();
    others.sort_by_key(|position| Reverse(stages.board.totals[*position]));
    ranking.extend(others.into_iter().map(Chosen::unspread));
    ranking
}

fn scores(stages: &Stages, chosen: Chosen) -> Scores {
    let columns = stages.board.columns.iter();
    let columns = columns.map(|column| ScorePart {
        prioritizer: column.prioritizer.to_string(),
        weight: column.weight,
        score: column.scores[chosen.position],
    });
    let spread = chosen.spread.map(|score| ScorePart {
        prioritizer: "Spread".to_owned(),
        weight: stages.spread_weight,
        score,
    });
    Scores {
        total: stages.total(chosen),
        parts: columns.chain(spread).collect(),
    }
}
