//! From the JSON of policies, bindings, placements and clusters to the values that the engines work on.

use std::borrow::Cow;

use polity_api::apps::v1::PlacementRule;
use polity_api::policy::{v1, v1beta1};
use polity_api::{cluster, decode};
use polity_core::FieldError;
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster};
use polity_core::governance::names;
use polity_core::placement::{Placement, PlacementDecision};
use polity_govern::hub::{HubObject, Lower};
use polity_govern::objects::{Binding, Policy, PolicySet};
use polity_govern::place::Decisions;
use polity_rollout::placement::ClusterExpressions;
use serde_json::{Value, json};

use crate::cluster_expressions::CelPredicates;

const CLUSTER_GROUP: &str = polity_core::cluster::names::GROUP;

/// Why an object does not fit its kind.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    #[error(transparent)]
    Decode(#[from] polity_api::DecodeError),
    #[error("{}", polity_core::field::join(.0))]
    Invalid(Vec<FieldError>),
}

/// Lowers one object; a kind that no rollout depends on is [`HubObject::Other`].
///
/// An object without a namespace goes to `default`, as it would if it were applied.
pub fn lower(object: &Value) -> Result<HubObject, LowerError> {
    let group = object["apiVersion"]
        .as_str()
        .and_then(|text| text.split_once('/'))
        .map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let namespaced = with_namespace(object);
    Ok(match (group, kind) {
        (names::GROUP, "Policy") => {
            let wire: v1::Policy = decode(&namespaced)?;
            HubObject::Policy(Box::new(Policy::from(&wire)))
        }
        (names::GROUP, "PlacementBinding") => {
            let wire: v1::PlacementBinding = decode(&namespaced)?;
            HubObject::Binding(Binding::from(&wire))
        }
        (names::GROUP, "PolicySet") => {
            let wire: v1beta1::PolicySet = decode(&namespaced)?;
            HubObject::PolicySet(PolicySet::from(&wire))
        }
        (names::APPS_GROUP, "PlacementRule") => {
            let wire: PlacementRule = decode(&namespaced)?;
            HubObject::PlacementRule(Decisions::from(&wire))
        }
        (CLUSTER_GROUP, "Placement") => {
            let wire: cluster::v1beta1::Placement = decode(&namespaced)?;
            HubObject::Placement(Box::new(Placement::from(&wire)))
        }
        (CLUSTER_GROUP, "PlacementDecision") => {
            let wire: cluster::v1beta1::PlacementDecision = decode(&namespaced)?;
            HubObject::Decision(PlacementDecision::try_from(&wire).map_err(LowerError::Invalid)?)
        }
        (CLUSTER_GROUP, "ManagedCluster") => {
            let wire: cluster::v1::ManagedCluster = decode(object)?;
            HubObject::Cluster(Box::new(
                ManagedCluster::try_from(&wire).map_err(LowerError::Invalid)?,
            ))
        }
        (CLUSTER_GROUP, "ManagedClusterSet") => {
            let wire: cluster::v1beta2::ManagedClusterSet = decode(object)?;
            HubObject::ClusterSet(ClusterSet::try_from(&wire).map_err(LowerError::Invalid)?)
        }
        (CLUSTER_GROUP, "ManagedClusterSetBinding") => {
            let wire: cluster::v1beta2::ManagedClusterSetBinding = decode(&namespaced)?;
            HubObject::ClusterSetBinding(
                ClusterSetBinding::try_from(&wire).map_err(LowerError::Invalid)?,
            )
        }
        (CLUSTER_GROUP, "AddOnPlacementScore") => {
            let wire: cluster::v1alpha1::AddOnPlacementScore = decode(&namespaced)?;
            HubObject::Scores(AddOnScores::from(&wire))
        }
        _ => HubObject::Other,
    })
}

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

/// Lowers objects and evaluates expressions over the clusters among them, for simulations.
#[derive(Debug, Default)]
pub struct HubLowering {
    expressions: CelPredicates<'static>,
}

impl Lower for HubLowering {
    fn lower(&self, object: &Value) -> Result<HubObject, String> {
        let lowered = lower(object).map_err(|error| error.to_string())?;
        match &lowered {
            HubObject::Cluster(cluster) => {
                self.expressions
                    .set_cluster(cluster, Cow::Owned(object.clone()));
            }
            HubObject::Scores(scores) => self.expressions.set_scores(scores),
            _ => {}
        }
        Ok(lowered)
    }

    fn expressions(&self) -> &dyn ClusterExpressions {
        &self.expressions
    }
}
