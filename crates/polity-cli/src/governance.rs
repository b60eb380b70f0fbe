//! Policies, bindings, placements and clusters from files, as the values that the engines decide by.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_api::apps::v1::PlacementRule;
use polity_api::policy::{v1, v1beta1};
use polity_api::{cluster, decode};
use polity_core::ClusterName;
use polity_core::cluster::{ClusterSet, ClusterSetBinding, ManagedCluster};
use polity_core::governance::{Binding, PlacementKind, PlacementRef, Policy, PolicySet, names};
use polity_core::placement::{Placement, PlacementDecision};
use polity_govern::place::Decisions;
use polity_govern::simulate::{Document, Hub, PolicyKey};
use polity_rollout::{DecisionGroups, Fleet, FleetParts, schedule};
use serde_json::{Value, json};

use crate::manifests::{Manifests, Problem};

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

/// Everything about governance that files hold.
#[derive(Default)]
pub(crate) struct Governance {
    /// Root policies and replicas, bindings and sets; its decisions come from [`Governance::decide`].
    pub(crate) hub: Hub,
    pub(crate) placements: Vec<Placement>,
    pub(crate) problems: Vec<Problem>,
    fleet: FleetParts,
    rules: Vec<Decisions>,
}

impl Governance {
    /// Reads what was loaded; documents that do not fit are problems, and the rest goes on.
    pub(crate) fn of(manifests: &Manifests) -> Self {
        let mut governance = Self::default();
        let mut policies = Vec::new();
        for document in &manifests.documents {
            match lower(&document.object) {
                Err(message) => governance.problems.push(Problem {
                    origin: document.origin.clone(),
                    message: format!("{} {}: {message}", document.kind.kind, document.name()),
                }),
                Ok(Document::Policy(policy)) => policies.push(*policy),
                Ok(Document::Binding(binding)) => governance.hub.bindings.push(binding),
                Ok(Document::PolicySet(set)) => governance.hub.policy_sets.push(set),
                Ok(Document::Placement(placement)) => governance.placements.push(*placement),
                Ok(Document::Decision(decision)) => governance.fleet.decisions.push(decision),
                Ok(Document::PlacementRule(decisions)) => governance.rules.push(decisions),
                Ok(Document::Cluster(cluster)) => governance.fleet.clusters.push(*cluster),
                Ok(Document::ClusterSet(set)) => governance.fleet.sets.push(set),
                Ok(Document::ClusterSetBinding(binding)) => governance.fleet.bindings.push(binding),
                Ok(Document::Other) => {}
            }
        }
        for policy in policies {
            governance.add(policy);
        }
        governance
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
        let fleet = Fleet::from(self.fleet.clone());
        let mut decisions = std::mem::take(&mut self.rules);
        for placement in &self.placements {
            let given: Vec<_> = self
                .fleet
                .decisions
                .iter()
                .filter(|decision| decision.placement == placement.key)
                .map(|decision| (decision.group.clone(), decision.clusters.clone()))
                .collect();
            let groups = if given.is_empty() {
                schedule(
                    placement,
                    &fleet,
                    &polity_rollout::placement::NoExpressions,
                    now,
                )
                .decision_groups()
            } else {
                DecisionGroups::gather(given)
            };
            decisions.push(Decisions {
                namespace: placement.key.namespace.clone(),
                placement: PlacementRef {
                    name: placement.key.name.clone(),
                    kind: PlacementKind::Placement,
                },
                groups,
                settled: true,
            });
        }
        self.hub.decisions = decisions;
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
        self.fleet.clusters.len()
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
