//! The status of a policy set, from the policies in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Binding, PlacementKind, Policy, PolicySet, SubjectKind};
use polity_core::ClusterName;
use polity_core::governance::Compliance;

use crate::place::Decisions;

/// What is known about a policy set.
#[derive(Debug, Clone, Copy)]
pub struct ObservedSet<'a> {
    pub set: &'a PolicySet,
    /// The root policies of its namespace.
    pub policies: &'a BTreeMap<String, Policy>,
    pub bindings: &'a [Binding],
    pub decisions: &'a [Decisions],
}

/// What a policy set shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetStatus {
    pub compliant: Option<Compliance>,
    pub message: String,
    /// Bindings that place the set: name, kind and name of the placement.
    pub placement: Vec<SetPlacement>,
    /// Clusters that members stay away from, among those selected.
    pub exclusions: Vec<(String, Vec<ClusterName>)>,
    /// Members that do not exist, for the event `PolicyNotFound`.
    pub missing: Vec<String>,
}

/// A binding that places a set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetPlacement {
    pub binding: String,
    pub placement: Option<String>,
    pub placement_rule: Option<String>,
}

/// Reason of the event for missing members.
pub const POLICY_NOT_FOUND: &str = "PolicyNotFound";
/// Reason of the event after the status was written.
pub const STATUS_UPDATE: &str = "PolicySetStatusUpdate";

/// The status of a set.
pub fn status(observed: ObservedSet<'_>) -> SetStatus {
    let set = observed.set;
    if set.policies.is_empty() {
        return SetStatus::default();
    }
    let bindings: Vec<&Binding> = observed
        .bindings
        .iter()
        .filter(|binding| binding.namespace == set.namespace && names_set(binding, &set.name))
        .collect();
    let selected = selected_clusters(&bindings, observed);
    let mut members = Members::default();
    for name in &set.policies {
        members.add(name, set, observed.policies.get(name), &selected);
    }
    let exclusions = exclusions(set, &selected);
    SetStatus {
        compliant: members.compliance(),
        message: members.message(!exclusions.is_empty()),
        placement: placement(&bindings, observed),
        exclusions,
        missing: members.deleted,
    }
}

fn names_set(binding: &Binding, set: &str) -> bool {
    let mut subjects = binding.subjects.iter();
    subjects.any(|subject| subject.kind == SubjectKind::PolicySet && subject.name == set)
}

fn decisions_of<'a>(binding: &Binding, observed: ObservedSet<'a>) -> Option<&'a Decisions> {
    let placement = binding.placement.as_ref()?;
    let mut all = observed.decisions.iter();
    all.find(|decisions| {
        decisions.namespace == binding.namespace && decisions.placement == *placement
    })
}

/// Clusters of the bindings that place the set; a restricted one places nothing.
fn selected_clusters<'a>(
    bindings: &[&Binding],
    observed: ObservedSet<'a>,
) -> BTreeSet<&'a ClusterName> {
    bindings
        .iter()
        .filter(|binding| !binding.restricted)
        .filter_map(|binding| decisions_of(binding, observed))
        .flat_map(|decisions| decisions.groups.iter())
        .flat_map(|group| &group.clusters)
        .collect()
}

fn exclusions(
    set: &PolicySet,
    selected: &BTreeSet<&ClusterName>,
) -> Vec<(String, Vec<ClusterName>)> {
    let here = |clusters: &[ClusterName]| {
        let unique: BTreeSet<&ClusterName> = clusters
            .iter()
            .filter(|cluster| selected.contains(cluster))
            .collect();
        unique.into_iter().cloned().collect::<Vec<_>>()
    };
    set.exclusions
        .iter()
        .map(|exclusion| (exclusion.policy.clone(), here(&exclusion.clusters)))
        .filter(|(_, clusters)| !clusters.is_empty())
        .collect()
}

fn placement(bindings: &[&Binding], observed: ObservedSet<'_>) -> Vec<SetPlacement> {
    let mut placement: Vec<SetPlacement> = bindings
        .iter()
        .filter_map(|binding| {
            let reference = binding.placement.as_ref()?;
            let name = decisions_of(binding, observed).map(|_| reference.name.clone());
            let (placement, placement_rule) = match reference.kind {
                PlacementKind::Placement => (name, None),
                PlacementKind::PlacementRule => (None, name),
            };
            Some(SetPlacement {
                binding: binding.name.clone(),
                placement,
                placement_rule,
            })
        })
        .collect();
    placement.sort();
    placement
}

/// The members by what is to be said about them, each in the order of the set.
#[derive(Default)]
struct Members {
    states: Vec<Compliance>,
    pending: Vec<String>,
    disabled: Vec<String>,
    unknown: Vec<String>,
    deleted: Vec<String>,
}

impl Members {
    fn add(
        &mut self,
        name: &str,
        set: &PolicySet,
        policy: Option<&Policy>,
        selected: &BTreeSet<&ClusterName>,
    ) {
        let Some(policy) = policy else {
            return self.deleted.push(name.to_owned());
        };
        if policy.spec.disabled {
            return self.disabled.push(name.to_owned());
        }
        let here = policy
            .status
            .clusters
            .iter()
            .filter(|entry| {
                selected.contains(&entry.cluster) && !set.excludes(name, &entry.cluster)
            })
            .filter_map(|entry| entry.compliant);
        match worst(here) {
            None => self.unknown.push(name.to_owned()),
            Some(state) => {
                if state == Compliance::Pending {
                    self.pending.push(name.to_owned());
                }
                self.states.push(state);
            }
        }
    }

    fn compliance(&self) -> Option<Compliance> {
        if self.unknown.is_empty() {
            worst(self.states.iter().copied())
        } else {
            None
        }
    }

    fn message(&self, has_exclusions: bool) -> String {
        let mut parts: Vec<String> = [
            ("Policies awaiting pending dependencies", &self.pending),
            ("Disabled policies", &self.disabled),
            (
                "No status provided while awaiting policy status",
                &self.unknown,
            ),
            ("Deleted policies", &self.deleted),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(words, names)| format!("{words}: {}", names.join(", ")))
        .collect();
        if parts.is_empty() {
            parts.push("All policies are reporting status".to_owned());
        }
        if has_exclusions {
            parts.push(
                "One or more policies were excluded. For details, see status.exclusions."
                    .to_owned(),
            );
        }
        parts.join("; ")
    }
}

/// NonCompliant beats Pending beats Compliant; nothing when there is none.
fn worst(states: impl Iterator<Item = Compliance>) -> Option<Compliance> {
    states.max_by_key(|state| match state {
        Compliance::Compliant => 0,
        Compliance::Pending => 1,
        Compliance::NonCompliant => 2,
    })
}

#[cfg(test)]
mod tests {
    use crate::objects::{ClusterStatus, Exclusion};
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    fn member(states: &[(&str, Option<Compliance>)]) -> Policy {
        let mut policy = fixtures::policy(json!({}));
        policy.status.clusters = states
            .iter()
            .map(|(cluster, compliant)| ClusterStatus {
                cluster: ClusterName::from(*cluster),
                compliant: *compliant,
                rollout_status: None,
                remaining_bindings: vec![],
            })
            .collect();
        policy
    }

    fn check(
        members: &[(&str, Option<Policy>)],
        exclusions: &[(&str, &[&str])],
    ) -> (Option<Compliance>, String) {
        let set = PolicySet {
            namespace: "policies".to_owned(),
            name: "set".to_owned(),
            policies: members.iter().map(|(name, _)| (*name).to_owned()).collect(),
            exclusions: exclusions
                .iter()
                .map(|(policy, clusters)| Exclusion {
                    policy: (*policy).to_owned(),
                    clusters: clusters
                        .iter()
                        .map(|name| ClusterName::from(*name))
                        .collect(),
                })
                .collect(),
        };
        let policies = members
            .iter()
            .filter_map(|(name, policy)| Some(((*name).to_owned(), policy.clone()?)))
            .collect();
        let found = status(ObservedSet {
            set: &set,
            policies: &policies,
            bindings: &[fixtures::binding("b", "pl", "PolicySet", "set")],
            decisions: &[fixtures::decisions("pl", &[("", &["c1", "c2"])])],
        });
        (found.compliant, found.message)
    }

    const OK: Option<Compliance> = Some(Compliance::Compliant);
    const BAD: Option<Compliance> = Some(Compliance::NonCompliant);
    const PENDING: Option<Compliance> = Some(Compliance::Pending);

    #[test]
    fn a_set_reports_its_worst_member() {
        let p2 = || member(&[("c1", PENDING)]);
        assert_eq!(
            check(
                &[("p1", Some(member(&[("c1", OK)]))), ("p2", Some(p2()))],
                &[]
            ),
            (
                PENDING,
                "Policies awaiting pending dependencies: p2".to_owned()
            )
        );
        assert_eq!(
            check(
                &[("p1", Some(member(&[("c1", BAD)]))), ("p2", Some(p2()))],
                &[]
            ),
            (BAD, "Policies awaiting pending dependencies: p2".to_owned())
        );
    }

    #[test]
    fn the_status_of_a_set_follows_from_its_members() {
        let good = || Some(member(&[("c1", OK), ("c2", OK), ("elsewhere", BAD)]));
        let mut off = member(&[]);
        std::sync::Arc::make_mut(&mut off.spec).disabled = true;
        for (members, exclusions, expected) in [
            (
                vec![("a", good())],
                vec![],
                (OK, "All policies are reporting status"),
            ),
            (
                vec![
                    ("a", good()),
                    ("gone", None),
                    ("off", Some(off)),
                    ("new", Some(member(&[("c1", None)]))),
                ],
                vec![],
                (
                    None,
                    "Disabled policies: off; No status provided while awaiting policy status: new; \
                     Deleted policies: gone",
                ),
            ),
            (
                vec![("gone", None)],
                vec![],
                (None, "Deleted policies: gone"),
            ),
            (
                vec![("a", Some(member(&[("c1", OK), ("c2", BAD)])))],
                vec![("a", &["c2", "c2", "nowhere"][..])],
                (
                    OK,
                    "All policies are reporting status; One or more policies were excluded. For details, see \
                     status.exclusions.",
                ),
            ),
            (vec![], vec![], (None, "")),
        ] {
            let (compliant, message) = check(&members, &exclusions);
            assert_eq!((compliant, message.as_str()), expected);
        }
    }
}
