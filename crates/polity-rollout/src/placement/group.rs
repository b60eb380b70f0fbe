//! Decision groups: divides the selected clusters into numbered groups and PlacementDecisions. See docs/spec/governance.md#6-4.

use std::sync::Arc;

use polity_core::ClusterName;
use polity_core::placement::GroupRules;
use polity_core::rollout_strategy::GroupKey;

use super::fleet::Fleet;
use super::{Decision, DecisionObject, ScheduledGroup};

/// The most clusters in one PlacementDecision.
pub const CLUSTERS_PER_DECISION: usize = 100;

/// A chosen cluster: its number, and its score where decisions carry it.
pub(super) type Selected = (u32, Option<i32>);

/// Divides the chosen clusters, which come in the order they have inside groups.
pub(super) fn divide(
    rules: &GroupRules,
    fleet: &Fleet,
    selected: Vec<Selected>,
) -> Vec<ScheduledGroup> {
    let size = rules.size.of(selected.len(), selected.len()).max(1);
    let mut groups = Vec::new();
    let mut rest = selected;
    for group in &rules.named {
        let is_in = |(number, _): &Selected| group.selector.matches(fleet.cluster(*number));
        let (members, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_in);
        cut(&mut groups, &group.name, &members, size, fleet);
        rest = others;
    }
    cut(&mut groups, "", &rest, size, fleet);
    if groups.is_empty() {
        groups.push(ScheduledGroup {
            key: GroupKey::new(0, ""),
            clusters: Vec::new(),
        });
    }
    groups
}

fn cut(
    groups: &mut Vec<ScheduledGroup>,
    name: &str,
    members: &[Selected],
    size: usize,
    fleet: &Fleet,
) {
    let name: Arc<str> = name.into();
    for chunk in members.chunks(size) {
        let decision = |(number, score): &Selected| Decision {
            cluster: ClusterName::clone(&fleet.cluster(*number).name),
            score: *score,
        };
        groups.push(ScheduledGroup {
            key: GroupKey::new(groups.len() as u32, Arc::clone(&name)),
            clusters: chunk.iter().map(decision).collect(),
        });
    }
}

/// Cuts groups into objects; an empty group still has one.
pub(super) fn decision_objects<'a>(
    groups: &'a [ScheduledGroup],
    placement_name: &str,
) -> Vec<DecisionObject<'a>> {
    let mut objects = Vec::new();
    for group in groups {
        let n_objects = group.clusters.len().div_ceil(CLUSTERS_PER_DECISION).max(1);
        for part in 0..n_objects {
            let start = part * CLUSTERS_PER_DECISION;
            let end = group.clusters.len().min(start + CLUSTERS_PER_DECISION);
            objects.push(DecisionObject {
                name: format!("{placement_name}-decision-{}", objects.len() + 1),
                group: &group.key,
                clusters: &group.clusters[start..end],
            });
        }
    }
    objects
}
