//! The writes that bring the PlacementDecisions of a Placement to its schedule. See docs/spec/governance.md#6-4.
//!
//! Readers delete the workload of a cluster that is in no decision, so a cluster that moves from one object to another
//! is added to its new object before it is removed from the old one.

use std::collections::{BTreeMap, BTreeSet};

use polity_core::rollout_strategy::GroupKey;
use polity_rollout::placement::{Decision, Schedule};

/// A PlacementDecision as it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingDecision {
    pub name: String,
    /// `None` when its labels name no group.
    pub group: Option<GroupKey>,
    pub clusters: Vec<Decision>,
}

/// One write of a PlacementDecision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionWrite {
    /// Creates the object with the labels of its group, still without clusters.
    Create {
        name: String,
        group: GroupKey,
    },
    /// Sets the labels of the group on an object whose clusters were removed before.
    Relabel {
        name: String,
        group: GroupKey,
    },
    /// Sets the clusters.
    SetClusters {
        name: String,
        clusters: Vec<Decision>,
    },
    Delete {
        name: String,
    },
}

/// The writes from the existing decisions to those of a schedule, in order.
///
/// After every one of them, each cluster that is selected before and after is in at least one object; the only exception
/// is an object that becomes part of another group. The clusters of such an object are removed first, so that no reader
/// takes them for members of the other group. The number of clusters then differs from the number in the status of the
/// Placement, and readers wait.
pub fn decision_writes(
    placement_name: &str,
    schedule: &Schedule,
    existing: &[ExistingDecision],
) -> Vec<DecisionWrite> {
    let objects = schedule.decision_objects(placement_name);
    let mut state: BTreeMap<&str, Vec<Decision>> = existing
        .iter()
        .map(|decision| (decision.name.as_str(), decision.clusters.clone()))
        .collect();
    let groups: BTreeMap<&str, Option<&GroupKey>> = existing
        .iter()
        .map(|decision| (decision.name.as_str(), decision.group.as_ref()))
        .collect();
    let mut writes = Vec::new();
    for object in &objects {
        let name = object.name.clone();
        match groups.get(object.name.as_str()) {
            None => writes.push(DecisionWrite::Create {
                name,
                group: object.group.clone(),
            }),
            Some(group) if *group == Some(object.group) => {}
            Some(_) => {
                if state
                    .insert(object.name.as_str(), Vec::new())
                    .is_some_and(|clusters| !clusters.is_empty())
                {
                    writes.push(DecisionWrite::SetClusters {
                        name: name.clone(),
                        clusters: Vec::new(),
                    });
                }
                writes.push(DecisionWrite::Relabel {
                    name,
                    group: object.group.clone(),
                });
            }
        }
    }
    let wanted: Vec<(&str, &[Decision])> = objects
        .iter()
        .map(|object| (object.name.as_str(), object.clusters))
        .collect();
    let is_wanted: BTreeSet<&str> = wanted.iter().map(|(name, _)| *name).collect();
    writes.extend(Mover::new(state, wanted).run());
    let surplus = existing
        .iter()
        .map(|decision| decision.name.as_str())
        .filter(|name| !is_wanted.contains(name));
    writes.extend(surplus.map(|name| DecisionWrite::Delete {
        name: name.to_owned(),
    }));
    writes
}

/// Finds an order in which no cluster is missing in between.
struct Mover<'a> {
    state: BTreeMap<&'a str, Vec<Decision>>,
    /// The objects that are not written yet, with their clusters.
    open: Vec<(&'a str, &'a [Decision])>,
    /// The number of objects that each selected cluster is in at present.
    n_objects: BTreeMap<String, usize>,
}

impl<'a> Mover<'a> {
    fn new(
        state: BTreeMap<&'a str, Vec<Decision>>,
        wanted: Vec<(&'a str, &'a [Decision])>,
    ) -> Self {
        let selected = wanted.iter().flat_map(|(_, clusters)| clusters.iter());
        let mut n_objects: BTreeMap<String, usize> = selected
            .map(|decision| (decision.cluster.to_string(), 0))
            .collect();
        for decision in state.values().flatten() {
            if let Some(n) = n_objects.get_mut(decision.cluster.as_str()) {
                *n += 1;
            }
        }
        let open = wanted
            .into_iter()
            .filter(|(name, clusters)| {
                let found = state.get(name).map_or(&[][..], Vec::as_slice);
                found != *clusters
            })
            .collect();
        Self {
            state,
            open,
            n_objects,
        }
    }

    fn run(mut self) -> Vec<DecisionWrite> {
        let mut writes = Vec::new();
        while !self.open.is_empty() {
            let safe = self
                .open
                .iter()
                .position(|(name, clusters)| self.loses(name, clusters).is_empty());
            match safe {
                Some(position) => {
                    let (name, clusters) = self.open.remove(position);
                    writes.push(self.set(name, clusters.to_vec()));
                }
                // Clusters change places: the first object keeps those that leave it until they have arrived.
                None => {
                    let (name, clusters) = self.open[0];
                    let mut all = clusters.to_vec();
                    all.extend(self.loses(name, clusters));
                    writes.push(self.set(name, all));
                }
            }
        }
        writes
    }

    /// The selected clusters that would be in no object if this one were written now.
    fn loses(&self, name: &str, clusters: &[Decision]) -> Vec<Decision> {
        let current = self.state.get(name).map_or(&[][..], Vec::as_slice);
        let stays: BTreeSet<&str> = clusters.iter().map(|it| it.cluster.as_str()).collect();
        current
            .iter()
            .filter(|decision| !stays.contains(decision.cluster.as_str()))
            .filter(|decision| self.n_objects.get(decision.cluster.as_str()) == Some(&1))
            .cloned()
            .collect()
    }

    fn set(&mut self, name: &'a str, clusters: Vec<Decision>) -> DecisionWrite {
        let before = self
            .state
            .insert(name, clusters.clone())
            .unwrap_or_default();
        for decision in &before {
            if let Some(n) = self.n_objects.get_mut(decision.cluster.as_str()) {
                *n -= 1;
            }
        }
        for decision in &clusters {
            if let Some(n) = self.n_objects.get_mut(decision.cluster.as_str()) {
                *n += 1;
            }
        }
        DecisionWrite::SetClusters {
            name: name.to_owned(),
            clusters,
        }
    }
}

#[cfg(test)]
mod tests;
