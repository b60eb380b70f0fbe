//! Merges all policies on one path, with the outcome of every field. See docs/spec/attachment.md#5-2.
//!
//! One fold serves all strategies: from the lowest level up, defaults fill what is not set yet and overrides replace
//! what is. Each policy's own strategy governs what is beneath it and nothing else, so an override at the root is never
//! lost, however the levels below it are mixed.

use crate::graph::ids::{LevelId, ObjId};
use crate::policy::{Mode, Piece, Rank, Side};
use crate::settings::TieBreak;
use crate::tree::{Fate, Source, Tree};

/// The source of values that the object itself holds.
pub(crate) const OWN: Source = Source::MAX;

/// A policy that takes part, at one level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Participant<'a> {
    pub(crate) policy: ObjId,
    pub(crate) rank: &'a Rank,
    pub(crate) pieces: &'a [Piece],
}

/// One level of a path that has policies, in the order of rank.
#[derive(Debug, Clone)]
pub(crate) struct Level<'a> {
    pub(crate) id: LevelId,
    pub(crate) participants: Vec<Participant<'a>>,
}

/// A piece in the merge; its place in [`Merged::parts`] is the source of its leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) policy: ObjId,
    pub(crate) rank: &'a Rank,
    pub(crate) piece: &'a Piece,
    pub(crate) level: LevelId,
    /// How deep the level is; 0 is the root.
    pub(crate) depth: usize,
}

/// Why the value of one policy takes precedence over that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// A policy that targets the object itself takes precedence over an inherited one.
    Direct,
    /// Overrides take precedence over defaults.
    Override,
    /// Of two overrides the upper one takes precedence, of two defaults the lower one.
    Level,
    /// The older policy takes precedence over the newer one.
    Age,
    /// The policy that comes first by `namespace/name` takes precedence.
    Name,
    /// A policy with an atomic strategy replaces the other body as a whole.
    Strategy,
    /// The object's own value takes precedence over a default.
    Object,
}

impl Rule {
    /// The reason as shown to users.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Direct => "direct policies take precedence over inherited ones",
            Self::Override => "overrides take precedence over defaults",
            Self::Level => "upper overrides and lower defaults take precedence",
            Self::Age => "the older policy takes precedence",
            Self::Name => "the first policy by namespace/name takes precedence",
            Self::Strategy => "an atomic policy applies as a whole",
            Self::Object => "the object sets the field itself",
        }
    }
}

/// What came of one leaf of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Won,
    Agrees(Source),
    Beaten(Option<Source>, Rule),
}

/// The merge of one path.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    pub(crate) tree: Tree,
    pub(crate) parts: Vec<Part<'a>>,
    /// By which part a part was set aside as a whole.
    set_aside: Vec<Option<Source>>,
    tie_break: TieBreak,
}

/// Everything that meets on one path to one object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Input<'a> {
    /// From the root down.
    pub(crate) levels: Vec<Level<'a>>,
    /// Direct policies of the object itself, in the order of rank.
    pub(crate) direct: Option<Level<'a>>,
    /// Values of bound fields that the object holds.
    pub(crate) own: Option<Tree>,
    pub(crate) tie_break: TieBreak,
}

impl<'a> Merged<'a> {
    pub(crate) fn of(input: &Input<'a>) -> Self {
        let mut merged = Self {
            tree: input
                .own
                .as_ref()
                .map_or_else(Tree::empty, |own| own.sourced(OWN)),
            parts: Vec::new(),
            set_aside: Vec::new(),
            tie_break: input.tie_break,
        };
        for (depth, level) in input.levels.iter().enumerate().rev() {
            merged.add_level(level, depth, input.tie_break);
        }
        if let Some(level) = &input.direct {
            // They do not conflict with each other, so their order is of no matter.
            for participant in &level.participants {
                merged.add_policy(participant, level.id, usize::MAX, |_| true);
            }
        }
        merged
    }

    fn add_level(&mut self, level: &Level<'a>, depth: usize, tie_break: TieBreak) {
        let defaults = |piece: &Piece| piece.side == Side::Default;
        let overrides = |piece: &Piece| piece.side == Side::Override;
        match tie_break {
            TieBreak::Oldest => {
                for participant in &level.participants {
                    self.add_policy(participant, level.id, depth, defaults);
                }
                for participant in level.participants.iter().rev() {
                    self.add_policy(participant, level.id, depth, overrides);
                }
            }
            TieBreak::Established => {
                for participant in level.participants.iter().rev() {
                    self.add_policy(participant, level.id, depth, defaults);
                    self.add_policy(participant, level.id, depth, overrides);
                }
            }
        }
    }

    fn add_policy(
        &mut self,
        participant: &Participant<'a>,
        level: LevelId,
        depth: usize,
        wanted: impl Fn(&Piece) -> bool,
    ) {
        for piece in participant.pieces.iter().filter(|piece| wanted(piece)) {
            self.add(Part {
                policy: participant.policy,
                rank: participant.rank,
                piece,
                level,
                depth,
            });
        }
    }

    fn add(&mut self, part: Part<'a>) {
        let source = self.parts.len() as Source;
        self.parts.push(part);
        self.set_aside.push(None);
        let Piece {
            side, mode, tree, ..
        } = part.piece;
        match (side, mode) {
            (Side::Default, Mode::Fields | Mode::Patch) => self.tree.fill(tree.sourced(source)),
            (Side::Default, Mode::Atomic) => match self.tree.first_source() {
                None => self.tree = tree.sourced(source),
                Some(holder) => self.set_aside[source as usize] = Some(holder),
            },
            (Side::Override, Mode::Atomic) => {
                for earlier in &mut self.set_aside[..source as usize] {
                    earlier.get_or_insert(source);
                }
                self.tree = tree.sourced(source);
            }
            (Side::Override, Mode::Fields | Mode::Patch) | (Side::Direct, _) => {
                self.tree.overlay(tree.sourced(source));
            }
        }
    }

    /// Says of every leaf of part `source` what came of it.
    pub(crate) fn verdicts(
        &self,
        source: Source,
        visit: &mut impl FnMut(&str, &serde_json::Value, Verdict),
    ) {
        let part = &self.parts[source as usize];
        if let Some(by) = self.set_aside[source as usize] {
            part.piece.tree.leaves(&mut |path, value, _| {
                visit(path, value, Verdict::Beaten(Some(by), Rule::Strategy));
            });
            return;
        }
        self.tree
            .fates(&part.piece.tree, source, &mut |path, value, fate| {
                let verdict = match fate {
                    Fate::Won => Verdict::Won,
                    Fate::Agrees(other) => Verdict::Agrees(other),
                    Fate::Beaten(by) => Verdict::Beaten(Some(by), self.rule(by, part)),
                    Fate::Gone => Verdict::Beaten(None, Rule::Strategy),
                };
                visit(path, value, verdict);
            });
    }

    /// The rule by which the part `winner` beats `loser`.
    fn rule(&self, winner: Source, loser: &Part<'_>) -> Rule {
        let Some(winner) = self.parts.get(winner as usize) else {
            return Rule::Object;
        };
        match (winner.piece.side, loser.piece.side) {
            (Side::Direct, Side::Override | Side::Default) => Rule::Direct,
            (Side::Override, Side::Default) => Rule::Override,
            _ if winner.depth != loser.depth => Rule::Level,
            _ if self.tie_break == TieBreak::Established => Rule::Level,
            _ if winner.rank.same_age(loser.rank) => Rule::Name,
            _ => Rule::Age,
        }
    }

    /// For each policy that takes part, how many fields it sets and how many of them are in force.
    pub(crate) fn scores(&self) -> Vec<Score> {
        let mut scores: Vec<Score> = Vec::new();
        for (source, part) in self.parts.iter().enumerate() {
            let place = scores.iter().rposition(|score| score.policy == part.policy);
            let place = place.unwrap_or_else(|| {
                scores.push(Score {
                    policy: part.policy,
                    fields: 0,
                    in_force: 0,
                });
                scores.len() - 1
            });
            let score = &mut scores[place];
            self.verdicts(source as Source, &mut |_, _, verdict| {
                score.fields += 1;
                score.in_force += u32::from(!matches!(verdict, Verdict::Beaten(..)));
            });
        }
        scores
    }
}

/// How a policy fares on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Score {
    pub(crate) policy: ObjId,
    pub(crate) fields: u32,
    pub(crate) in_force: u32,
}
