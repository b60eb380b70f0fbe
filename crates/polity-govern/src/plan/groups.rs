//! The decision groups of all placements as the one list that the engine knows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use polity_core::ClusterName;
use polity_core::rollout_strategy::{GroupKey, GroupReference, RolloutStatus, RolloutStrategy};
use polity_rollout::DecisionGroups;

use super::{ClusterPlan, Turn};
use crate::place::Source;

/// Groups of several placements, one placement after the other, numbered from 0.
pub(super) struct Groups {
    pub(super) decided: DecisionGroups,
    /// The index in its own placement of each group of the list.
    own_indexes: Vec<u32>,
    /// Where each cluster counts, those that are left out included.
    places: BTreeMap<ClusterName, (String, GroupKey)>,
}

impl Groups {
    /// Concatenates the groups. A cluster that stands in two counts in the first.
    pub(super) fn of(sources: &[Source], left_out: &BTreeSet<ClusterName>) -> Self {
        let mut places = BTreeMap::new();
        let mut own_indexes = Vec::new();
        let mut parts: Vec<(GroupKey, Vec<ClusterName>)> = Vec::new();
        for source in sources {
            for (own, clusters) in &source.groups {
                let index = u32::try_from(own_indexes.len()).unwrap_or(u32::MAX);
                own_indexes.push(own.index);
                let key = GroupKey::new(index, own.name.clone());
                for cluster in clusters {
                    let place = || (source.placement.name.clone(), key.clone());
                    places.entry(cluster.clone()).or_insert_with(place);
                }
                let here = clusters
                    .iter()
                    .filter(|cluster| !left_out.contains(*cluster));
                parts.push((key, here.cloned().collect()));
            }
        }
        Self {
            decided: DecisionGroups::gather(parts),
            own_indexes,
            places,
        }
    }

    /// The strategy with its mandatory indexes as indexes of the list: an index means the group of the first
    /// placement that has it.
    pub(super) fn translate(&self, strategy: &RolloutStrategy) -> RolloutStrategy {
        let mut strategy = strategy.clone();
        if let Some(references) = strategy.mandatory_groups_mut() {
            *references = references
                .iter()
                .filter_map(|reference| self.translate_one(reference))
                .collect();
        }
        strategy
    }

    fn translate_one(&self, reference: &GroupReference) -> Option<GroupReference> {
        match reference {
            GroupReference::Name(_) => Some(reference.clone()),
            GroupReference::Index(own) => {
                let own = u32::try_from(*own).ok()?;
                let position = self.own_indexes.iter().position(|index| *index == own)?;
                Some(GroupReference::Index(i32::try_from(position).ok()?))
            }
        }
    }

    /// The mandatory groups that do not exist or are empty: the rollout goes on without them.
    pub(super) fn unmatched<'s>(&self, strategy: &'s RolloutStrategy) -> Vec<&'s GroupReference> {
        let means_nothing = |reference: &&GroupReference| {
            self.translate_one(reference).is_none_or(|translated| {
                !self
                    .decided
                    .unmatched(std::slice::from_ref(&translated))
                    .is_empty()
            })
        };
        strategy
            .mandatory_groups()
            .iter()
            .filter(means_nothing)
            .collect()
    }

    pub(super) fn entry(
        &self,
        cluster: &ClusterName,
        turn: Turn,
        status: RolloutStatus,
        since: Option<Timestamp>,
    ) -> ClusterPlan {
        let place = self.places.get(cluster).cloned();
        let (placement, group) = place.unwrap_or_else(|| (String::new(), GroupKey::new(0, "")));
        ClusterPlan {
            placement,
            group,
            turn,
            status,
            since,
        }
    }
}
