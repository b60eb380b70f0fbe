//! Decision groups: the chosen clusters of a placement, divided and numbered.

use std::collections::BTreeMap;

use polity_core::ClusterName;
use polity_core::rollout_strategy::{GroupKey, GroupReference};

/// The groups in order of their index. A cluster is in one group only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionGroups {
    groups: Vec<DecisionGroup>,
    /// Every cluster with the position in `groups` of its group, in the order of names.
    by_name: Vec<(ClusterName, usize)>,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionGroup {
    pub key: GroupKey,
    /// In order, each once.
    pub clusters: Vec<ClusterName>,
}

impl DecisionGroups {
    /// Gathers groups from their parts, in any order: a large group stands in several PlacementDecisions.
    ///
    /// While decisions are being rewritten a cluster may stand in two groups; it counts in the one with the lower
    /// index. A group that is left empty stays, as its index means something.
    pub fn gather<C: Into<ClusterName>>(
        parts: impl IntoIterator<Item = (GroupKey, impl IntoIterator<Item = C>)>,
    ) -> Self {
        let mut by_key: BTreeMap<GroupKey, Vec<ClusterName>> = BTreeMap::new();
        for (key, clusters) in parts {
            let group = by_key.entry(key).or_default();
            group.extend(clusters.into_iter().map(Into::into));
        }
        let mut groups = Vec::with_capacity(by_key.len());
        let mut by_name = Vec::new();
        for (position, (key, clusters)) in by_key.into_iter().enumerate() {
            by_name.extend(clusters.into_iter().map(|cluster| (cluster, position)));
            let clusters = Vec::new();
            groups.push(DecisionGroup { key, clusters });
        }
        by_name.sort_unstable();
        by_name.dedup_by(|later, first| later.0 == first.0);
        for (cluster, position) in &by_name {
            groups[*position].clusters.push(cluster.clone());
        }
        Self { groups, by_name }
    }

    /// All clusters as one group without a name: what a source that knows no groups decides.
    pub fn single<C: Into<ClusterName>>(clusters: impl IntoIterator<Item = C>) -> Self {
        Self::gather([(GroupKey::new(0, ""), clusters)])
    }

    /// The groups by index.
    pub fn iter(&self) -> std::slice::Iter<'_, DecisionGroup> {
        self.groups.iter()
    }

    /// How many groups there are, empty ones included.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many clusters there are.
    pub fn n_clusters(&self) -> usize {
        self.by_name.len()
    }

    /// The group a cluster is in.
    pub fn group_of(&self, cluster: &str) -> Option<&GroupKey> {
        let found = self.position(cluster)?;
        Some(&self.groups[self.by_name[found].1].key)
    }

    /// Whether a cluster is in one of the groups.
    pub fn contains(&self, cluster: &str) -> bool {
        self.position(cluster).is_some()
    }

    fn position(&self, cluster: &str) -> Option<usize> {
        let place = |(name, _): &(ClusterName, usize)| name.as_str().cmp(cluster);
        self.by_name.binary_search_by(place).ok()
    }

    /// The group at a position that [`DecisionGroups::by_name`] names.
    pub(crate) fn at(&self, position: usize) -> &DecisionGroup {
        &self.groups[position]
    }

    /// Every cluster with the position of its group among [`DecisionGroups::iter`], in the order of names.
    pub(crate) fn by_name(&self) -> &[(ClusterName, usize)] {
        &self.by_name
    }

    /// The references that mean no group with clusters in it: a rollout goes on without them, its owner should know.
    pub fn unmatched<'r>(&self, references: &'r [GroupReference]) -> Vec<&'r GroupReference> {
        references
            .iter()
            .filter(|reference| {
                !self
                    .groups
                    .iter()
                    .any(|group| !group.clusters.is_empty() && group.key.is_meant_by(reference))
            })
            .collect()
    }
}

impl<'a> IntoIterator for &'a DecisionGroups {
    type Item = &'a DecisionGroup;
    type IntoIter = std::slice::Iter<'a, DecisionGroup>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_in_two_groups_counts_in_the_lower_one() {
        let groups = DecisionGroups::gather([
            (GroupKey::new(1, ""), vec!["b", "a"]),
            (GroupKey::new(0, "can"), vec!["c", "a", "c"]),
            (GroupKey::new(1, ""), vec!["d"]),
        ]);
        let shown: Vec<_> = groups
            .iter()
            .map(|group| format!("{} {:?}", group.key, group.clusters))
            .collect();
        assert_eq!(shown, [r#"#0 can ["a", "c"]"#, r#"#1 ["b", "d"]"#]);
        assert_eq!(groups.group_of("a").unwrap().index, 0);
        assert_eq!(groups.n_clusters(), 4);
        assert!(!groups.contains("e"));
    }

    #[test]
    fn references_to_nothing() {
        let groups = DecisionGroups::gather([
            (GroupKey::new(0, "can"), vec!["a"]),
            (GroupKey::new(1, "none"), vec![]),
        ]);
        let references = [
            GroupReference::Name("can".to_owned()),
            GroupReference::Name("none".to_owned()),
            GroupReference::Index(0),
            GroupReference::Index(7),
        ];
        assert_eq!(
            groups.unmatched(&references),
            [&references[1], &references[3]]
        );
    }
}
