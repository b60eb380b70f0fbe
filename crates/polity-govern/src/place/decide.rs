//! What all placements have decided: given decisions as they stand, the others as the scheduler decides now.

use std::collections::HashMap;

use crate::objects::{PlacementKind, PlacementRef};
use jiff::Timestamp;
use polity_core::placement::{Placement, PlacementDecision, PlacementKey};
use polity_rollout::placement::ClusterExpressions;
use polity_rollout::{DecisionGroups, Fleet, schedule};

use super::Decisions;

/// The decisions of placements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// One for each placement, in their order.
    pub decisions: Vec<Decisions>,
    /// The invalid placements, which select no cluster, with the reason.
    pub misconfigured: Vec<(PlacementKey, String)>,
    /// When the first of them would decide otherwise by itself.
    pub look_again_at: Option<Timestamp>,
}

/// Decides for placements. One that has decisions among `given` is not scheduled: these are taken as they are.
pub fn decide<'a>(
    placements: impl IntoIterator<Item = &'a Placement>,
    given: &[PlacementDecision],
    fleet: &Fleet,
    expressions: &dyn ClusterExpressions,
    now: Timestamp,
) -> Decided {
    let mut given_to: HashMap<&PlacementKey, Vec<&PlacementDecision>> = HashMap::new();
    for decision in given {
        given_to
            .entry(&decision.placement)
            .or_default()
            .push(decision);
    }
    let mut decided = Decided::default();
    for placement in placements {
        let groups = match given_to.get(&placement.key) {
            Some(given) => DecisionGroups::gather(
                given
                    .iter()
                    .map(|decision| (decision.group.clone(), decision.clusters.iter().cloned())),
            ),
            None => decided.schedule(placement, fleet, expressions, now),
        };
        decided.decisions.push(Decisions {
            namespace: placement.key.namespace.clone(),
            placement: PlacementRef {
                name: placement.key.name.clone(),
                kind: PlacementKind::Placement,
            },
            groups,
            settled: true,
        });
    }
    decided
}

impl Decided {
    fn schedule(
        &mut self,
        placement: &Placement,
        fleet: &Fleet,
        expressions: &dyn ClusterExpressions,
        now: Timestamp,
    ) -> DecisionGroups {
        let schedule = schedule(placement, fleet, expressions, now);
        let ends = [self.look_again_at, schedule.look_again_at];
        self.look_again_at = ends.into_iter().flatten().min();
        if schedule.misconfigured.is_true {
            let why = schedule.misconfigured.message.clone();
            self.misconfigured.push((placement.key.clone(), why));
        }
        schedule.decision_groups()
    }
}
