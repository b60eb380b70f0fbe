//! The policies in effect at a level: those attached to it, without those that are rejected by a conflict there.
//! See docs/spec/attachment.md#5-4.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;
use super::ids::{GroupId, LevelId, ObjId};
use crate::policy::{Mode, Rank, Side};
use crate::settings::{Class, Strategy, TieBreak};
use crate::tree::{Fate, Tree};

/// The policies of one merge group at one level.
#[derive(Debug, Default)]
pub(crate) struct AtLevel {
    attached: BTreeSet<(Rank, ObjId)>,
    /// Those that act on the object alone, in the order of rank.
    pub(crate) direct: Vec<ObjId>,
    /// Those that act on everything below too, in the order of rank.
    pub(crate) inherited: Vec<ObjId>,
    /// Those that lost, and to whom.
    pub(crate) conflicted: BTreeMap<ObjId, ObjId>,
}

impl Graph {
    /// Attaches a policy to these levels and no others.
    pub(super) fn attach(
        &mut self,
        id: ObjId,
        wanted: BTreeSet<LevelId>,
        refused_on: BTreeSet<LevelId>,
    ) {
        let held = self
            .policies
            .get_mut(&id)
            .expect("only held policies are attached");
        let (group, rank) = (held.group, held.policy.rank.clone());
        let refusals_changed = held.refused_on != refused_on;
        let before = std::mem::replace(&mut held.attached, wanted.clone());
        let refused_before = std::mem::replace(&mut held.refused_on, refused_on.clone());
        let hierarchy = held.hierarchy.clone();
        for level in before.difference(&wanted) {
            if let Some(at) = self
                .levels
                .get_mut(level)
                .and_then(|groups| groups.get_mut(&group))
            {
                at.attached.remove(&(rank.clone(), id));
            }
            self.pending.levels.insert((*level, group));
        }
        for level in wanted.difference(&before) {
            let at = self
                .levels
                .entry(*level)
                .or_default()
                .entry(group)
                .or_default();
            at.attached.insert((rank.clone(), id));
            self.pending.levels.insert((*level, group));
        }
        if refusals_changed {
            self.pending
                .levels
                .extend(wanted.iter().map(|level| (*level, group)));
            self.move_marks(&hierarchy, group, &refused_before, &refused_on);
        }
    }

    /// Marked levels are part of every stack, so that paths over them can be distinguished from others.
    fn move_marks(
        &mut self,
        hierarchy: &str,
        group: GroupId,
        before: &BTreeSet<LevelId>,
        after: &BTreeSet<LevelId>,
    ) {
        let Some(host) = self.hosts.get_mut(hierarchy) else {
            return;
        };
        for level in before.difference(after) {
            if let Some(count) = host.marks.get_mut(level) {
                *count -= 1;
                if *count == 0 {
                    host.marks.remove(level);
                }
            }
            self.pending.levels.insert((*level, group));
        }
        for level in after.difference(before) {
            *host.marks.entry(*level).or_default() += 1;
            self.pending.levels.insert((*level, group));
        }
    }

    /// Takes a policy away from everything it is attached to.
    pub(super) fn let_go(&mut self, id: ObjId) {
        if self.policies.contains_key(&id) {
            self.attach(id, BTreeSet::new(), BTreeSet::new());
        }
    }

    pub(super) fn settle_levels(&mut self) {
        let stale = std::mem::take(&mut self.pending.levels);
        let mut by_host: BTreeMap<String, BTreeMap<LevelId, bool>> = BTreeMap::new();
        for (level, group) in &stale {
            self.decide(*level, *group);
        }
        for (level, _) in &stale {
            let names: Vec<String> = self.hosts.keys().cloned().collect();
            for name in names {
                let active = self.is_wanted(&name, *level);
                by_host.entry(name).or_default().insert(*level, active);
            }
        }
        for (name, changes) in by_host {
            let host = self.hosts.get_mut(&name).expect("its name was just read");
            // Where a level comes or goes, stacks do too, and the lattice says which nodes that touches. Where it stays,
            // only what was computed for them is stale. A stack that goes may come back before it is swept away, so what
            // was computed for it is forgotten in any case.
            for level in changes.keys() {
                host.lattice.forget_scores(*level);
            }
            let stays = |level: &&LevelId| host.lattice.is_active(**level) && changes[*level];
            let stay: Vec<LevelId> = changes.keys().filter(stays).copied().collect();
            host.lattice.set_active(&changes);
            for level in stay {
                let reached = host.lattice.reach(level);
                self.work.moved += reached.len();
                for node in reached {
                    self.pending.scores.insert(host.lattice.node(node).object);
                }
            }
        }
        for (level, _) in &stale {
            let object = self.level_names.value(*level).0;
            self.pending.scores.insert(object);
            self.drop_stray(object);
        }
        self.note_touched();
    }

    /// Whether paths of a hierarchy take note of a level.
    fn is_wanted(&self, name: &str, level: LevelId) -> bool {
        let marked = self.hosts[name].marks.contains_key(&level);
        let groups = self.levels.get(&level).into_iter().flatten();
        marked
            || groups
                .flat_map(|(_, at)| &at.inherited)
                .any(|policy| self.policies[policy].hierarchy == name)
    }

    /// A node that was made for a policy's sake goes with the last one.
    fn drop_stray(&mut self, object: ObjId) {
        let targeted = self
            .by_target
            .get(&object)
            .is_some_and(|policies| !policies.is_empty());
        if targeted && self.exists(object) {
            return;
        }
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let host = self.hosts.get_mut(&name).expect("its name was just read");
            if host.strays.remove(&object) {
                self.drop_node(&name, object, &super::lattice::Part::Whole);
            }
        }
    }

    /// Decides who holds at a level.
    fn decide(&mut self, level: LevelId, group: GroupId) {
        let Some(at) = self
            .levels
            .get(&level)
            .and_then(|groups| groups.get(&group))
        else {
            return;
        };
        let mut decided = AtLevel::default();
        let mut union = Tree::empty();
        let mut sources: Vec<ObjId> = Vec::new();
        let mut atomic: Vec<(bool, &Rank, ObjId)> = Vec::new();
        for (rank, id) in &at.attached {
            let held = &self.policies[id];
            let Some(kind) = self.kind_of(&held.policy.object) else {
                continue;
            };
            if kind.class == Class::Inherited {
                decided.inherited.push(*id);
                let pieces = &held.policy.pieces;
                if let Some(piece) = pieces.iter().find(|piece| piece.mode == Mode::Atomic)
                    && kind.tie_break == TieBreak::Oldest
                {
                    atomic.push((piece.side != Side::Override, rank, *id));
                }
                continue;
            }
            let alone = kind.strategy == Strategy::None;
            match clash(&held.policy.pieces, &union, alone) {
                Some(source) => {
                    let winner = sources.get(source).or(sources.first());
                    decided
                        .conflicted
                        .insert(*id, winner.copied().unwrap_or(*id));
                }
                None => {
                    for piece in &held.policy.pieces {
                        union.fill(piece.tree.sourced(sources.len() as u32));
                    }
                    sources.push(*id);
                    decided.direct.push(*id);
                }
            }
        }
        // Of atomic policies on one level only the first holds: overrides before defaults, then by rank.
        atomic.sort();
        if let Some(((_, _, winner), losers)) = atomic.split_first() {
            for (_, _, loser) in losers {
                decided.conflicted.insert(*loser, *winner);
            }
            decided
                .inherited
                .retain(|id| !decided.conflicted.contains_key(id));
        }
        let attached: Vec<ObjId> = at.attached.iter().map(|(_, id)| *id).collect();
        self.work.weighed += attached.len();
        self.pending.policies.extend(attached);
        let groups = self.levels.get_mut(&level).expect("it was there above");
        let at = groups.get_mut(&group).expect("it was there above");
        if at.attached.is_empty() {
            groups.remove(&group);
            if groups.is_empty() {
                self.levels.remove(&level);
            }
            return;
        }
        at.direct = decided.direct;
        at.inherited = decided.inherited;
        at.conflicted = decided.conflicted;
    }
}

/// The source with which a direct policy conflicts; where policies do not merge, any other.
fn clash(pieces: &[crate::policy::Piece], union: &Tree, alone: bool) -> Option<usize> {
    if alone {
        return union.first_source().map(|source| source as usize);
    }
    let mut found = None;
    for piece in pieces {
        union.fates(&piece.tree, u32::MAX, &mut |_, _, fate| {
            if let (Fate::Beaten(source), None) = (fate, found) {
                found = Some(source as usize);
            }
        });
    }
    found
}
