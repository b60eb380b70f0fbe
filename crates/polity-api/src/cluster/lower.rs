//! From wire types to what engines read.
//!
//! What a user got wrong in a placement or a strategy is part of the answer there and becomes a condition; objects that
//! others write (clusters, sets, decisions) are refused with the fields that do not fit.

mod placement;
mod strategy;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as WireSelector;
use polity_core::cluster::{
    AddOnScores, ClusterSet, ClusterSetBinding, ManagedCluster, SetMembers, Taint, TaintEffect,
    names,
};
use polity_core::placement::{PlacementDecision, PlacementKey};
use polity_core::quantity::Quantity;
use polity_core::rollout_strategy::GroupKey;
use polity_core::selector::LabelSelector;
use polity_core::{ClusterName, FieldError, FieldPath};
use serde_json::json;

use super::v1beta2::SelectorType;
use super::{v1, v1alpha1, v1beta1, v1beta2};

/// The fields that do not fit.
type Errors = Vec<FieldError>;

impl TryFrom<&v1::ManagedCluster> for ManagedCluster {
    type Error = Errors;

    fn try_from(cluster: &v1::ManagedCluster) -> Result<Self, Errors> {
        let status = cluster.status.clone().unwrap_or_default();
        let mut errors = Vec::new();
        let lowered = Self {
            name: ClusterName::from(cluster.metadata.name.as_deref().unwrap_or_default()),
            labels: cluster.metadata.labels.clone().unwrap_or_default(),
            claims: status
                .cluster_claims
                .into_iter()
                .map(|claim| (claim.name, claim.value))
                .collect(),
            taints: cluster.spec.taints.iter().map(Taint::from).collect(),
            allocatable: quantities(&status.allocatable, "allocatable", &mut errors),
            capacity: quantities(&status.capacity, "capacity", &mut errors),
            is_deleting: cluster.metadata.deletion_timestamp.is_some(),
        };
        if errors.is_empty() {
            Ok(lowered)
        } else {
            Err(errors)
        }
    }
}

impl From<&v1::Taint> for Taint {
    fn from(taint: &v1::Taint) -> Self {
        Self {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.into(),
            time_added: taint.time_added.as_ref().map(|time| time.0),
        }
    }
}

impl From<v1::TaintEffect> for TaintEffect {
    fn from(effect: v1::TaintEffect) -> Self {
        match effect {
            v1::TaintEffect::NoSelect => Self::NoSelect,
            v1::TaintEffect::PreferNoSelect => Self::PreferNoSelect,
            v1::TaintEffect::NoSelectIfNew => Self::NoSelectIfNew,
        }
    }
}

fn quantities(
    wire: &BTreeMap<String, WireQuantity>,
    field: &'static str,
    errors: &mut Errors,
) -> BTreeMap<String, Quantity> {
    let mut lowered = BTreeMap::new();
    for (resource, quantity) in wire {
        match quantity.0.parse() {
            Ok(quantity) => {
                lowered.insert(resource.clone(), quantity);
            }
            Err(error) => {
                let error: polity_core::quantity::QuantityError = error;
                let path = FieldPath::of("status").child(field).key(resource);
                let detail = error.to_string();
                errors.push(FieldError::invalid(&path, &json!(quantity.0), &detail));
            }
        }
    }
    lowered
}

impl TryFrom<&v1beta2::ManagedClusterSet> for ClusterSet {
    type Error = Errors;

    fn try_from(set: &v1beta2::ManagedClusterSet) -> Result<Self, Errors> {
        let selector = &set.spec.cluster_selector;
        let members = match selector.selector_type {
            SelectorType::ExclusiveClusterSetLabel => SetMembers::Exclusive,
            SelectorType::LabelSelector => {
                let path = FieldPath::of("spec").child("clusterSelector");
                let path = path.child("labelSelector");
                SetMembers::Labels(label_selector(selector.label_selector.as_ref(), &path)?)
            }
        };
        Ok(Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            members,
        })
    }
}

/// The name of a binding must be that of its set: one namespace could otherwise bind a set twice.
impl TryFrom<&v1beta2::ManagedClusterSetBinding> for ClusterSetBinding {
    type Error = Errors;

    fn try_from(binding: &v1beta2::ManagedClusterSetBinding) -> Result<Self, Errors> {
        let cluster_set = binding.spec.cluster_set.clone();
        if binding.metadata.name.as_deref() != Some(&cluster_set) {
            let path = FieldPath::of("spec").child("clusterSet");
            let detail = "must be the name of the binding";
            return Err(vec![FieldError::invalid(
                &path,
                &json!(cluster_set),
                detail,
            )]);
        }
        Ok(Self {
            namespace: binding.metadata.namespace.clone().unwrap_or_default(),
            cluster_set,
        })
    }
}

impl From<&v1alpha1::AddOnPlacementScore> for AddOnScores {
    fn from(score: &v1alpha1::AddOnPlacementScore) -> Self {
        let status = score.status.clone().unwrap_or_default();
        Self {
            cluster: ClusterName::from(score.metadata.namespace.as_deref().unwrap_or_default()),
            resource_name: score.metadata.name.clone().unwrap_or_default(),
            scores: status
                .scores
                .into_iter()
                .map(|item| (item.name, item.value))
                .collect(),
            valid_until: status.valid_until.map(|time| time.0),
        }
    }
}

/// Without an index the decision belongs to group 0; an index that is no number is refused.
impl TryFrom<&v1beta1::PlacementDecision> for PlacementDecision {
    type Error = Errors;

    fn try_from(decision: &v1beta1::PlacementDecision) -> Result<Self, Errors> {
        let label = |key: &str| decision.metadata.labels.as_ref()?.get(key);
        let path = |key: &str| FieldPath::of("metadata").child("labels").key(key);
        let placement = label(names::PLACEMENT).ok_or_else(|| {
            let detail = "says which placement decided";
            vec![FieldError::required(&path(names::PLACEMENT), detail)]
        })?;
        let index = match label(names::DECISION_GROUP_INDEX) {
            None => 0,
            Some(text) => text.parse().map_err(|_| {
                let path = path(names::DECISION_GROUP_INDEX);
                let detail = "must be a number from 0";
                vec![FieldError::invalid(&path, &json!(text), detail)]
            })?,
        };
        let group_name = label(names::DECISION_GROUP_NAME).map_or("", String::as_str);
        let decisions = decision.status.iter().flat_map(|status| &status.decisions);
        Ok(Self {
            placement: PlacementKey::new(
                decision.metadata.namespace.clone().unwrap_or_default(),
                placement,
            ),
            name: decision.metadata.name.clone().unwrap_or_default(),
            group: GroupKey::new(index, group_name),
            clusters: decisions
                .map(|decision| ClusterName::from(&*decision.cluster_name))
                .collect(),
        })
    }
}

/// An absent selector selects everything, here.
fn label_selector(
    selector: Option<&WireSelector>,
    path: &FieldPath,
) -> Result<LabelSelector, Errors> {
    match selector {
        None => Ok(LabelSelector::everything()),
        Some(selector) => LabelSelector::from_json(&json!(selector), path),
    }
}

#[cfg(test)]
mod tests;
