//! Rules about rollout strategies, and the bindings and groups they count on.

use polity_core::FieldPath;
use polity_core::rollout_strategy::{GroupReference, RolloutStrategy, Threshold};
use polity_govern::objects::{Binding, PlacementKind, Policy, PolicySet, SubjectKind};

use super::rules::{GROUP, IGNORED, Lint, SLOTS, THRESHOLD};
use crate::findings::Finding;

impl Lint<'_> {
    pub(super) fn strategy(&self, policy: &Policy) -> Vec<Finding> {
        let Some(Ok(strategy)) = &policy.spec.rollout_strategy else {
            return Vec::new();
        };
        let path = FieldPath::of("spec").child("rolloutStrategy");
        let mut findings: Vec<Finding> = strategy
            .mandatory_groups()
            .iter()
            .filter(|reference| !self.has_group(policy, reference))
            .map(|reference| {
                let why = format!("no bound placement has a decision group {reference}: the rollout goes on without it");
                let mend = "name a group of decisionStrategy.groupStrategy.decisionGroups; prefer names, an index shifts";
                self.at_policy(Finding::warning(GROUP, why).mend(mend), policy, &path)
            })
            .collect();
        if let RolloutStrategy::Progressive(progressive) = strategy
            && policy.spec.enforces()
            && progressive.pace.progress_deadline.is_none()
            && !matches!(
                progressive.pace.max_failures,
                Threshold::Count(..=0) | Threshold::Percent(0)
            )
            && matches!(
                progressive.max_concurrency,
                None | Some(Threshold::Count(..=1))
            )
        {
            let why = "failures are tolerated, but without progressDeadline the first failed cluster keeps the only slot";
            let finding = Finding::warning(SLOTS, why)
                .mend("set progressDeadline, or maxConcurrency above 1");
            findings.push(self.at_policy(finding, policy, &path));
        }
        if !matches!(strategy, RolloutStrategy::All(_)) {
            findings.extend(self.ignored_bindings(policy));
            findings.extend(self.thresholds(policy, strategy));
        }
        findings
    }

    /// Numbers that mean something else than they say.
    fn thresholds(&self, policy: &Policy, strategy: &RolloutStrategy) -> Vec<Finding> {
        let (field, max_failures, max_concurrency) = match strategy {
            RolloutStrategy::All(_) => return Vec::new(),
            RolloutStrategy::Progressive(it) => {
                ("progressive", it.pace.max_failures, it.max_concurrency)
            }
            RolloutStrategy::ProgressivePerGroup(it) => {
                ("progressivePerGroup", it.pace.max_failures, None)
            }
        };
        let path = FieldPath::of("spec").child("rolloutStrategy").child(field);
        let placed = self.most_together(policy, strategy);
        let mut findings = Vec::new();
        let mut say = |name: &str, why: String, mend: &str| {
            let finding = Finding::warning(THRESHOLD, why).mend(mend);
            findings.push(self.at_policy(finding, policy, &path.child(name)));
        };
        match max_failures {
            Threshold::Count(..0) => say(
                "maxFailures",
                "a negative maxFailures counts as 0".to_owned(),
                "write 0",
            ),
            Threshold::Count(n) if placed.is_some_and(|placed| n > placed) => say(
                "maxFailures",
                format!("maxFailures {n} is more than the clusters there are, and counts as 0"),
                "write 100% to tolerate every failure",
            ),
            _ => {}
        }
        if matches!(max_concurrency, Some(Threshold::Count(..0))) {
            let why = "a negative maxConcurrency counts as 1".to_owned();
            say(
                "maxConcurrency",
                why,
                "write how many clusters may be in flight",
            );
        }
        findings
    }

    /// The most clusters that failures are counted over at a time: all that are placed, or those of the largest group.
    /// None where the files hold no clusters.
    fn most_together(&self, policy: &Policy, strategy: &RolloutStrategy) -> Option<i64> {
        let decided = self.governance.decided();
        let bound = self
            .bindings_of(policy)
            .filter_map(|binding| binding.placement.as_ref());
        let groups = bound
            .filter_map(|bound| decided.get(&(policy.namespace.as_str(), bound.name.as_str())))
            .flat_map(|decisions| decisions.groups.iter())
            .map(|group| group.clusters.len() as i64);
        let most = match strategy {
            RolloutStrategy::ProgressivePerGroup(_) => groups.max()?,
            _ => groups.sum(),
        };
        (most > 0).then_some(most)
    }

    fn ignored_bindings(&self, policy: &Policy) -> Vec<Finding> {
        self.bindings_of(policy)
            .filter(|binding| binding.restricted || binding.enforces())
            .map(|binding| {
                let (field, what) = if binding.restricted {
                    ("subFilter", "has no effect at all")
                } else {
                    ("bindingOverrides", "does not enforce anything")
                };
                let why = format!(
                    "the progressive strategy of policy {} sets selective enforcement aside: this binding {what}",
                    policy.name
                );
                let finding = Finding::warning(IGNORED, why)
                    .mend("use the strategy All with this binding, or remove the binding and let the rollout decide");
                let object = (binding.namespace.as_str(), binding.name.as_str());
                self.place(finding, "PlacementBinding", object, &FieldPath::of(field))
            })
            .collect()
    }

    fn bindings_of<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = &'p Binding> {
        let sets: Vec<&PolicySet> = self
            .governance
            .hub
            .policy_sets
            .iter()
            .filter(|set| set.namespace == policy.namespace && set.policies.contains(&policy.name))
            .collect();
        self.governance.hub.bindings.iter().filter(move |binding| {
            binding.namespace == policy.namespace
                && binding.subjects.iter().any(|subject| match subject.kind {
                    SubjectKind::Policy => subject.name == policy.name,
                    SubjectKind::PolicySet => sets.iter().any(|set| set.name == subject.name),
                })
        })
    }

    /// Whether some placement of the policy has the group; one that is not among the files may have it.
    fn has_group(&self, policy: &Policy, reference: &GroupReference) -> bool {
        let mut references = self
            .bindings_of(policy)
            .filter_map(|binding| binding.placement.as_ref())
            .peekable();
        if references.peek().is_none() {
            return true;
        }
        references.any(|bound| {
            let placements = self.governance.fleet.placements.iter();
            let placement = placements
                .map(|(_, placement)| placement)
                .find(|placement| {
                    bound.kind == PlacementKind::Placement
                        && placement.key.name == bound.name
                        && placement.key.namespace == policy.namespace
                });
            let Some(placement) = placement else {
                return bound.kind == PlacementKind::Placement
                    || *reference == GroupReference::Index(0);
            };
            // What is wrong with a placement is a finding of its own.
            let Ok(rules) = &placement.rules else {
                return true;
            };
            let mut named = rules.groups.named.iter();
            let decided = self.governance.decided();
            let decided = decided.get(&(policy.namespace.as_str(), bound.name.as_str()));
            match reference {
                GroupReference::Name(name) => named.any(|group| group.name == *name),
                GroupReference::Index(_) => decided.is_some_and(|decisions| {
                    decisions.groups.n_clusters() == 0
                        || decisions
                            .groups
                            .iter()
                            .any(|group| group.key.is_meant_by(reference))
                }),
            }
        })
    }
}
