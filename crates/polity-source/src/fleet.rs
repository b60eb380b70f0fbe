//! A fleet from manifests: clusters, sets, bindings, scores, placements and decisions.

use std::borrow::Cow;

use polity_core::cluster::names;
use polity_core::placement::Placement;
use polity_govern::hub::HubObject;
use polity_rollout::{Fleet, FleetParts};

use crate::cluster_expressions::CelPredicates;
use crate::lower::{LowerError, lower};
use crate::manifests::{Document, Manifests, Problem};

/// The fleet that manifests describe, and the placements that select from it.
#[derive(Debug, Default)]
pub struct FleetManifests<'a> {
    pub placements: Vec<(&'a Document, Placement)>,
    pub parts: FleetParts,
    /// Evaluates the expressions of predicates.
    pub expressions: CelPredicates<'a>,
    /// Documents that could not be used.
    pub problems: Vec<Problem>,
}

impl<'a> FleetManifests<'a> {
    /// Collects the objects of a fleet from all documents; one that does not fit its kind becomes a problem.
    pub fn read(manifests: &'a Manifests) -> Self {
        let mut read = Self::default();
        let of_group = |document: &&Document| document.kind.group == names::GROUP;
        for document in manifests.documents.iter().filter(of_group) {
            match lower(&document.object) {
                // Claims are part of the clusters; a scheduler reads no other kinds.
                Ok(lowered) => drop(read.take(document, lowered)),
                Err(error) => read.problems.push(unusable(document, &error)),
            }
        }
        read
    }

    /// The fleet to select from.
    pub fn fleet(&self) -> Fleet {
        self.parts.clone().into()
    }

    /// Adds an object if it belongs to a fleet, and returns it otherwise.
    pub(crate) fn take(&mut self, document: &'a Document, lowered: HubObject) -> Option<HubObject> {
        match lowered {
            HubObject::Cluster(cluster) => {
                let object = Cow::Borrowed(&document.object);
                self.expressions.set_cluster(&cluster, object);
                self.parts.clusters.push(*cluster);
            }
            HubObject::Scores(scores) => {
                self.expressions.set_scores(&scores);
                self.parts.scores.push(scores);
            }
            HubObject::ClusterSet(set) => self.parts.sets.push(set),
            HubObject::ClusterSetBinding(binding) => self.parts.bindings.push(binding),
            HubObject::Decision(decision) => self.parts.decisions.push(decision),
            HubObject::Placement(placement) => self.placements.push((document, *placement)),
            other => return Some(other),
        }
        None
    }
}

/// The problem of a document that does not fit its kind.
pub(crate) fn unusable(document: &Document, error: &LowerError) -> Problem {
    Problem {
        origin: document.origin.clone(),
        message: format!("{} {}: {error}", document.kind.kind, document.name()),
    }
}
