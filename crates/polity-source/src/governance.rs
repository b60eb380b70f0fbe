//! The objects of a hub from manifests: policies, bindings, sets, placements and clusters.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_core::governance::names;
use polity_core::placement::PlacementKey;
use polity_core::{ClusterName, ObjectKey};
use polity_govern::hub::{Hub, HubObject};
use polity_govern::objects::Policy;
use polity_govern::place::{self, Decisions};

use crate::fleet::{FleetManifests, unusable};
use crate::lower::lower;
use crate::manifests::{Document, Manifests, Problem};

/// The objects of a hub that manifests describe.
#[derive(Default)]
pub struct HubManifests<'a> {
    /// Root policies and replicas, bindings and sets; [`HubManifests::decide`] adds the decisions.
    pub hub: Hub,
    pub fleet: FleetManifests<'a>,
    pub problems: Vec<Problem>,
    /// The placements that are misconfigured and select no cluster; [`HubManifests::decide`] sets them.
    pub misconfigured: Vec<(PlacementKey, String)>,
    rules: Vec<Decisions>,
}

impl<'a> HubManifests<'a> {
    /// Lowers all documents; one that does not fit its kind becomes a problem.
    pub fn read(manifests: &'a Manifests) -> Self {
        let mut governance = Self::default();
        for document in &manifests.documents {
            match lower(&document.object) {
                Ok(lowered) => governance.take(document, lowered),
                Err(error) => governance.problems.push(unusable(document, &error)),
            }
        }
        governance
    }

    fn take(&mut self, document: &'a Document, lowered: HubObject) {
        match self.fleet.take(document, lowered) {
            Some(HubObject::Policy(policy)) => self.add(*policy),
            Some(HubObject::Binding(binding)) => self.hub.bindings.push(binding),
            Some(HubObject::PolicySet(set)) => self.hub.policy_sets.push(set),
            Some(HubObject::PlacementRule(decisions)) => self.rules.push(decisions),
            _ => {}
        }
    }

    /// A policy with the label of a root policy is a replica of it, in whichever file it is.
    fn add(&mut self, policy: Policy) {
        let root = policy
            .labels
            .get(names::ROOT_POLICY)
            .and_then(|root| names::root_of(root));
        match root {
            None => {
                self.hub.policies.insert(policy.key(), policy);
            }
            Some((namespace, name)) => {
                let key = ObjectKey::namespaced(namespace, name);
                let cluster = ClusterName::from(policy.namespace.as_str());
                self.hub
                    .replicas
                    .entry(key)
                    .or_default()
                    .insert(cluster, policy);
            }
        }
    }

    /// Adds the decisions: those among the files as they are, and for other placements those of the scheduler.
    pub fn decide(&mut self, now: Timestamp) {
        let placements = self.fleet.placements.iter();
        let placements = placements.map(|(_, placement)| placement);
        let fleet = self.fleet.fleet();
        let given = &self.fleet.parts.decisions;
        let decided = place::decide(placements, given, &fleet, &self.fleet.expressions, now);
        self.misconfigured = decided.misconfigured;
        self.hub.decisions = std::mem::take(&mut self.rules);
        self.hub.decisions.extend(decided.decisions);
    }

    /// The root policies with this name, in one namespace or in all.
    pub fn find(&self, name: &str, namespace: Option<&str>) -> Vec<ObjectKey> {
        let fits = |key: &&ObjectKey| {
            key.name == name && (namespace.is_none() || key.namespace.as_deref() == namespace)
        };
        self.hub.policies.keys().filter(fits).cloned().collect()
    }

    pub fn n_clusters(&self) -> usize {
        self.fleet.parts.clusters.len()
    }

    /// The decisions of all placements, by namespace and name of the placement.
    pub fn decided(&self) -> BTreeMap<(&str, &str), &Decisions> {
        let all = self.hub.decisions.iter();
        all.map(|decisions| {
            (
                (
                    decisions.namespace.as_str(),
                    decisions.placement.name.as_str(),
                ),
                decisions,
            )
        })
        .collect()
    }
}
