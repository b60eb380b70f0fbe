//! Reconciles ManagedClusterSets and their bindings. See docs/spec/governance.md#3-9.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use polity_api::cluster::v1beta2::{
    ManagedClusterSelector, ManagedClusterSet, ManagedClusterSetBinding, ManagedClusterSetSpec,
    SelectorType,
};
use polity_core::ObjectKey;
use polity_core::cluster::{ClusterSet, SetMembers, names};
use polity_reconcile::{Requeue, WriteError, Writer};
use polity_runtime::Clock;

use super::conditions::{ConditionUpdate, set_condition};
use super::model::HubModel;

/// The field manager of these writes.
const MANAGER: &str = "polity/cluster-sets";

/// The sets that always exist.
pub(crate) const BUILT_IN: [&str; 2] = [names::DEFAULT_SET, names::GLOBAL_SET];

/// The reconciler of ManagedClusterSets and ManagedClusterSetBindings.
#[derive(Clone)]
pub(crate) struct ClusterSets {
    clock: Clock,
    model: Arc<HubModel>,
    sets: Writer<ManagedClusterSet>,
    bindings: Writer<ManagedClusterSetBinding>,
}

impl ClusterSets {
    pub(crate) fn new(client: &Client, clock: Clock, model: Arc<HubModel>) -> Self {
        Self {
            clock,
            model,
            sets: Writer::new(client, MANAGER),
            bindings: Writer::new(client, MANAGER),
        }
    }

    /// Reconciles one ManagedClusterSet.
    pub(crate) async fn reconcile(&self, name: String) -> Result<Requeue, WriteError> {
        self.model.listed().await;
        let Some(entry) = self.model.cluster_sets.read(|all| all.get(&name).cloned()) else {
            if let Some(set) = built_in(&name) {
                self.sets.apply(&set).await?;
            }
            return Ok(Requeue::Never);
        };
        let n_members = entry.set.as_ref().map_or(0, |set| self.n_members(set));
        let now = self.clock.now();
        let message = format!("{n_members} ManagedClusters selected");
        let update = match n_members {
            0 => ConditionUpdate::is_true("NoClusterMatched", "No ManagedCluster selected"),
            _ => ConditionUpdate::is_false("ClustersSelected", &message),
        };
        let change = |set: &ManagedClusterSet| {
            let mut status = set.status.clone().unwrap_or_default();
            let generation = set.metadata.generation;
            set_condition(
                &mut status.conditions,
                "ClusterSetEmpty",
                update,
                generation,
                now,
            );
            Some(status)
        };
        let (clock, sets) = (&self.clock, &self.sets);
        sets.change_status(clock, &entry.object, change).await?;
        Ok(Requeue::Slowly)
    }

    /// Reconciles one ManagedClusterSetBinding.
    pub(crate) async fn reconcile_binding(&self, key: ObjectKey) -> Result<Requeue, WriteError> {
        self.model.listed().await;
        let Some(entry) = self.model.set_bindings.read(|all| all.get(&key).cloned()) else {
            return Ok(Requeue::Never);
        };
        let set = &entry.object.spec.cluster_set;
        let is_bound = self.model.cluster_sets.read(|all| all.get(set).is_some());
        let now = self.clock.now();
        let update = match is_bound {
            true => ConditionUpdate::is_true("ClusterSetBound", ""),
            false => ConditionUpdate::is_false("ClusterSetNotFound", ""),
        };
        let change = |binding: &ManagedClusterSetBinding| {
            let mut status = binding.status.clone().unwrap_or_default();
            let generation = binding.metadata.generation;
            set_condition(&mut status.conditions, "Bound", update, generation, now);
            Some(status)
        };
        let (clock, bindings) = (&self.clock, &self.bindings);
        bindings.change_status(clock, &entry.object, change).await?;
        Ok(Requeue::Slowly)
    }

    fn n_members(&self, set: &ClusterSet) -> usize {
        self.model.clusters.read(|all| {
            let clusters = all
                .iter()
                .filter_map(|(_, entry)| entry.schedulable.as_ref());
            clusters.filter(|cluster| set.contains(cluster)).count()
        })
    }
}

/// Whether the members of a set depend on other labels than that of the set.
pub(crate) fn selects_by_labels(set: &ClusterSet) -> bool {
    matches!(set.members, SetMembers::Labels(_))
}

fn built_in(name: &str) -> Option<ManagedClusterSet> {
    let selector = match name {
        names::DEFAULT_SET => ManagedClusterSelector::default(),
        names::GLOBAL_SET => ManagedClusterSelector {
            selector_type: SelectorType::LabelSelector,
            label_selector: Some(LabelSelector::default()),
        },
        _ => return None,
    };
    let spec = ManagedClusterSetSpec {
        cluster_selector: selector,
    };
    Some(ManagedClusterSet::new(name, spec))
}
