//! The outcome of every policy, on each object and in total. See docs/spec/attachment.md#5-6.
//!
//! Each object keeps what each policy gives to it; a policy's tally is the sum over all objects and moves with the
//! difference, so that one edited route does not count forty thousand others again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::ids::{GroupId, LevelId, ObjId};
use super::lattice::{EMPTY, NodeId, Part, StackId};
use super::{Changes, Graph, Host};
use crate::merge::{Input, Level, Merged, Participant, Score};
use crate::object::ObjectRef;
use crate::settings::TieBreak;
use crate::tree::Tree;

/// How a policy fares: all, some or none of its fields are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effectiveness {
    Full,
    Partial,
    Overridden,
}

/// What one policy gives to one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contribution {
    pub(crate) policy: ObjId,
    /// Over all contexts of the object.
    pub(crate) class: Effectiveness,
    /// Over those contexts that decide on the effectiveness of the policy.
    pub(crate) leaf: Option<Effectiveness>,
}

/// What one policy gives in sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Objects other than Namespaces, by class.
    pub(crate) objects: [u64; 3],
    /// Namespaces, by class: they count only where nothing is in them.
    pub(crate) namespaces: [u64; 3],
    leaves: [u64; 3],
    /// Objects that get something, by the number of their kind's name.
    pub(crate) by_kind: BTreeMap<u32, u64>,
    pub(crate) by_namespace: BTreeMap<u32, u64>,
}

impl Tally {
    /// The effectiveness; `None` when no context decides on it.
    pub(crate) fn effectiveness(&self) -> Option<Effectiveness> {
        match self.leaves {
            [0, 0, 0] => None,
            [_, 0, 0] => Some(Effectiveness::Full),
            [0, 0, _] => Some(Effectiveness::Overridden),
            _ => Some(Effectiveness::Partial),
        }
    }

    fn is_zero(&self) -> bool {
        self.objects == [0; 3] && self.namespaces == [0; 3]
    }
}

/// What an event touched, by number: names are built only where they are read.
#[derive(Debug)]
pub(super) struct Touched {
    objects: Vec<ObjId>,
    policies: BTreeSet<ObjId>,
}

/// An object as tallies count it.
struct Counted {
    is_namespace: bool,
    /// The numbers of the names of its kind and its namespace.
    kind: u32,
    namespace: u32,
}

/// Sums up scores over contexts.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    all: bool,
    some: bool,
    n: u32,
}

impl Sum {
    fn add(&mut self, score: Score) {
        let full = score.in_force == score.fields;
        self.all = if self.n == 0 { full } else { self.all && full };
        self.some |= score.in_force > 0;
        self.n += 1;
    }

    fn class(self) -> Option<Effectiveness> {
        (self.n > 0).then_some(match (self.all, self.some) {
            (true, _) => Effectiveness::Full,
            (false, true) => Effectiveness::Partial,
            (false, false) => Effectiveness::Overridden,
        })
    }
}

impl Graph {
    pub(super) fn settle_scores(&mut self) -> Touched {
        let mut objects = Vec::new();
        let mut policies = std::mem::take(&mut self.pending.policies);
        for object in std::mem::take(&mut self.pending.scores) {
            let after = self.contributions_to(object);
            let before = self.contributions.remove(&object).unwrap_or_default();
            if before.is_empty() && after.is_empty() {
                continue;
            }
            objects.push(object);
            let counted = self.counted(object);
            for contribution in &*before {
                policies.insert(contribution.policy);
                self.count(&counted, *contribution, false);
            }
            for contribution in &*after {
                policies.insert(contribution.policy);
                self.count(&counted, *contribution, true);
            }
            if !after.is_empty() {
                self.contributions.insert(object, after);
            }
        }
        Touched { objects, policies }
    }

    /// The names of what an event touched.
    pub(super) fn named_changes(&self, touched: Touched) -> Changes {
        let name = |id: ObjId| self.refs.value(id).clone();
        Changes {
            objects: touched.objects.into_iter().map(name).collect(),
            policies: touched.policies.into_iter().map(name).collect(),
        }
    }

    fn counted(&mut self, object: ObjId) -> Counted {
        let reference = self.refs.value(object);
        let namespace = reference.namespace.clone().unwrap_or_default();
        Counted {
            is_namespace: reference.is("", "Namespace"),
            kind: self.words.id(&reference.kind_and_group()),
            namespace: self.words.id(&namespace),
        }
    }

    fn count(&mut self, object: &Counted, contribution: Contribution, up: bool) {
        let Counted {
            is_namespace,
            kind,
            namespace,
        } = *object;
        let tally = self.tallies.entry(contribution.policy).or_default();
        let step = |count: &mut u64| {
            *count = if up {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        };
        let sums = if is_namespace {
            &mut tally.namespaces
        } else {
            &mut tally.objects
        };
        step(&mut sums[contribution.class as usize]);
        if let Some(leaf) = contribution.leaf {
            step(&mut tally.leaves[leaf as usize]);
        }
        if contribution.class != Effectiveness::Overridden && !is_namespace {
            for (map, key) in [
                (&mut tally.by_kind, kind),
                (&mut tally.by_namespace, namespace),
            ] {
                let count = map.entry(key).or_default();
                step(count);
                if *count == 0 {
                    map.remove(&key);
                }
            }
        }
        if tally.is_zero() {
            self.tallies.remove(&contribution.policy);
        }
    }

    pub(crate) fn word(&self, id: u32) -> &str {
        self.words.value(id)
    }

    /// What each policy gives to an object, in the order of numbers.
    fn contributions_to(&mut self, object: ObjId) -> Box<[Contribution]> {
        let mut sums: BTreeMap<ObjId, (Sum, Sum)> = BTreeMap::new();
        let reference = self.refs.value(object).clone();
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let Some(parts) = self.hosts[&name].nodes.get(&object) else {
                continue;
            };
            for (part, node) in parts.clone() {
                let overlays = self.overlays(&name, object, &part);
                let leaf = self.is_leaf(&name, object, node);
                let mut add = |graph: &Self, score: Score| {
                    let held = &graph.policies[&score.policy];
                    let (all, leaves) = sums.entry(score.policy).or_default();
                    all.add(score);
                    let counts = match (&held.leaf_kind, held.is_direct) {
                        (Some(kind), _) => reference.is(&kind.group, &kind.kind),
                        (None, true) => graph.is_direct_leaf(object, &part),
                        (None, false) => leaf,
                    };
                    if counts {
                        leaves.add(score);
                    }
                };
                let stacks: Vec<StackId> = self.hosts[&name]
                    .lattice
                    .node(node)
                    .outgoing
                    .keys()
                    .copied()
                    .collect();
                self.work.scored += 1 + stacks.len();
                for stack in &stacks {
                    for score in &*self.plain_scores(&name, *stack) {
                        if !overlays.contains(&self.policies[&score.policy].group) {
                            add(self, *score);
                        }
                    }
                }
                for group in &overlays {
                    for stack in self.telling_stacks(&name, *group, &stacks) {
                        for score in self.scores_at(&name, *group, stack, object, &part) {
                            add(self, score);
                        }
                    }
                }
            }
        }
        sums.into_iter()
            .filter_map(|(policy, (all, leaves))| {
                Some(Contribution {
                    policy,
                    class: all.class()?,
                    leaf: leaves.class(),
                })
            })
            .collect()
    }

    /// The scores of a stack as far as they depend on nothing else, computed once.
    fn plain_scores(&mut self, name: &str, stack: StackId) -> Arc<[Score]> {
        if stack == EMPTY {
            return Arc::new([]);
        }
        if let Some(scores) = self.hosts[name].lattice.scores(stack) {
            return scores;
        }
        let levels = self.hosts[name].lattice.levels_of(stack);
        let groups: BTreeSet<GroupId> = levels
            .iter()
            .filter_map(|level| self.levels.get(level))
            .flat_map(|groups| groups.keys().copied())
            .collect();
        let scores: Arc<[Score]> = groups
            .into_iter()
            .flat_map(|group| Merged::of(&self.inherited_input(name, group, &levels)).scores())
            .collect();
        let host = self.hosts.get_mut(name).expect("it was read above");
        host.lattice.keep_scores(stack, scores.clone());
        scores
    }

    /// The groups whose result at this node depends on more than the stack: direct policies, bound fields.
    pub(crate) fn overlays(&self, name: &str, object: ObjId, part: &Part) -> BTreeSet<GroupId> {
        let mut groups = BTreeSet::new();
        for level in self.own_levels(object, part) {
            for (group, at) in self.levels.get(&level).into_iter().flatten() {
                let here = at
                    .direct
                    .iter()
                    .any(|policy| self.policies[policy].hierarchy == name);
                if here {
                    groups.insert(*group);
                }
            }
        }
        let reference = self.refs.value(object);
        for kind in self.registry.kinds.values() {
            let bound = kind
                .bindings
                .iter()
                .any(|binding| reference.is(&binding.object.group, &binding.object.kind));
            if bound && let Some(group) = self.group_names.get(&kind.merge_group) {
                groups.insert(group);
            }
        }
        groups
    }

    /// Where only direct policies apply and none was refused, all paths have the same result.
    fn telling_stacks(&self, name: &str, group: GroupId, stacks: &[StackId]) -> Vec<StackId> {
        let inherits = self.registry.kinds.values().any(|kind| {
            kind.class == crate::settings::Class::Inherited
                && self.group_names.get(&kind.merge_group) == Some(group)
        });
        if inherits || !self.hosts[name].marks.is_empty() {
            stacks.to_vec()
        } else {
            vec![EMPTY]
        }
    }

    fn scores_at(
        &self,
        name: &str,
        group: GroupId,
        stack: StackId,
        object: ObjId,
        part: &Part,
    ) -> Vec<Score> {
        let levels = self.hosts[name].lattice.levels_of(stack);
        let input = self.input_at(name, group, &levels, object, part);
        let mut scores = Merged::of(&input).scores();
        // A section that has policies of its own owns itself entirely: those of the whole object give nothing there.
        for policy in self.shadowed(group, object, part) {
            let fields = self.policies[&policy].policy.pieces.iter().map(|piece| {
                let mut n = 0;
                piece.tree.leaves(&mut |_, _, _| n += 1);
                n
            });
            scores.push(Score {
                policy,
                fields: fields.sum(),
                in_force: 0,
            });
        }
        scores
    }

    /// The level of the section a part stands for, if it has one, and that of the whole object.
    fn own_levels(&self, object: ObjId, part: &Part) -> Vec<LevelId> {
        let section = match part {
            Part::Section(name) | Part::FrontendPort(name) => Some(name.clone()),
            Part::Whole | Part::Frontend | Part::Position(_) => None,
        };
        let section = section.and_then(|name| self.level_names.get(&(object, Some(name))));
        let whole = self.level_names.get(&(object, None));
        section.into_iter().chain(whole).collect()
    }

    /// The level whose direct policies hold at a part.
    fn direct_level(&self, group: GroupId, object: ObjId, part: &Part) -> Option<LevelId> {
        let levels = self.own_levels(object, part);
        levels.into_iter().find(|level| {
            self.levels
                .get(level)
                .and_then(|groups| groups.get(&group))
                .is_some_and(|at| !at.direct.is_empty())
        })
    }

    fn shadowed(&self, group: GroupId, object: ObjId, part: &Part) -> Vec<ObjId> {
        let Some(whole) = self.level_names.get(&(object, None)) else {
            return Vec::new();
        };
        if self.direct_level(group, object, part) == Some(whole) {
            return Vec::new();
        }
        let at = self
            .levels
            .get(&whole)
            .and_then(|groups| groups.get(&group));
        at.map_or_else(Vec::new, |at| at.direct.clone())
    }

    pub(crate) fn is_leaf(&self, name: &str, object: ObjId, node: NodeId) -> bool {
        let host = &self.hosts[name];
        let entry = host.lattice.node(node);
        if !entry.children.is_empty() {
            return false;
        }
        if self.refs.value(object).is("", "Namespace") {
            let level = entry.levels.last();
            return level.is_none_or(|level| host.lattice.n_carriers(*level) <= 1);
        }
        let parts = &host.nodes[&object];
        let is_frontend = parts.contains_key(&Part::Frontend);
        match entry.part {
            // A Service that is the frontend of routes is a leaf only where it is a backend too.
            _ if is_frontend && entry.parents.is_empty() => false,
            Part::Whole => parts.len() == 1 || (is_frontend && parts.len() == 2),
            _ => true,
        }
    }

    /// For a direct policy the sections of its target decide, or the target where it has none.
    fn is_direct_leaf(&self, object: ObjId, part: &Part) -> bool {
        match part {
            Part::Section(_) | Part::Position(_) => true,
            Part::Whole => self.sections(object).is_empty(),
            Part::Frontend | Part::FrontendPort(_) => false,
        }
    }

    fn participants<'a>(
        &'a self,
        name: &str,
        ids: &'a [ObjId],
        path: &[LevelId],
    ) -> Vec<Participant<'a>> {
        ids.iter()
            .map(|id| (*id, &self.policies[id]))
            .filter(|(_, held)| {
                held.hierarchy == name && path.iter().all(|level| !held.refused_on.contains(level))
            })
            .map(|(id, held)| Participant {
                policy: id,
                rank: &held.policy.rank,
                pieces: &held.policy.pieces,
            })
            .collect()
    }

    /// What meets on a path with these levels, direct policies aside.
    pub(crate) fn inherited_input<'a>(
        &'a self,
        name: &str,
        group: GroupId,
        path: &[LevelId],
    ) -> Input<'a> {
        let levels = path
            .iter()
            .filter_map(|level| {
                let at = self.levels.get(level)?.get(&group)?;
                let participants = self.participants(name, &at.inherited, path);
                (!participants.is_empty()).then_some(Level {
                    id: *level,
                    participants,
                })
            })
            .collect();
        Input {
            levels,
            direct: None,
            own: None,
            tie_break: self.tie_break(group),
        }
    }

    /// What meets on a path that ends in this part of this object.
    pub(crate) fn input_at<'a>(
        &'a self,
        name: &str,
        group: GroupId,
        path: &[LevelId],
        object: ObjId,
        part: &Part,
    ) -> Input<'a> {
        let mut input = self.inherited_input(name, group, path);
        if let Some(level) = self.direct_level(group, object, part)
            && let Some(at) = self
                .levels
                .get(&level)
                .and_then(|groups| groups.get(&group))
        {
            input.direct = Some(Level {
                id: level,
                participants: self.participants(name, &at.direct, path),
            });
        }
        input.own = self.own_values(group, object, part);
        input
    }

    fn tie_break(&self, group: GroupId) -> TieBreak {
        let name = self.group_names.value(group);
        let first = self
            .registry
            .groups
            .get(name)
            .and_then(|kinds| kinds.first());
        first.map_or(TieBreak::Oldest, |kind| self.registry.kinds[kind].tie_break)
    }

    /// The values of bound fields that the object holds.
    fn own_values(&self, group: GroupId, object: ObjId, part: &Part) -> Option<Tree> {
        let name = self.group_names.value(group);
        let reference = self.refs.value(object);
        let value = &self.objects.get(&object)?.value;
        let sections = self.sections(object);
        let place = sections.iter().position(|(present, _)| present == part);
        let mut own = Value::Object(serde_json::Map::new());
        let members = self.registry.groups.get(name).into_iter().flatten();
        for binding in members.flat_map(|kind| &self.registry.kinds[kind].bindings) {
            if !reference.is(&binding.object.group, &binding.object.kind) {
                continue;
            }
            if let Some(found) = bound_value(value, &binding.path, place) {
                put(&mut own, &binding.field, found.clone());
            }
        }
        let tree = Tree::by_schema(&own, None);
        (!tree.is_empty()).then_some(tree)
    }

    pub(crate) fn host(&self, name: &str) -> &Host {
        &self.hosts[name]
    }

    pub(crate) fn reference(&self, id: ObjId) -> &ObjectRef {
        self.refs.value(id)
    }
}

/// The value at a path such as `spec.rules[].timeouts.request`. `[]` is the section that is looked at; for the whole
/// object there is a value only where all elements agree.
fn bound_value<'a>(object: &'a Value, path: &str, place: Option<usize>) -> Option<&'a Value> {
    let Some((list, below)) = path.split_once("[]") else {
        return lookup(object, path);
    };
    let items = lookup(object, list)?.as_array()?;
    let below = below.trim_start_matches('.');
    if let Some(place) = place {
        return lookup(items.get(place)?, below);
    }
    let mut values = items.iter().map(|item| lookup(item, below));
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

/// An unset or empty field has no value.
fn lookup<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    let found = steps.try_fold(value, |value, step| value.get(step))?;
    let empty = found.is_null() || found.as_str().is_some_and(str::is_empty);
    (!empty).then_some(found)
}

fn put(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        let Value::Object(fields) = place else { return };
        place = fields.entry(step.to_owned()).or_insert(Value::Null);
    }
    *place = value;
}
