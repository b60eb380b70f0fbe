//! A fleet from manifests: clusters, sets, bindings, scores, placements and decisions.

use std::borrow::Cow;

use polity_core::cluster::names;
use polity_core::placement::Placement;
use polity_govern::simulate::Document as Lowered;
use polity_rollout::{Fleet, FleetParts};

use super::cel::Expressions;
use crate::governance::lower;
use polity_source::{Document, Manifests, Problem};

/// What manifests say of a fleet and of what chooses from it.
#[derive(Debug, Default)]
pub struct FleetFiles<'a> {
    pub placements: Vec<(&'a Document, Placement)>,
    pub parts: FleetParts,
    /// What evaluates the expressions of predicates.
    pub expressions: Expressions<'a>,
    /// Documents that could not be used.
    pub problems: Vec<Problem>,
}

impl<'a> FleetFiles<'a> {
    /// Takes what belongs to a fleet from everything that was read; what cannot be used becomes a problem.
    pub fn read(manifests: &'a Manifests) -> Self {
        let mut read = Self::default();
        let of_group = |document: &&Document| document.kind.group == names::GROUP;
        for document in manifests.documents.iter().filter(of_group) {
            match lower(&document.object) {
                // Claims stand on the clusters themselves; other kinds are none of a scheduler's business.
                Ok(lowered) => drop(read.take(document, lowered)),
                Err(message) => read.problems.push(unusable(document, &message)),
            }
        }
        read
    }

    /// The fleet to choose from.
    pub fn fleet(&self) -> Fleet {
        self.parts.clone().into()
    }

    /// Takes an object if it belongs to a fleet, and gives it back if not.
    pub(crate) fn take(&mut self, document: &'a Document, lowered: Lowered) -> Option<Lowered> {
        match lowered {
            Lowered::Cluster(cluster) => {
                let object = Cow::Borrowed(&document.object);
                self.expressions.know(&cluster, object);
                self.parts.clusters.push(*cluster);
            }
            Lowered::Scores(scores) => {
                self.expressions.know_scores(&scores);
                self.parts.scores.push(scores);
            }
            Lowered::ClusterSet(set) => self.parts.sets.push(set),
            Lowered::ClusterSetBinding(binding) => self.parts.bindings.push(binding),
            Lowered::Decision(decision) => self.parts.decisions.push(decision),
            Lowered::Placement(placement) => self.placements.push((document, *placement)),
            other => return Some(other),
        }
        None
    }
}

/// That a document does not fit its kind.
pub(crate) fn unusable(document: &Document, message: &str) -> Problem {
    Problem {
        origin: document.origin.clone(),
        message: format!("{} {}: {message}", document.kind.kind, document.name()),
    }
}
