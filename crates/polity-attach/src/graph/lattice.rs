//! Who is below whom, and which policies meet on the way down.
//!
//! A path from a root to an object matters only by the levels on it that have policies: their sequence is a *stack*,
//! stored once however many paths share it. Each node holds the stacks of all paths that end in it, counted by where
//! they come from, so that one changed edge moves only the stacks that pass over it: a thousand routes under sixty-four
//! listeners share one stack as long as no listener has a policy.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::ids::{LevelId, ObjId};
use crate::merge::Score;

pub(crate) type NodeId = u32;
pub(crate) type StackId = u32;

/// The stack of a path without policies.
pub(crate) const EMPTY: StackId = 0;

/// What of an object a node stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The object.
    Whole,
    /// A Service as the frontend of mesh routes; as a backend it is [`Part::Whole`], so no loop can arise (trap 10).
    Frontend,
    /// A listener, named rule or named port.
    Section(Box<str>),
    /// A rule or port without a name, by its place (from 0).
    Position(u32),
    /// A port of a frontend.
    FrontendPort(Box<str>),
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) object: ObjId,
    pub(crate) part: Part,
    /// The levels that a path gains here, from above to below.
    pub(crate) levels: Box<[LevelId]>,
    pub(crate) parents: BTreeSet<NodeId>,
    pub(crate) children: BTreeSet<NodeId>,
    incoming: BTreeMap<StackId, u32>,
    pub(crate) outgoing: BTreeMap<StackId, u32>,
    /// While levels change, what comes in is counted and nothing goes out.
    detached: bool,
}

#[derive(Debug, Default)]
struct Stack {
    parent: StackId,
    level: LevelId,
    children: BTreeMap<LevelId, StackId>,
    /// How policies fare on paths with this stack, as far as that depends on nothing else.
    scores: Option<Arc<[Score]>>,
    live: bool,
    /// How many nodes hold it. A stack that no node holds stays until it is swept.
    n_nodes: u32,
}

/// The nodes that carry a level: one for most, many for a namespace.
#[derive(Debug)]
enum Carriers {
    One(NodeId),
    Many(BTreeSet<NodeId>),
}

#[derive(Debug)]
pub(crate) struct Lattice {
    nodes: Vec<Option<Node>>,
    free_nodes: Vec<NodeId>,
    stacks: Vec<Stack>,
    free_stacks: Vec<StackId>,
    n_stacks_after_sweep: usize,
    carriers: HashMap<LevelId, Carriers>,
    active: HashSet<LevelId>,
    /// The stacks whose lowest level this is.
    lowest: HashMap<LevelId, BTreeSet<StackId>>,
    queue: VecDeque<(NodeId, StackId, Change)>,
    /// Nodes whose stacks changed since this was last taken.
    touched: BTreeSet<NodeId>,
    /// How many nodes and stacks were looked at since this was last taken.
    visited: usize,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Gain,
    Loss,
}

impl Default for Lattice {
    fn default() -> Self {
        let empty = Stack {
            live: true,
            ..Stack::default()
        };
        Self {
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            stacks: vec![empty],
            free_stacks: Vec::new(),
            n_stacks_after_sweep: 0,
            carriers: HashMap::new(),
            active: HashSet::new(),
            lowest: HashMap::new(),
            queue: VecDeque::new(),
            touched: BTreeSet::new(),
            visited: 0,
        }
    }
}

impl Lattice {
    pub(crate) fn add_node(&mut self, object: ObjId, part: Part, levels: Vec<LevelId>) -> NodeId {
        let node = Node {
            object,
            part,
            levels: levels.into_boxed_slice(),
            parents: BTreeSet::new(),
            children: BTreeSet::new(),
            incoming: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            detached: false,
        };
        let id = match self.free_nodes.pop() {
            Some(id) => {
                self.nodes[id as usize] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                (self.nodes.len() - 1) as NodeId
            }
        };
        for level in self.node(id).levels.clone() {
            self.carry(level, id);
        }
        self.queue.push_back((id, EMPTY, Change::Gain));
        self.settle();
        id
    }

    /// Removes a node that has no edges any more.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        debug_assert!(self.node(id).parents.is_empty() && self.node(id).children.is_empty());
        for level in self.node(id).levels.clone() {
            self.drop_carrier(level, id);
        }
        self.nodes[id as usize] = None;
        self.free_nodes.push(id);
        self.touched.remove(&id);
    }

    pub(crate) fn add_edge(&mut self, parent: NodeId, child: NodeId) {
        if !self.node_mut(parent).children.insert(child) {
            return;
        }
        if self.node(parent).children.len() == 1 {
            self.touched.insert(parent);
        }
        let was_root = self.node(child).parents.is_empty();
        self.node_mut(child).parents.insert(parent);
        self.pass_on(parent, child, Change::Gain);
        if was_root {
            self.queue.push_back((child, EMPTY, Change::Loss));
        }
        self.settle();
    }

    pub(crate) fn remove_edge(&mut self, parent: NodeId, child: NodeId) {
        if !self.node_mut(parent).children.remove(&child) {
            return;
        }
        if self.node(parent).children.is_empty() {
            self.touched.insert(parent);
        }
        self.node_mut(child).parents.remove(&parent);
        if self.node(child).parents.is_empty() {
            self.queue.push_back((child, EMPTY, Change::Gain));
        }
        self.pass_on(parent, child, Change::Loss);
        self.settle();
    }

    /// Says whether paths take note of these levels from now on.
    pub(crate) fn set_active(&mut self, changes: &BTreeMap<LevelId, bool>) {
        let changes: Vec<(LevelId, bool)> = changes
            .iter()
            .map(|(level, active)| (*level, *active))
            .filter(|(level, active)| self.active.contains(level) != *active)
            .collect();
        let nodes: BTreeSet<NodeId> = changes
            .iter()
            .flat_map(|(level, _)| self.carriers_of(*level))
            .collect();
        self.visited += nodes.len();
        for node in &nodes {
            self.detach(*node);
        }
        self.settle();
        for (level, active) in changes {
            if active {
                self.active.insert(level);
            } else {
                self.active.remove(&level);
            }
        }
        for node in &nodes {
            self.attach(*node);
        }
        self.settle();
        self.sweep();
    }

    pub(crate) fn is_active(&self, level: LevelId) -> bool {
        self.active.contains(&level)
    }

    pub(crate) fn take_touched(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn take_visited(&mut self) -> usize {
        std::mem::take(&mut self.visited)
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes[id as usize]
            .as_ref()
            .expect("ids of nodes are dropped with their nodes")
    }

    pub(crate) fn carriers_of(&self, level: LevelId) -> Vec<NodeId> {
        match self.carriers.get(&level) {
            None => Vec::new(),
            Some(Carriers::One(node)) => vec![*node],
            Some(Carriers::Many(nodes)) => nodes.iter().copied().collect(),
        }
    }

    pub(crate) fn n_carriers(&self, level: LevelId) -> usize {
        match self.carriers.get(&level) {
            None => 0,
            Some(Carriers::One(_)) => 1,
            Some(Carriers::Many(nodes)) => nodes.len(),
        }
    }

    /// The nodes that carry a level, and all below them.
    pub(crate) fn reach(&self, level: LevelId) -> BTreeSet<NodeId> {
        let mut seen: BTreeSet<NodeId> = BTreeSet::new();
        let mut open = self.carriers_of(level);
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(self.node(node).children.iter().copied());
            }
        }
        seen
    }

    /// The levels of a stack from the root down.
    pub(crate) fn levels_of(&self, mut stack: StackId) -> Vec<LevelId> {
        let mut levels = Vec::new();
        while stack != EMPTY {
            let entry = &self.stacks[stack as usize];
            levels.push(entry.level);
            stack = entry.parent;
        }
        levels.reverse();
        levels
    }

    /// The stacks that hold a level, those that no path has any more among them.
    fn stacks_with(&self, level: LevelId) -> Vec<StackId> {
        let mut found = Vec::new();
        let mut open: Vec<StackId> = self
            .lowest
            .get(&level)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        while let Some(stack) = open.pop() {
            found.push(stack);
            open.extend(self.stacks[stack as usize].children.values().copied());
        }
        found
    }

    /// The stacks of paths that hold a level.
    pub(crate) fn paths_with(&self, level: LevelId) -> impl Iterator<Item = StackId> {
        let stacks = self.stacks_with(level).into_iter();
        stacks.filter(|stack| self.stacks[*stack as usize].n_nodes > 0)
    }

    pub(crate) fn scores(&self, stack: StackId) -> Option<Arc<[Score]>> {
        self.stacks[stack as usize].scores.clone()
    }

    pub(crate) fn keep_scores(&mut self, stack: StackId, scores: Arc<[Score]>) {
        self.stacks[stack as usize].scores = Some(scores);
    }

    /// Forgets what was computed for stacks that hold a level.
    pub(crate) fn forget_scores(&mut self, level: LevelId) {
        for stack in self.stacks_with(level) {
            self.visited += 1;
            self.stacks[stack as usize].scores = None;
        }
    }

    pub(crate) fn n_stacks(&self) -> usize {
        self.stacks.len() - self.free_stacks.len()
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id as usize]
            .as_mut()
            .expect("ids of nodes are dropped with their nodes")
    }

    fn carry(&mut self, level: LevelId, node: NodeId) {
        match self.carriers.get_mut(&level) {
            None => drop(self.carriers.insert(level, Carriers::One(node))),
            Some(Carriers::Many(nodes)) => drop(nodes.insert(node)),
            Some(one) => {
                let Carriers::One(first) = one else { return };
                *one = Carriers::Many(BTreeSet::from([*first, node]));
            }
        }
    }

    fn drop_carrier(&mut self, level: LevelId, node: NodeId) {
        let gone = match self.carriers.get_mut(&level) {
            Some(Carriers::Many(nodes)) => {
                nodes.remove(&node);
                nodes.is_empty()
            }
            Some(Carriers::One(_)) => true,
            None => false,
        };
        if gone {
            self.carriers.remove(&level);
        }
    }

    /// Hands all stacks of a parent to a child, or takes them back.
    fn pass_on(&mut self, parent: NodeId, child: NodeId, change: Change) {
        let stacks: Vec<StackId> = self.node(parent).outgoing.keys().copied().collect();
        self.queue
            .extend(stacks.into_iter().map(|stack| (child, stack, change)));
    }

    /// Works off the queue, in the order in which things were said: a loss never overtakes its gain.
    fn settle(&mut self) {
        while let Some((node, stack, change)) = self.queue.pop_front() {
            self.visited += 1;
            let incoming = &mut self.node_mut(node).incoming;
            let count = incoming.entry(stack).or_insert(0);
            let passes = match change {
                Change::Gain => {
                    *count += 1;
                    *count == 1
                }
                Change::Loss => {
                    *count = count.saturating_sub(1);
                    let last = *count == 0;
                    if last {
                        incoming.remove(&stack);
                    }
                    last
                }
            };
            if passes && !self.node(node).detached {
                self.send(node, stack, change);
            }
        }
    }

    fn send(&mut self, node: NodeId, incoming: StackId, change: Change) {
        let stack = self.extended(node, incoming);
        let outgoing = &mut self.node_mut(node).outgoing;
        let count = outgoing.entry(stack).or_insert(0);
        let passes = match change {
            Change::Gain => {
                *count += 1;
                *count == 1
            }
            Change::Loss => {
                *count = count.saturating_sub(1);
                let last = *count == 0;
                if last {
                    outgoing.remove(&stack);
                }
                last
            }
        };
        if passes {
            let n_nodes = &mut self.stacks[stack as usize].n_nodes;
            *n_nodes = match change {
                Change::Gain => *n_nodes + 1,
                Change::Loss => n_nodes.saturating_sub(1),
            };
            self.touched.insert(node);
            let children: Vec<NodeId> = self.node(node).children.iter().copied().collect();
            self.queue
                .extend(children.into_iter().map(|child| (child, stack, change)));
        }
    }

    fn detach(&mut self, node: NodeId) {
        let stacks: Vec<StackId> = self.node(node).incoming.keys().copied().collect();
        for stack in stacks {
            self.send(node, stack, Change::Loss);
        }
        self.node_mut(node).detached = true;
    }

    fn attach(&mut self, node: NodeId) {
        self.node_mut(node).detached = false;
        let stacks: Vec<StackId> = self.node(node).incoming.keys().copied().collect();
        for stack in stacks {
            self.send(node, stack, Change::Gain);
        }
    }

    /// The stack of a path that comes in as `stack` and ends in this node. A level that repeats counts once, at its
    /// highest place.
    fn extended(&mut self, node: NodeId, mut stack: StackId) -> StackId {
        for index in 0..self.node(node).levels.len() {
            let level = self.node(node).levels[index];
            if self.active.contains(&level) && !self.holds(stack, level) {
                stack = self.stack_below(stack, level);
            }
        }
        stack
    }

    /// As [`Self::extended`], for a path that is only looked at: every stack on it is there already.
    pub(crate) fn extended_by(&self, levels: &[LevelId], mut stack: StackId) -> Option<StackId> {
        for level in levels {
            if self.active.contains(level) && !self.holds(stack, *level) {
                stack = *self.stacks[stack as usize].children.get(level)?;
            }
        }
        Some(stack)
    }

    fn holds(&self, mut stack: StackId, level: LevelId) -> bool {
        while stack != EMPTY {
            let entry = &self.stacks[stack as usize];
            if entry.level == level {
                return true;
            }
            stack = entry.parent;
        }
        false
    }

    fn stack_below(&mut self, parent: StackId, level: LevelId) -> StackId {
        if let Some(stack) = self.stacks[parent as usize].children.get(&level) {
            return *stack;
        }
        let entry = Stack {
            parent,
            level,
            live: true,
            ..Stack::default()
        };
        let stack = match self.free_stacks.pop() {
            Some(stack) => {
                self.stacks[stack as usize] = entry;
                stack
            }
            None => {
                self.stacks.push(entry);
                (self.stacks.len() - 1) as StackId
            }
        };
        self.stacks[parent as usize].children.insert(level, stack);
        self.lowest.entry(level).or_default().insert(stack);
        stack
    }

    /// Drops stacks that no path has any more, once they outnumber the others: each sweep is paid for by the stacks
    /// made since the last one.
    fn sweep(&mut self) {
        if self.n_stacks() < 2 * self.n_stacks_after_sweep + 1024 {
            return;
        }
        self.visited += self.nodes.len() + self.stacks.len();
        let mut used = vec![false; self.stacks.len()];
        used[EMPTY as usize] = true;
        for node in self.nodes.iter().flatten() {
            for stack in node.outgoing.keys() {
                let mut stack = *stack;
                while !used[stack as usize] {
                    used[stack as usize] = true;
                    stack = self.stacks[stack as usize].parent;
                }
            }
        }
        for (stack, used) in used.iter().enumerate() {
            if *used || !self.stacks[stack].live {
                continue;
            }
            let entry = std::mem::take(&mut self.stacks[stack]);
            let id = stack as StackId;
            self.stacks[entry.parent as usize]
                .children
                .remove(&entry.level);
            if let Some(lowest) = self.lowest.get_mut(&entry.level) {
                lowest.remove(&id);
                if lowest.is_empty() {
                    self.lowest.remove(&entry.level);
                }
            }
            self.free_stacks.push(id);
        }
        self.n_stacks_after_sweep = self.n_stacks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_no_path_has_any_more_are_swept_away() {
        let mut lattice = Lattice::default();
        let top = lattice.add_node(0, Part::Whole, vec![0]);
        let bottom = lattice.add_node(1, Part::Whole, vec![1]);
        lattice.add_edge(top, bottom);
        lattice.set_active(&BTreeMap::from([(0, true), (1, true)]));
        for level in 2..10_000 {
            let node = lattice.add_node(level, Part::Whole, vec![level]);
            lattice.add_edge(top, node);
            lattice.set_active(&BTreeMap::from([(level, true)]));
            lattice.set_active(&BTreeMap::from([(level, false)]));
            lattice.remove_edge(top, node);
            lattice.remove_node(node);
        }
        assert!(lattice.n_stacks() < 2_000, "{} stacks", lattice.n_stacks());
        let stacks: Vec<StackId> = lattice.node(bottom).outgoing.keys().copied().collect();
        assert_eq!(stacks.len(), 1);
        assert_eq!(lattice.levels_of(stacks[0]), [0, 1]);
        assert_eq!(lattice.stacks_with(1), stacks);
    }
}
