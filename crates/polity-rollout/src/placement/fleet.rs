//! What placements choose from, put in order once for any number of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, SetMembers};
use polity_core::placement::{ClusterSelector, Placement, PlacementDecision, PlacementKey};
use polity_core::selector::LabelSelector;
use polity_core::{ClusterName, ManagedCluster};

use super::label_index::{ClusterNumbers, LabelIndex};

/// Everything that scheduling looks at, in any order.
#[derive(Debug, Clone, Default)]
pub struct FleetParts {
    pub clusters: Vec<ManagedCluster>,
    /// The sets `default` and `global` exist in every fleet and may be left out.
    pub sets: Vec<ClusterSet>,
    pub bindings: Vec<ClusterSetBinding>,
    pub scores: Vec<AddOnScores>,
    /// The decisions that stand at present, of all placements.
    pub decisions: Vec<PlacementDecision>,
}

/// A fleet, indexed. Clusters are numbered in the order of their names.
#[derive(Debug, Clone)]
pub struct Fleet {
    clusters: Vec<ManagedCluster>,
    /// The numbers of the clusters of each set that are not on their way out.
    members: BTreeMap<String, Vec<u32>>,
    /// The sets that exist and are bound to a namespace.
    bound: HashMap<String, BTreeSet<String>>,
    scores: HashMap<String, HashMap<ClusterName, AddOnScores>>,
    /// Made when a placement first asks for labels, or for claims.
    labels: OnceLock<LabelIndex>,
    claims: OnceLock<LabelIndex>,
    /// In order.
    decided: HashMap<PlacementKey, Vec<u32>>,
    /// In how many decisions each cluster stands. Names that are no cluster any more are numbered behind the clusters.
    n_decided: Vec<u32>,
}

impl From<FleetParts> for Fleet {
    fn from(parts: FleetParts) -> Self {
        let FleetParts {
            mut clusters,
            sets,
            bindings,
            scores,
            decisions,
        } = parts;
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        clusters.dedup_by(|later, first| later.name == first.name);
        let members = members(&clusters, sets);
        let mut bound: HashMap<String, BTreeSet<String>> = HashMap::new();
        for binding in bindings {
            if members.contains_key(&binding.cluster_set) {
                let sets = bound.entry(binding.namespace).or_default();
                sets.insert(binding.cluster_set);
            }
        }
        let mut by_resource: HashMap<String, HashMap<ClusterName, AddOnScores>> = HashMap::new();
        for scores in scores {
            let by_cluster = by_resource.entry(scores.resource_name.clone());
            by_cluster
                .or_default()
                .insert(scores.cluster.clone(), scores);
        }
        let (decided, n_decided) = count_decisions(&clusters, decisions);
        Self {
            clusters,
            members,
            bound,
            scores: by_resource,
            labels: OnceLock::new(),
            claims: OnceLock::new(),
            decided,
            n_decided,
        }
    }
}

impl Fleet {
    /// The clusters in the order of their names.
    pub fn clusters(&self) -> &[ManagedCluster] {
        &self.clusters
    }

    pub(super) fn cluster(&self, number: u32) -> &ManagedCluster {
        &self.clusters[number as usize]
    }

    /// The sets that exist and are bound to the placement's namespace.
    pub(super) fn bound_sets(&self, placement: &Placement) -> Option<&BTreeSet<String>> {
        self.bound.get(&placement.key.namespace)
    }

    /// The bound sets that the placement asks for.
    pub(super) fn eligible_sets(&self, placement: &Placement) -> Vec<&str> {
        let wanted = &placement.cluster_sets;
        self.bound_sets(placement)
            .into_iter()
            .flatten()
            .filter(|set| wanted.is_empty() || wanted.contains(set))
            .map(String::as_str)
            .collect()
    }

    /// The clusters of these sets, each once, in order, without those on their way out.
    pub(super) fn available(&self, sets: &[&str]) -> Vec<u32> {
        let mut available: Vec<u32> = sets
            .iter()
            .filter_map(|set| self.members.get(*set))
            .flatten()
            .copied()
            .collect();
        if sets.len() > 1 {
            available.sort_unstable();
            available.dedup();
        }
        available
    }

    /// The clusters that a selector means; none when it means all of them.
    pub(super) fn matching(&self, selector: &ClusterSelector) -> Option<ClusterNumbers> {
        let ask = |selector: &LabelSelector,
                   index: &OnceLock<LabelIndex>,
                   labels: fn(&ManagedCluster) -> &BTreeMap<String, String>| {
            let make = || LabelIndex::new(self.clusters.iter().map(labels));
            let is_asked = !selector.is_everything();
            is_asked.then(|| index.get_or_init(make).matching(selector))?
        };
        let labels = ask(&selector.labels, &self.labels, |cluster| &cluster.labels);
        let claims = ask(&selector.claims, &self.claims, |cluster| &cluster.claims);
        match (labels, claims) {
            (Some(mut labels), Some(claims)) => {
                labels.keep(&claims);
                Some(labels)
            }
            (labels, claims) => labels.or(claims),
        }
    }

    /// The sets that a cluster is in.
    pub(super) fn sets_of(&self, number: u32) -> Vec<&str> {
        let members = self.members.iter();
        members
            .filter(|(_, members)| members.binary_search(&number).is_ok())
            .map(|(set, _)| set.as_str())
            .collect()
    }

    pub(super) fn score(&self, resource_name: &str, cluster: &ClusterName) -> Option<&AddOnScores> {
        self.scores.get(resource_name)?.get(cluster)
    }

    /// The clusters that a placement has at present, in order.
    pub(super) fn decided(&self, placement: &PlacementKey) -> &[u32] {
        self.decided.get(placement).map_or(&[], Vec::as_slice)
    }

    /// In how many decisions of other placements each cluster stands, and the highest of these numbers.
    pub(super) fn decided_by_others(&self, placement: &PlacementKey) -> (Vec<u32>, u32) {
        let mut counts = self.n_decided.clone();
        for number in self.decided(placement) {
            counts[*number as usize] -= 1;
        }
        let highest = counts.iter().copied().max().unwrap_or(0);
        (counts, highest)
    }
}

fn members(clusters: &[ManagedCluster], sets: Vec<ClusterSet>) -> BTreeMap<String, Vec<u32>> {
    let staying = || {
        (0..)
            .zip(clusters)
            .filter(|(_, cluster)| !cluster.is_deleting)
    };
    let mut exclusive: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, cluster) in staying() {
        exclusive
            .entry(cluster.exclusive_set())
            .or_default()
            .push(number);
    }
    let members_of = |set: &ClusterSet| match &set.members {
        SetMembers::Exclusive => exclusive
            .get(set.name.as_str())
            .cloned()
            .unwrap_or_default(),
        SetMembers::Labels(_) => staying()
            .filter(|(_, cluster)| set.contains(cluster))
            .map(|(number, _)| number)
            .collect(),
    };
    let mut members = BTreeMap::new();
    for set in sets.into_iter().chain(ClusterSet::built_in()) {
        let of_set = || members_of(&set);
        members.entry(set.name.clone()).or_insert_with(of_set);
    }
    members
}

/// The clusters of each placement, and how often each cluster is decided.
fn count_decisions(
    clusters: &[ManagedCluster],
    decisions: Vec<PlacementDecision>,
) -> (HashMap<PlacementKey, Vec<u32>>, Vec<u32>) {
    let mut numbers: HashMap<ClusterName, u32> = clusters
        .iter()
        .zip(0..)
        .map(|(cluster, number)| (cluster.name.clone(), number))
        .collect();
    let mut decided: HashMap<PlacementKey, Vec<u32>> = HashMap::new();
    for decision in decisions {
        let decided = decided.entry(decision.placement).or_default();
        for cluster in decision.clusters {
            let next = numbers.len() as u32;
            decided.push(*numbers.entry(cluster).or_insert(next));
        }
    }
    let mut counts = vec![0; numbers.len()];
    for clusters in decided.values_mut() {
        clusters.sort_unstable();
        clusters.dedup();
        for number in clusters {
            counts[*number as usize] += 1;
        }
    }
    (decided, counts)
}
