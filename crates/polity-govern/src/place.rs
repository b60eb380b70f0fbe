//! From bindings to clusters: which clusters get a root policy, and where a binding overrides its action.

mod decide;

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{
    Binding, PlacementKind, PlacementRef, PlacementStatus, Policy, PolicySet, SubjectKind,
};
use polity_api::policy::v1::RemediationAction;
use polity_core::ClusterName;
use polity_core::rollout_strategy::GroupKey;
use polity_rollout::DecisionGroups;

pub use decide::{Decided, decide};

/// What one placement decided. There is one for every Placement and PlacementRule that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions {
    pub namespace: String,
    pub placement: PlacementRef,
    pub groups: DecisionGroups,
    /// False while the decisions are being rewritten: their number differs from the status of the
    /// placement. No cluster counts as removed then.
    pub settled: bool,
}

/// Where a root policy goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    pub clusters: BTreeMap<ClusterName, PlacedCluster>,
    /// The groups of every placement that places the policy, with only the clusters it does place, in the order in
    /// which a rollout goes through them.
    pub sources: Vec<Source>,
    /// `status.placement` of the root.
    pub placements: Vec<PlacementStatus>,
    /// Bindings whose override or restriction the strategy of the policy sets aside.
    pub ignored_bindings: Vec<String>,
    /// Whether every placement is done with writing its decisions.
    pub settled: bool,
}

/// A cluster that a policy goes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedCluster {
    /// The action that a binding sets instead of the root's, as it is spelled there.
    pub override_action: Option<RemediationAction>,
    /// The bindings that place the policy here although a set keeps it away.
    pub remaining_bindings: Vec<String>,
}

/// The groups of one placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub placement: PlacementRef,
    pub groups: Vec<(GroupKey, Vec<ClusterName>)>,
}

/// The objects that place a policy.
#[derive(Debug, Clone, Copy)]
pub struct Bindings<'a> {
    pub bindings: &'a [Binding],
    pub policy_sets: &'a [PolicySet],
    pub decisions: &'a [Decisions],
}

/// Whether bindings may make a policy enforce. One function, so that another reading of the design is one edit.
fn overrides_count(root: &Policy) -> bool {
    !root.spec.is_progressive()
}

/// Places a root policy. A disabled one goes nowhere; its placements are listed all the same.
pub fn place(root: &Policy, bindings: Bindings<'_>) -> Placed {
    let relevant = relevant_bindings(root, bindings);
    let mut placed = Placed {
        settled: relevant
            .iter()
            .filter_map(|binding| binding.decisions)
            .all(|decisions| decisions.settled),
        ..Placed::default()
    };
    let overrides_count = overrides_count(root);
    let by_placement = place_unrestricted(root, &relevant, overrides_count, &mut placed);
    enforce_restricted(root, &relevant, overrides_count, &mut placed);
    note_remaining(root, &relevant, &mut placed);
    placed.placements = placements(root, &relevant, &placed.clusters);
    if root.spec.disabled {
        placed.clusters.clear();
    } else {
        placed.sources = sources(&relevant, &by_placement);
    }
    placed
}

/// A binding that is about the policy.
struct Relevant<'a> {
    binding: &'a Binding,
    placement: &'a PlacementRef,
    /// None when the placement does not exist.
    decisions: Option<&'a Decisions>,
    /// Whether a subject is the policy itself.
    direct: bool,
    sets: Vec<&'a PolicySet>,
}

impl Relevant<'_> {
    fn selected(&self) -> impl Iterator<Item = &ClusterName> {
        self.decisions
            .into_iter()
            .flat_map(|decisions| decisions.groups.iter())
            .flat_map(|group| &group.clusters)
    }

    /// Whether the binding brings the policy to a cluster that it selects.
    fn brings(&self, policy: &str, cluster: &ClusterName) -> bool {
        self.direct || self.sets.iter().any(|set| !set.excludes(policy, cluster))
    }
}

fn relevant_bindings<'a>(root: &Policy, all: Bindings<'a>) -> Vec<Relevant<'a>> {
    let mut found: Vec<Relevant<'a>> = all
        .bindings
        .iter()
        .filter(|binding| binding.namespace == root.namespace)
        .filter_map(|binding| relevance(root, binding, all))
        .collect();
    found.sort_by(|a, b| a.binding.name.cmp(&b.binding.name));
    found
}

fn relevance<'a>(root: &Policy, binding: &'a Binding, all: Bindings<'a>) -> Option<Relevant<'a>> {
    let placement = binding.placement.as_ref()?;
    let named = |kind: SubjectKind, name: &str| {
        let mut subjects = binding.subjects.iter();
        subjects.any(|subject| subject.kind == kind && subject.name == name)
    };
    let mut sets: Vec<&PolicySet> = all
        .policy_sets
        .iter()
        .filter(|set| set.namespace == root.namespace && named(SubjectKind::PolicySet, &set.name))
        .filter(|set| set.policies.contains(&root.name))
        .collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    let direct = named(SubjectKind::Policy, &root.name);
    (direct || !sets.is_empty()).then(|| Relevant {
        binding,
        placement,
        decisions: all.decisions.iter().find(|decisions| {
            decisions.namespace == root.namespace && decisions.placement == *placement
        }),
        direct,
        sets,
    })
}

/// Fills `placed.clusters`; answers which clusters each placement brings.
fn place_unrestricted<'a>(
    root: &Policy,
    relevant: &'a [Relevant<'a>],
    overrides_count: bool,
    placed: &mut Placed,
) -> BTreeMap<&'a PlacementRef, BTreeSet<&'a ClusterName>> {
    let mut by_placement: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for binding in relevant
        .iter()
        .filter(|relevant| !relevant.binding.restricted)
    {
        if binding.binding.enforces() && !overrides_count {
            placed.ignored_bindings.push(binding.binding.name.clone());
        }
        let brought = by_placement.entry(binding.placement).or_default();
        for cluster in binding
            .selected()
            .filter(|cluster| binding.brings(&root.name, cluster))
        {
            brought.insert(cluster);
            let entry = placed.clusters.entry(cluster.clone()).or_default();
            if overrides_count && binding.binding.enforces() && entry.override_action.is_none() {
                entry.override_action = binding.binding.override_action;
            }
        }
    }
    by_placement
}

fn enforce_restricted(
    root: &Policy,
    relevant: &[Relevant<'_>],
    overrides_count: bool,
    placed: &mut Placed,
) {
    for binding in relevant
        .iter()
        .filter(|relevant| relevant.binding.restricted)
    {
        if !overrides_count {
            placed.ignored_bindings.push(binding.binding.name.clone());
            continue;
        }
        if !binding.binding.enforces() {
            continue;
        }
        for cluster in binding
            .selected()
            .filter(|cluster| binding.brings(&root.name, cluster))
        {
            if let Some(entry) = placed.clusters.get_mut(cluster)
                && entry.override_action.is_none()
            {
                entry.override_action = binding.binding.override_action;
            }
        }
    }
    placed.ignored_bindings.sort();
}

fn note_remaining(root: &Policy, relevant: &[Relevant<'_>], placed: &mut Placed) {
    let mut excluded: BTreeSet<&ClusterName> = BTreeSet::new();
    for binding in relevant
        .iter()
        .filter(|relevant| !relevant.binding.restricted)
    {
        let somewhere = |cluster: &&ClusterName| {
            binding
                .sets
                .iter()
                .any(|set| set.excludes(&root.name, cluster))
        };
        excluded.extend(binding.selected().filter(somewhere));
    }
    for binding in relevant
        .iter()
        .filter(|relevant| !relevant.binding.restricted)
    {
        for cluster in binding
            .selected()
            .filter(|cluster| excluded.contains(cluster))
        {
            if binding.brings(&root.name, cluster)
                && let Some(entry) = placed.clusters.get_mut(cluster)
            {
                entry.remaining_bindings.push(binding.binding.name.clone());
            }
        }
    }
    for entry in placed.clusters.values_mut() {
        entry.remaining_bindings.dedup();
    }
}

fn placements(
    root: &Policy,
    relevant: &[Relevant<'_>],
    placed: &BTreeMap<ClusterName, PlacedCluster>,
) -> Vec<PlacementStatus> {
    let mut entries = Vec::new();
    for binding in relevant {
        if binding.binding.restricted
            && !binding
                .selected()
                .any(|cluster| placed.contains_key(cluster))
        {
            continue;
        }
        let name = binding.decisions.map(|_| binding.placement.name.clone());
        let (placement, placement_rule) = match binding.placement.kind {
            PlacementKind::Placement => (name, None),
            PlacementKind::PlacementRule => (None, name),
        };
        let entry = PlacementStatus {
            binding: binding.binding.name.clone(),
            placement,
            placement_rule,
            policy_set: None,
            exclusions: Vec::new(),
        };
        for set in &binding.sets {
            let mut exclusions: Vec<ClusterName> = binding
                .selected()
                .filter(|cluster| set.excludes(&root.name, cluster))
                .cloned()
                .collect();
            exclusions.sort();
            entries.push(PlacementStatus {
                policy_set: Some(set.name.clone()),
                exclusions,
                ..entry.clone()
            });
        }
        if binding.direct {
            entries.push(entry);
        }
    }
    entries.sort_by_cached_key(sort_text);
    entries
}

fn sort_text(entry: &PlacementStatus) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    format!(
        "{} {} {} {}",
        entry.binding,
        text(&entry.placement),
        text(&entry.placement_rule),
        text(&entry.policy_set)
    )
}

fn sources(
    relevant: &[Relevant<'_>],
    by_placement: &BTreeMap<&PlacementRef, BTreeSet<&ClusterName>>,
) -> Vec<Source> {
    let mut sources = Vec::new();
    // The map is ordered by name, then kind: the order of the rollout.
    for (placement, brought) in by_placement {
        let Some(decisions) = relevant
            .iter()
            .find(|binding| binding.placement == *placement)
            .and_then(|binding| binding.decisions)
        else {
            continue;
        };
        let groups = decisions.groups.iter().map(|group| {
            let clusters = group
                .clusters
                .iter()
                .filter(|cluster| brought.contains(cluster));
            (group.key.clone(), clusters.cloned().collect())
        });
        sources.push(Source {
            placement: (*placement).clone(),
            groups: groups.collect(),
        });
    }
    sources
}

#[cfg(test)]
mod tests;
