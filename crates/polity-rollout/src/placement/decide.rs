//! The stages in their order, with everything an explanation needs kept.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use polity_core::cluster::Taint;
use polity_core::placement::{Misconfigured, Placement, PlacementRules, SortBy};

use super::condition::{self, Outcome};
use super::expression::ClusterExpressions;
use super::filter::{Predicates, Tolerance, tolerate};
use super::fleet::Fleet;
use super::group::{self, Selected};
use super::score::Scoreboard;
use super::spread::{self, Candidate, Chosen};
use super::{Schedule, ScheduledGroup};

/// A schedule and how it came about.
pub(super) struct Decided<'a> {
    pub(super) schedule: Schedule,
    pub(super) eligible_sets: Vec<&'a str>,
    pub(super) available: Vec<u32>,
    /// What was asked for. Nothing else is decided for an invalid placement.
    pub(super) stages: Option<Stages<'a>>,
}

/// What became of the available clusters.
pub(super) struct Stages<'a> {
    pub(super) predicates: Predicates<'a>,
    pub(super) spread_weight: i32,
    /// Who has a taint that is not tolerated. Who is neither here nor a candidate meets no predicate.
    pub(super) tainted: Vec<(u32, &'a Taint)>,
    /// Who is left, in the order of their names.
    pub(super) candidates: Vec<u32>,
    /// For each candidate, until when its taints are tolerated.
    pub(super) tolerated_until: Vec<Option<Timestamp>>,
    pub(super) board: Scoreboard<'a>,
    pub(super) choice: Choice,
}

/// Which candidates are chosen.
pub(super) enum Choice {
    Everyone,
    /// These, in the order of choice.
    Some(Vec<Chosen>),
}

pub(super) fn decide<'a>(
    placement: &'a Placement,
    fleet: &'a Fleet,
    expressions: &'a dyn ClusterExpressions,
    now: Timestamp,
) -> Decided<'a> {
    let eligible_sets = fleet.eligible_sets(placement);
    let available = fleet.available(&eligible_sets);
    let stages = placement
        .rules
        .as_ref()
        .map_err(Misconfigured::clone)
        .and_then(|rules| {
            let stages = Stages::run(placement, rules, fleet, &available, expressions, now)?;
            Ok((rules, stages))
        });
    let error = stages.as_ref().err();
    let groups = match &stages {
        Ok((rules, stages)) => stages.groups(rules, fleet),
        Err(_) => group::divide(&PlacementRules::default().groups, fleet, Vec::new()),
    };
    let n_selected = groups.iter().map(|group| group.clusters.len()).sum();
    let wanted = stages
        .as_ref()
        .ok()
        .and_then(|(rules, _)| rules.number_of_clusters);
    let outcome = Outcome {
        n_bindings: fleet.bound_sets(placement).map_or(0, BTreeSet::len),
        eligible_sets: &eligible_sets,
        n_available: available.len(),
        error,
        n_selected,
        n_missing: wanted.map_or(0, |wanted| wanted.saturating_sub(n_selected)),
    };
    let satisfied = condition::satisfied(placement, &outcome);
    let misconfigured = condition::misconfigured(error);
    let stages = stages.ok().map(|(_, stages)| stages);
    let schedule = Schedule {
        groups,
        satisfied,
        misconfigured,
        warnings: stages
            .iter()
            .flat_map(|stages| stages.board.warnings.clone())
            .collect(),
        look_again_at: stages.as_ref().and_then(Stages::look_again_at),
    };
    Decided {
        schedule,
        eligible_sets,
        available,
        stages,
    }
}

impl<'a> Stages<'a> {
    fn run(
        placement: &'a Placement,
        rules: &'a PlacementRules,
        fleet: &'a Fleet,
        available: &[u32],
        expressions: &'a dyn ClusterExpressions,
        now: Timestamp,
    ) -> Result<Self, Misconfigured> {
        let predicates = Predicates::compile(&rules.predicates, expressions, fleet)?;
        let decided = fleet.decided(&placement.key);
        let mut tainted = Vec::new();
        let mut candidates = Vec::new();
        let mut tolerated_until = Vec::new();
        for number in available {
            if !predicates.hold(*number, fleet) {
                continue;
            }
            let taints = &fleet.cluster(*number).taints;
            let is_new = || decided.binary_search(number).is_err();
            match tolerate(taints, &rules.tolerations, is_new, now) {
                Tolerance::Tolerated { until } => {
                    candidates.push(*number);
                    tolerated_until.push(until);
                }
                Tolerance::Refused(taint) => tainted.push((*number, taint)),
            }
        }
        let prioritizers = &rules.prioritizers;
        let board = Scoreboard::new(&placement.key, prioritizers, fleet, &candidates, now);
        let choice = choose(rules, fleet, &candidates, &board.totals);
        Ok(Self {
            predicates,
            spread_weight: rules.spread_weight,
            tainted,
            candidates,
            tolerated_until,
            board,
            choice,
        })
    }

    fn groups(&self, rules: &PlacementRules, fleet: &Fleet) -> Vec<ScheduledGroup> {
        let everyone: Vec<Chosen>;
        let chosen = match &self.choice {
            Choice::Some(chosen) => chosen,
            Choice::Everyone => {
                everyone = (0..self.candidates.len()).map(Chosen::unspread).collect();
                &everyone
            }
        };
        let mut selected: Vec<Selected> = chosen
            .iter()
            .map(|chosen| {
                let score = (rules.sort_by == SortBy::Score).then(|| self.total(*chosen));
                let score = score.map(|score| i32::try_from(score).unwrap_or(i32::MAX));
                (self.candidates[chosen.position], score)
            })
            .collect();
        selected.sort_unstable_by_key(|(number, score)| (Reverse(*score), *number));
        group::divide(&rules.groups, fleet, selected)
    }

    /// What a chosen candidate scores, the spread included.
    pub(super) fn total(&self, chosen: Chosen) -> i64 {
        let spread = i64::from(self.spread_weight) * i64::from(chosen.spread.unwrap_or(0));
        self.board.totals[chosen.position] + spread
    }

    fn look_again_at(&self) -> Option<Timestamp> {
        let tolerated = self.tolerated_until.iter().flatten().copied();
        tolerated.chain(self.board.valid_until).min()
    }
}

fn choose(rules: &PlacementRules, fleet: &Fleet, candidates: &[u32], totals: &[i64]) -> Choice {
    let limit = rules.number_of_clusters.unwrap_or(usize::MAX);
    if !rules.spread.is_empty() {
        let candidates: Vec<Candidate> = candidates
            .iter()
            .zip(totals)
            .map(|(number, total)| Candidate {
                cluster: fleet.cluster(*number),
                total: *total,
            })
            .collect();
        let weight = rules.spread_weight;
        return Choice::Some(spread::choose(&candidates, &rules.spread, weight, limit));
    }
    if limit >= candidates.len() {
        return Choice::Everyone;
    }
    let mut positions: Vec<usize> = (0..candidates.len()).collect();
    positions.sort_unstable_by_key(|position| (Reverse(totals[*position]), *position));
    positions.truncate(limit);
    Choice::Some(positions.into_iter().map(Chosen::unspread).collect())
}
