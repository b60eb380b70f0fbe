//! A fleet from manifests: clusters, sets, bindings, scores, placements and decisions.

use std::collections::HashMap;

use polity_api::cluster::{names, v1, v1alpha1, v1beta1, v1beta2};
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster};
use polity_core::placement::{Placement, PlacementDecision};
use polity_core::{ClusterName, FieldError, field};
use polity_rollout::{Fleet, FleetParts};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::cel::Expressions;
use crate::manifests::{Document, Manifests, Problem};

/// What manifests say of a fleet and of what chooses from it.
#[derive(Debug, Default)]
pub struct FleetFiles<'a> {
    pub placements: Vec<(&'a Document, Placement)>,
    pub parts: FleetParts,
    /// The objects of the clusters.
    objects: HashMap<ClusterName, &'a Value>,
    /// Documents that could not be used.
    pub problems: Vec<Problem>,
}

impl<'a> FleetFiles<'a> {
    /// Takes what belongs to a fleet from everything that was read; what cannot be used becomes a problem.
    pub fn read(manifests: &'a Manifests) -> Self {
        let mut read = Self::default();
        let of_group = |document: &&Document| document.kind.group == names::GROUP;
        for document in manifests.documents.iter().filter(of_group) {
            if let Err(message) = read.take(document) {
                read.problems.push(Problem {
                    origin: document.origin.clone(),
                    message: format!("{} {}: {message}", document.kind.kind, document.name()),
                });
            }
        }
        read
    }

    /// The fleet to choose from.
    pub fn fleet(&self) -> Fleet {
        self.parts.clone().into()
    }

    /// What evaluates the expressions of predicates.
    pub fn expressions(&self) -> Expressions {
        let mut scores: HashMap<&ClusterName, Map<String, Value>> = HashMap::new();
        for given in &self.parts.scores {
            let item =
                |(name, value): (&String, &i32)| serde_json::json!({"name": name, "value": value});
            let items = given.scores.iter().map(item).collect();
            let of_cluster = scores.entry(&given.cluster).or_default();
            of_cluster.insert(given.resource_name.clone(), items);
        }
        Expressions::new(self.objects.iter().map(|(cluster, object)| {
            let scores = scores.remove(cluster).unwrap_or_default();
            (cluster.clone(), *object, Value::Object(scores))
        }))
    }

    fn take(&mut self, document: &'a Document) -> Result<(), String> {
        match document.kind.kind.as_str() {
            "ManagedCluster" => {
                let cluster: v1::ManagedCluster = decode(document)?;
                let cluster = ManagedCluster::try_from(&cluster).map_err(joined)?;
                self.objects.insert(cluster.name.clone(), &document.object);
                self.parts.clusters.push(cluster);
            }
            "ManagedClusterSet" => {
                let set: v1beta2::ManagedClusterSet = decode(document)?;
                let set = ClusterSet::try_from(&set).map_err(joined)?;
                self.parts.sets.push(set);
            }
            "ManagedClusterSetBinding" => {
                let binding: v1beta2::ManagedClusterSetBinding = decode(document)?;
                let binding = ClusterSetBinding::try_from(&binding).map_err(joined)?;
                self.parts.bindings.push(binding);
            }
            "AddOnPlacementScore" => {
                let scores: v1alpha1::AddOnPlacementScore = decode(document)?;
                self.parts.scores.push(AddOnScores::from(&scores));
            }
            "PlacementDecision" => {
                let decision: v1beta1::PlacementDecision = decode(document)?;
                let decision = PlacementDecision::try_from(&decision).map_err(joined)?;
                self.parts.decisions.push(decision);
            }
            "Placement" => {
                let placement: v1beta1::Placement = decode(document)?;
                let placement = Placement::from(&placement);
                self.placements.push((document, placement));
            }
            // Claims stand on the clusters themselves; other kinds are none of a scheduler's business.
            _ => {}
        }
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(document: &Document) -> Result<T, String> {
    T::deserialize(&document.object).map_err(|error| error.to_string())
}

fn joined(errors: Vec<FieldError>) -> String {
    field::join(&errors)
}
