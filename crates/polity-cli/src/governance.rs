//! Policies, bindings, placements and clusters from files, as the values that the engines decide by.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_api::apps::v1::PlacementRule;
use polity_api::policy::{v1, v1beta1};
use polity_api::{cluster, decode};
use polity_core::ClusterName;
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster};
use polity_core::governance::{Binding, PlacementKind, PlacementRef, Policy, PolicySet, names};
use polity_core::placement::{Placement, PlacementDecision, PlacementKey};
use polity_govern::place::{self, Decisions};
use polity_govern::simulate::{Document, Hub, Lower, PolicyKey};
use polity_rollout::DecisionGroups;
use polity_rollout::placement::ClusterExpressions;
use serde_json::{Value, json};

use crate::placement::{Expressions, FleetFiles, unusable};
use polity_source::{Manifests, Problem};

const CLUSTER_GROUP: &str = polity_core::cluster::names::GROUP;

/// Lowers one object; what a rollout has no use for is [`Document::Other`].
pub(crate) fn lower(object: &Value) -> Result<Document, String> {
    let group = object["apiVersion"]
        .as_str()
        .and_then(|text| text.split_once('/'))
        .map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let text = |error: polity_api::DecodeError| error.to_string();
    let joined = |errors: Vec<polity_core::FieldError>| polity_core::field::join(&errors);
    let namespaced = with_namespace(object);
    Ok(match (group, kind) {
        (names::GROUP, "Policy") => {
            let wire: v1::Policy = decode(&namespaced).map_err(text)?;
            Document::Policy(Box::new(Policy::from(&wire)))
        }
        (names::GROUP, "PlacementBinding") => {
            let wire: v1::PlacementBinding = decode(&namespaced).map_err(text)?;
            Document::Binding(Binding::from(&wire))
        }
        (names::GROUP, "PolicySet") => {
            let wire: v1beta1::PolicySet = decode(&namespaced).map_err(text)?;
            Document::PolicySet(PolicySet::from(&wire))
        }
        (names::APPS_GROUP, "PlacementRule") => {
            let wire: PlacementRule = decode(&namespaced).map_err(text)?;
            Document::PlacementRule(rule_decisions(&wire))
        }
        (CLUSTER_GROUP, "Placement") => {
            let wire: cluster::v1beta1::Placement = decode(&namespaced).map_err(text)?;
            Document::Placement(Box::new(Placement::from(&wire)))
        }
        (CLUSTER_GROUP, "PlacementDecision") => {
            let wire: cluster::v1beta1::PlacementDecision = decode(&namespaced).map_err(text)?;
            Document::Decision(PlacementDecision::try_from(&wire).map_err(joined)?)
        }
        (CLUSTER_GROUP, "ManagedCluster") => {
            let wire: cluster::v1::ManagedCluster = decode(object).map_err(text)?;
            Document::Cluster(Box::new(ManagedCluster::try_from(&wire).map_err(joined)?))
        }
        (CLUSTER_GROUP, "ManagedClusterSet") => {
            let wire: cluster::v1beta2::ManagedClusterSet = decode(object).map_err(text)?;
            Document::ClusterSet(ClusterSet::try_from(&wire).map_err(joined)?)
        }
        (CLUSTER_GROUP, "ManagedClusterSetBinding") => {
            let wire: cluster::v1beta2::ManagedClusterSetBinding =
                decode(&namespaced).map_err(text)?;
            Document::ClusterSetBinding(ClusterSetBinding::try_from(&wire).map_err(joined)?)
        }
        (CLUSTER_GROUP, "AddOnPlacementScore") => {
            let wire: cluster::v1alpha1::AddOnPlacementScore = decode(&namespaced).map_err(text)?;
            Document::Scores(AddOnScores::from(&wire))
        }
        _ => Document::Other,
    })
}

/// The object as it would be applied: without a namespace it goes to `default`.
fn with_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    let namespace = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if namespace.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("namespace".to_owned(), json!("default"));
    }
    object
}

fn rule_decisions(rule: &PlacementRule) -> Decisions {
    let decided = rule.status.iter().flat_map(|status| &status.decisions);
    Decisions {
        namespace: rule.metadata.namespace.clone().unwrap_or_default(),
        placement: PlacementRef {
            name: rule.metadata.name.clone().unwrap_or_default(),
            kind: PlacementKind::PlacementRule,
        },
        groups: DecisionGroups::single(decided.map(|decision| decision.cluster_name.as_str())),
        settled: true,
    }
}

/// What a simulation asks of the outside: objects lowered, and expressions over the clusters among them.
#[derive(Debug, Default)]
pub(crate) struct Lowering {
    expressions: Expressions<'static>,
}

impl Lower for Lowering {
    fn lower(&self, object: &Value) -> Result<Document, String> {
        let lowered = lower(object)?;
        match &lowered {
            Document::Cluster(cluster) => {
                self.expressions.know(cluster, Cow::Owned(object.clone()));
            }
            Document::Scores(scores) => self.expressions.know_scores(scores),
            _ => {}
        }
        Ok(lowered)
    }

    fn expressions(&self) -> &dyn ClusterExpressions {
        &self.expressions
    }
}

/// Everything about governance that files hold.
#[derive(Default)]
pub(crate) struct Governance<'a> {
    /// Root policies and replicas, bindings and sets; its decisions come from [`Governance::decide`].
    pub(crate) hub: Hub,
    pub(crate) fleet: FleetFiles<'a>,
    pub(crate) problems: Vec<Problem>,
    /// The placements that choose nobody because they make no sense; they come from [`Governance::decide`].
    pub(crate) misconfigured: Vec<(PlacementKey, String)>,
    rules: Vec<Decisions>,
}

impl<'a> Governance<'a> {
    /// Reads what was loaded; documents that do not fit are problems, and the rest goes on.
    pub(crate) fn of(manifests: &'a Manifests) -> Self {
        let mut governance = Self::default();
        for document in &manifests.documents {
            match lower(&document.object) {
                Ok(lowered) => governance.take(document, lowered),
                Err(message) => governance.problems.push(unusable(document, &message)),
            }
        }
        governance
    }

    fn take(&mut self, document: &'a polity_source::Document, lowered: Document) {
        match self.fleet.take(document, lowered) {
            Some(Document::Policy(policy)) => self.add(*policy),
            Some(Document::Binding(binding)) => self.hub.bindings.push(binding),
            Some(Document::PolicySet(set)) => self.hub.policy_sets.push(set),
            Some(Document::PlacementRule(decisions)) => self.rules.push(decisions),
            _ => {}
        }
    }

    /// A policy with the label of a root is a replica of it, whichever file it stands in.
    fn add(&mut self, policy: Policy) {
        let root = policy
            .labels
            .get(names::ROOT_POLICY)
            .and_then(|root| names::root_of(root));
        match root {
            None => {
                self.hub.policies.insert(PolicyKey::of(&policy), policy);
            }
            Some((namespace, name)) => {
                let key = PolicyKey {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                let cluster = ClusterName::from(policy.namespace.as_str());
                self.hub
                    .replicas
                    .entry(key)
                    .or_default()
                    .insert(cluster, policy);
            }
        }
    }

    /// Fills in the decisions: those among the files as they are, the others as the scheduler would decide now.
    pub(crate) fn decide(&mut self, now: Timestamp) {
        let placements = self.fleet.placements.iter();
        let placements = placements.map(|(_, placement)| placement);
        let fleet = self.fleet.fleet();
        let given = &self.fleet.parts.decisions;
        let decided = place::decide(placements, given, &fleet, &self.fleet.expressions, now);
        self.misconfigured = decided.misconfigured;
        self.hub.decisions = std::mem::take(&mut self.rules);
        self.hub.decisions.extend(decided.decisions);
    }

    /// The root policies of a name, in any namespace unless one is given.
    pub(crate) fn find(&self, name: &str, namespace: Option<&str>) -> Vec<PolicyKey> {
        let fits = |key: &&PolicyKey| {
            key.name == name && namespace.is_none_or(|namespace| key.namespace == namespace)
        };
        self.hub.policies.keys().filter(fits).cloned().collect()
    }

    /// The clusters that a placement may not know of are none: how many the files hold.
    pub(crate) fn n_clusters(&self) -> usize {
        self.fleet.parts.clusters.len()
    }

    /// The names of all placements, with their namespaces.
    pub(crate) fn decided(&self) -> BTreeMap<(&str, &str), &Decisions> {
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
