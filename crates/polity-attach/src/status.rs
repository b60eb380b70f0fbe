//! The status of a policy, as values: its ancestors, each with its conditions. See docs/spec/attachment.md#7-1.

mod conditions;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::graph::facts::GATEWAY_GROUP;
use crate::graph::ids::{LevelId, ObjId};
use crate::graph::lattice::Part;
use crate::graph::{Effectiveness, Graph, Held, Refusal};
use crate::merge::Merged;
use crate::object::ObjectRef;
use conditions::{
    accepted_conditions, conflicted_conditions, effective_condition, refused_conditions,
};
pub use write::{flat_status, policy_status_to_write};

/// The controllerName under which Polity writes status.
pub const CONTROLLER: &str = "polity.dev/attachment";

/// One condition, without the time of its last change: that is the shell's to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: &'static str,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What is said about a policy with regard to one ancestor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ancestor {
    pub ancestor_ref: AncestorRef,
    pub controller_name: &'static str,
    pub conditions: Vec<Condition>,
}

/// The object a verdict is about; an explicit empty group is the core group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AncestorRef {
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// A policy that beats another, with the fields it takes from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Beater {
    #[serde(flatten)]
    pub policy: ObjectRef,
    pub fields: BTreeSet<String>,
}

/// Everything that is said about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// By ancestor, in order, however many there are.
    pub ancestors: Vec<Ancestor>,
    /// `None` while no target is accepted.
    pub effectiveness: Option<Effectiveness>,
    pub beaten_by: Vec<Beater>,
}

impl Ancestor {
    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.condition("Accepted")
            .is_some_and(|condition| condition.status == "True")
    }

    fn is_overridden(&self) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.reason == "Overridden")
    }
}

impl AncestorRef {
    fn of(object: &ObjectRef, section: Option<&str>) -> Self {
        Self {
            group: object.group.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            section_name: section.map(str::to_owned),
        }
    }
}

/// What came of one target of a policy.
enum Outcome {
    Accepted,
    Conflicted(ObjectRef),
    Refused(Refusal),
}

impl Graph {
    /// What is to be said about a policy; `None` when it is no policy of a known kind.
    pub fn policy_status(&self, policy: &ObjectRef) -> Option<PolicyStatus> {
        let id = self.refs.get(policy)?;
        let held = self.policies.get(&id)?;
        let kind = self.kind_of(policy)?;
        let outcomes: Vec<(&crate::graph::Verdict, Outcome)> = held
            .verdicts
            .iter()
            .map(|verdict| (verdict, self.outcome(id, held, verdict)))
            .collect();
        let accepted = outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Accepted));
        let effectiveness = accepted.then(|| self.effectiveness(id, held));
        let beaten_by = match effectiveness {
            Some(Effectiveness::Partial | Effectiveness::Overridden) => self.beaten_by(id, held),
            _ => Vec::new(),
        };
        let generation = held.policy.generation;
        let mut ancestors: BTreeMap<AncestorRef, Vec<Condition>> = BTreeMap::new();
        // Those that are accepted come first, so that one that is not finds the place taken and speaks for itself.
        for (verdict, outcome) in &outcomes {
            if let (Outcome::Accepted, Ok(level)) = (outcome, &verdict.outcome) {
                for ancestor in self.ancestors_of(held, *level) {
                    ancestors.entry(ancestor).or_insert_with(|| {
                        let mut conditions = accepted_conditions(generation);
                        conditions.extend(effectiveness.map(|effectiveness| {
                            effective_condition(
                                kind.managed,
                                effectiveness,
                                &beaten_by,
                                kind,
                                generation,
                            )
                        }));
                        conditions
                    });
                }
            }
        }
        for (verdict, outcome) in &outcomes {
            let itself = AncestorRef::of(&verdict.object, verdict.section.as_deref());
            let (places, conditions) = match outcome {
                Outcome::Accepted => continue,
                Outcome::Conflicted(winner) => {
                    let places = verdict
                        .outcome
                        .as_ref()
                        .map_or_else(|_| Vec::new(), |level| self.ancestors_of(held, *level));
                    (places, conflicted_conditions(winner, generation))
                }
                Outcome::Refused(refusal) => (
                    vec![itself.clone()],
                    refused_conditions(refusal, generation),
                ),
            };
            for place in places {
                let place = if ancestors.contains_key(&place) {
                    itself.clone()
                } else {
                    place
                };
                ancestors.insert(place, conditions.clone());
            }
        }
        if outcomes.is_empty()
            && let Some(message) = &held.policy.invalid
        {
            // Without a target there is nothing to name but the policy: status is never silently absent.
            let refusal = Refusal::Invalid(message.clone());
            ancestors.insert(
                AncestorRef::of(policy, None),
                refused_conditions(&refusal, generation),
            );
        }
        Some(PolicyStatus {
            ancestors: ancestors
                .into_iter()
                .map(|(ancestor_ref, conditions)| Ancestor {
                    ancestor_ref,
                    controller_name: CONTROLLER,
                    conditions,
                })
                .collect(),
            effectiveness,
            beaten_by,
        })
    }

    fn outcome(&self, id: ObjId, held: &Held, verdict: &crate::graph::Verdict) -> Outcome {
        match &verdict.outcome {
            Err(refusal) => Outcome::Refused(refusal.clone()),
            Ok(level) => {
                let at = self
                    .levels
                    .get(level)
                    .and_then(|groups| groups.get(&held.group));
                match at.and_then(|at| at.conflicted.get(&id)) {
                    Some(winner) => Outcome::Conflicted(self.reference(*winner).clone()),
                    None => Outcome::Accepted,
                }
            }
        }
    }

    /// The outcome of a policy over all contexts that decide on it.
    pub(crate) fn effectiveness(&self, id: ObjId, held: &Held) -> Effectiveness {
        let tally = self.tallies.get(&id);
        if let Some(effectiveness) = tally.and_then(crate::graph::Tally::effectiveness) {
            return effectiveness;
        }
        // No context of the kind that decides: then the targets themselves do.
        let targets: BTreeSet<ObjId> = held
            .verdicts
            .iter()
            .filter_map(|verdict| verdict.outcome.as_ref().ok())
            .map(|level| self.level_names.value(*level).0)
            .collect();
        let classes: BTreeSet<Effectiveness> = targets
            .iter()
            .filter_map(|target| self.contributions.get(target))
            .flatten()
            .filter(|contribution| contribution.policy == id)
            .map(|contribution| contribution.class)
            .collect();
        match (classes.len(), classes.first()) {
            (0, _) => Effectiveness::Full,
            (1, Some(only)) => *only,
            _ => Effectiveness::Partial,
        }
    }

    /// The policies that take fields from this one, with those fields.
    pub(crate) fn beaten_by(&self, id: ObjId, held: &Held) -> Vec<Beater> {
        let mut beaters: BTreeMap<ObjectRef, BTreeSet<String>> = BTreeMap::new();
        let mut look = |merged: &Merged<'_>| {
            for (source, part) in merged
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| part.policy == id)
            {
                merged.verdicts(source as u32, &mut |path, _, verdict| {
                    if let crate::merge::Verdict::Beaten(Some(by), _) = verdict
                        && let Some(winner) = merged.parts.get(by as usize)
                        && winner.policy != part.policy
                    {
                        let fields = beaters
                            .entry(self.reference(winner.policy).clone())
                            .or_default();
                        fields.insert(path.to_owned());
                    }
                });
            }
        };
        let lattice = &self.host(&held.hierarchy).lattice;
        for level in held
            .verdicts
            .iter()
            .filter_map(|verdict| verdict.outcome.as_ref().ok())
        {
            for stack in lattice.paths_with(*level) {
                let levels = lattice.levels_of(stack);
                look(&Merged::of(&self.inherited_input(
                    &held.hierarchy,
                    held.group,
                    &levels,
                )));
            }
            self.beaten_directly(held, *level, &mut look, &mut |_| {});
        }
        for (policy, fields) in self.shadowing(id, held) {
            beaters.entry(policy).or_default().extend(fields);
        }
        beaters
            .into_iter()
            .map(|(policy, fields)| Beater { policy, fields })
            .collect()
    }

    /// The nodes below a level that direct policies of the same group affect too; these take precedence.
    fn beaten_directly(
        &self,
        held: &Held,
        level: LevelId,
        look: &mut impl FnMut(&Merged<'_>),
        seen: &mut impl FnMut(ObjId),
    ) {
        let mixed = self
            .registry
            .groups
            .get(self.group_names.value(held.group))
            .is_some_and(|kinds| kinds.len() > 1);
        if !mixed || held.is_direct {
            return;
        }
        let host = self.host(&held.hierarchy);
        for node in host.lattice.reach(level) {
            let entry = host.lattice.node(node);
            if !self
                .overlays(&held.hierarchy, entry.object, &entry.part)
                .contains(&held.group)
            {
                continue;
            }
            seen(entry.object);
            for stack in entry.outgoing.keys() {
                let levels = host.lattice.levels_of(*stack);
                if levels.contains(&level) {
                    let input = self.input_at(
                        &held.hierarchy,
                        held.group,
                        &levels,
                        entry.object,
                        &entry.part,
                    );
                    look(&Merged::of(&input));
                }
            }
        }
    }

    /// Direct policies that own sections of this one's target.
    fn shadowing(&self, id: ObjId, held: &Held) -> Vec<(ObjectRef, Vec<String>)> {
        let mut found = Vec::new();
        if !held.is_direct {
            return found;
        }
        let mut fields = Vec::new();
        for piece in &held.policy.pieces {
            piece
                .tree
                .leaves(&mut |path, _, _| fields.push(path.to_owned()));
        }
        for verdict in held
            .verdicts
            .iter()
            .filter(|verdict| verdict.section.is_none())
        {
            let Ok(level) = &verdict.outcome else {
                continue;
            };
            let object = self.level_names.value(*level).0;
            for (_, section) in self.sections(object) {
                let level = section
                    .and_then(|name| self.level_names.get(&(object, Some(name.as_str().into()))));
                let at = level.and_then(|level| self.levels.get(&level)?.get(&held.group));
                for policy in at
                    .into_iter()
                    .flat_map(|at| &at.direct)
                    .filter(|policy| **policy != id)
                {
                    found.push((self.reference(*policy).clone(), fields.clone()));
                }
            }
        }
        found
    }

    /// The objects under whose name a verdict on this level is given: the Gateways above it, else the target itself.
    fn ancestors_of(&self, held: &Held, level: LevelId) -> Vec<AncestorRef> {
        let (object, section) = self.level_name(level);
        let itself = AncestorRef::of(object, section);
        if object.is(GATEWAY_GROUP, "GatewayClass") || object.is(GATEWAY_GROUP, "Gateway") {
            return vec![itself];
        }
        let id = self.level_names.value(level).0;
        let host = self.host(&held.hierarchy);
        let starts = host.nodes.get(&id).into_iter().flatten().filter(|(part, _)| match section {
            None => true,
            Some(section) => matches!(part, Part::Section(name) | Part::FrontendPort(name) if **name == *section),
        });
        let mut open: Vec<u32> = starts.map(|(_, node)| *node).collect();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut gateways: BTreeSet<AncestorRef> = BTreeSet::new();
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            let entry = host.lattice.node(node);
            let above = self.reference(entry.object);
            if above.is(GATEWAY_GROUP, "Gateway") {
                gateways.insert(AncestorRef::of(above, None));
            } else {
                open.extend(entry.parents.iter().copied());
            }
        }
        if gateways.is_empty() {
            vec![itself]
        } else {
            gateways.into_iter().collect()
        }
    }
}
