//! The status of a root policy, from its clusters.

use std::collections::BTreeMap;

use crate::objects::{ClusterStatus, Policy, PolicyStatus};
use polity_core::ClusterName;
use polity_core::governance::Compliance;
use polity_core::rollout_strategy::RolloutStatus;

use super::{ClusterPlan, Rollout, Turn};
use crate::place::Placed;

pub(super) fn root_status(
    placed: &Placed,
    replicas: &BTreeMap<ClusterName, Policy>,
    rollout: &Rollout,
) -> PolicyStatus {
    let clusters: Vec<ClusterStatus> = placed
        .clusters
        .iter()
        .map(|(cluster, place)| ClusterStatus {
            cluster: cluster.clone(),
            compliant: replicas
                .get(cluster)
                .and_then(|replica| replica.status.compliant),
            rollout_status: rollout.clusters.get(cluster).map(|plan| plan.status),
            remaining_bindings: place.remaining_bindings.clone(),
        })
        .collect();
    PolicyStatus {
        compliant: compliance(clusters.iter().map(|cluster| cluster.compliant)),
        rollout_status: rollout_status(rollout),
        placement: placed.placements.clone(),
        clusters,
        details: Vec::new(),
        rollout_step: None,
    }
}

/// The compliance of several as one: the worst that is known, and nothing while something is not known.
pub fn compliance(all: impl IntoIterator<Item = Option<Compliance>>) -> Option<Compliance> {
    let (mut any, mut pending, mut unknown) = (false, false, false);
    for one in all {
        any = true;
        match one {
            Some(Compliance::NonCompliant) => return Some(Compliance::NonCompliant),
            Some(Compliance::Pending) => pending = true,
            Some(Compliance::Compliant) => {}
            None => unknown = true,
        }
    }
    match (any, pending, unknown) {
        (false, ..) => None,
        (true, true, _) => Some(Compliance::Pending),
        (true, false, true) => None,
        (true, false, false) => Some(Compliance::Compliant),
    }
}

fn rollout_status(rollout: &Rollout) -> Option<RolloutStatus> {
    let any = |wanted: fn(&ClusterPlan) -> bool| rollout.clusters.values().any(wanted);
    if rollout.clusters.is_empty() {
        return None;
    }
    if rollout.breach || rollout.refused.is_some() {
        return Some(RolloutStatus::Failed);
    }
    let is_open = |cluster: &ClusterPlan| {
        matches!(
            cluster.status,
            RolloutStatus::ToApply | RolloutStatus::Progressing
        ) || matches!(cluster.turn, Turn::Soaking { .. })
    };
    if any(is_open) {
        return Some(RolloutStatus::Progressing);
    }
    Some(if any(|cluster| cluster.status.is_failure()) {
        RolloutStatus::Failed
    } else {
        RolloutStatus::Succeeded
    })
}
