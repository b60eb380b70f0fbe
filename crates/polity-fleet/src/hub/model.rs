//! What the hub knows: one cache for each kind, filled by one watch and read by all controllers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use polity_api::cluster::v1::ManagedCluster;
use polity_api::cluster::v1beta1::{Placement, PlacementDecision};
use polity_api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use polity_api::policy::{v1, v1beta1};
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding};
use polity_core::governance::names;
use polity_core::placement::{self, PlacementKey};
use polity_core::{ClusterName, ObjectKey};
use polity_govern::objects::{
    Binding, PlacementKind, PlacementRef, Policy, PolicySet, SubjectKind,
};
use polity_govern::place::Decisions;
use polity_reconcile::{Cache, SharedCache};
use polity_rollout::{DecisionGroups, Fleet, FleetParts};
use polity_source::CelPredicates;

use super::clusters::plan::{NamespaceState, ObservedLease};

/// The caches of the hub.
pub(crate) struct HubModel {
    pub(crate) clusters: SharedCache<ClusterName, Arc<ClusterEntry>>,
    /// By cluster.
    pub(crate) leases: SharedCache<ClusterName, ObservedLease>,
    pub(crate) namespaces: SharedCache<String, NamespaceState>,
    pub(crate) cluster_sets: SharedCache<String, Arc<ClusterSetEntry>>,
    /// Found by the name of their set.
    pub(crate) set_bindings: SharedCache<ObjectKey, Arc<SetBindingEntry>, String>,
    pub(crate) scores: SharedCache<ObjectKey, Arc<AddOnScores>>,
    pub(crate) placements: SharedCache<PlacementKey, Arc<PlacementEntry>>,
    pub(crate) decisions: SharedCache<ObjectKey, Arc<DecisionEntry>, PlacementKey>,
    pub(crate) rules: SharedCache<ObjectKey, Arc<Decisions>>,
    pub(crate) bindings: SharedCache<ObjectKey, Arc<Binding>, BindingIndex>,
    pub(crate) policy_sets: SharedCache<ObjectKey, Arc<PolicySetEntry>, PolicySetIndex>,
    pub(crate) policies: SharedCache<ObjectKey, Arc<PolicyEntry>, PolicyIndex>,
    /// Evaluates the expressions of placements over the objects of the clusters.
    pub(crate) expressions: CelPredicates<'static>,
    /// Counts the changes of what placements select from.
    fleet_version: AtomicU64,
    fleet: Mutex<Option<(u64, Arc<Fleet>)>>,
}

/// A cluster as it was read, and as the scheduler sees it.
#[derive(Debug, PartialEq)]
pub(crate) struct ClusterEntry {
    pub(crate) object: ManagedCluster,
    /// `None` when a resource quantity cannot be read. Such a cluster is not selected.
    pub(crate) schedulable: Option<polity_core::ManagedCluster>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct ClusterSetEntry {
    pub(crate) object: ManagedClusterSet,
    /// `None` when its selector cannot be read. Such a set is empty.
    pub(crate) set: Option<ClusterSet>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct SetBindingEntry {
    pub(crate) object: ManagedClusterSetBinding,
    /// `None` when its name is not the name of its set. Such a binding has no effect.
    pub(crate) binding: Option<ClusterSetBinding>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct PlacementEntry {
    pub(crate) object: Placement,
    pub(crate) placement: placement::Placement,
}

#[derive(Debug, PartialEq)]
pub(crate) struct DecisionEntry {
    pub(crate) object: PlacementDecision,
    pub(crate) decision: placement::PlacementDecision,
}

#[derive(Debug, PartialEq)]
pub(crate) struct PolicySetEntry {
    pub(crate) object: v1beta1::PolicySet,
    pub(crate) set: PolicySet,
}

/// A policy of any role.
#[derive(Debug, PartialEq)]
pub(crate) struct PolicyEntry {
    pub(crate) policy: Policy,
    pub(crate) is_deleting: bool,
    /// The object, of policies that are no replicas: their status is written. Replicas are many.
    pub(crate) object: Option<v1::Policy>,
}

/// What leads to a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BindingIndex {
    /// The namespace and the placement.
    Placement(String, PlacementRef),
    /// The namespace, the kind of the subject and its name.
    Subject(String, SubjectKind, String),
}

/// What leads to a policy set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicySetIndex {
    Namespace(String),
    /// A policy that is a member.
    Member(ObjectKey),
}

/// What leads to a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyIndex {
    Namespace(String),
    /// The root policy that it is a replica of, by its name.
    Root(ObjectKey),
    /// A policy set that it names as a dependency.
    DependsOnSet(ObjectKey),
}

impl Default for HubModel {
    fn default() -> Self {
        Self {
            clusters: SharedCache::new(Cache::default()),
            leases: SharedCache::new(Cache::default()),
            namespaces: SharedCache::new(Cache::default()),
            cluster_sets: SharedCache::new(Cache::default()),
            set_bindings: SharedCache::new(Cache::new(|_, entry| {
                vec![entry.object.spec.cluster_set.clone()]
            })),
            scores: SharedCache::new(Cache::default()),
            placements: SharedCache::new(Cache::default()),
            decisions: SharedCache::new(Cache::new(|_, entry| {
                vec![entry.decision.placement.clone()]
            })),
            rules: SharedCache::new(Cache::default()),
            bindings: SharedCache::new(Cache::new(|_, binding| binding_index(binding))),
            policy_sets: SharedCache::new(Cache::new(|_, entry| set_index(&entry.set))),
            policies: SharedCache::new(Cache::new(|_, entry| policy_index(&entry.policy))),
            expressions: CelPredicates::default(),
            fleet_version: AtomicU64::new(0),
            fleet: Mutex::new(None),
        }
    }
}

fn binding_index(binding: &Binding) -> Vec<BindingIndex> {
    let namespace = &binding.namespace;
    let placement = binding.placement.iter();
    let placement =
        placement.map(|placement| BindingIndex::Placement(namespace.clone(), placement.clone()));
    let subjects: BTreeSet<BindingIndex> = binding
        .subjects
        .iter()
        .map(|subject| BindingIndex::Subject(namespace.clone(), subject.kind, subject.name.clone()))
        .collect();
    placement.chain(subjects).collect()
}

fn set_index(set: &PolicySet) -> Vec<PolicySetIndex> {
    let members: BTreeSet<&String> = set.policies.iter().collect();
    let members = members
        .into_iter()
        .map(|name| PolicySetIndex::Member(ObjectKey::namespaced(&set.namespace, name)));
    std::iter::once(PolicySetIndex::Namespace(set.namespace.clone()))
        .chain(members)
        .collect()
}

fn policy_index(policy: &Policy) -> Vec<PolicyIndex> {
    let mut entries = vec![PolicyIndex::Namespace(policy.namespace.clone())];
    match root_of(policy) {
        Some(root) => entries.push(PolicyIndex::Root(root)),
        None => entries.extend(sets_depended_on(policy).map(PolicyIndex::DependsOnSet)),
    }
    entries
}

/// The root policy whose replica this would be.
pub(crate) fn root_of(policy: &Policy) -> Option<ObjectKey> {
    policy.labels.get(names::ROOT_POLICY)?;
    let (namespace, name) = names::root_of(&policy.name)?;
    Some(ObjectKey::namespaced(namespace, name))
}

/// The policy sets that a root policy names as dependencies.
pub(crate) fn sets_depended_on(policy: &Policy) -> impl Iterator<Item = ObjectKey> {
    let of_templates = policy
        .spec
        .templates
        .iter()
        .flat_map(|template| &template.extra_dependencies);
    let all = policy.spec.dependencies.iter().chain(of_templates);
    let sets: BTreeSet<ObjectKey> = all
        .filter(|dependency| dependency.kind == "PolicySet")
        .map(|dependency| {
            let namespace = dependency.namespace.as_ref().unwrap_or(&policy.namespace);
            ObjectKey::namespaced(namespace, &dependency.name)
        })
        .collect();
    sets.into_iter()
}

impl HubModel {
    /// Waits until every cache has been filled once. Before that, existing objects look deleted.
    pub(crate) async fn listed(&self) {
        self.clusters.listed().await;
        self.leases.listed().await;
        self.namespaces.listed().await;
        self.cluster_sets.listed().await;
        self.set_bindings.listed().await;
        self.scores.listed().await;
        self.placements.listed().await;
        self.decisions.listed().await;
        self.rules.listed().await;
        self.bindings.listed().await;
        self.policy_sets.listed().await;
        self.policies.listed().await;
    }

    /// Notes that something changed that placements select from or by.
    pub(crate) fn fleet_changed(&self) {
        self.fleet_version.fetch_add(1, Ordering::Relaxed);
    }

    /// The fleet to select from. It is built again after a change.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        let version = self.fleet_version.load(Ordering::Relaxed);
        let mut kept = self.fleet.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((built_at, fleet)) = &*kept
            && *built_at == version
        {
            return Arc::clone(fleet);
        }
        let fleet = Arc::new(Fleet::from(self.fleet_parts()));
        *kept = Some((version, Arc::clone(&fleet)));
        fleet
    }

    fn fleet_parts(&self) -> FleetParts {
        FleetParts {
            clusters: self.clusters.read(|all| {
                let clusters = all.iter().map(|(_, entry)| entry.schedulable.clone());
                clusters.flatten().collect()
            }),
            sets: self.cluster_sets.read(|all| {
                let sets = all.iter().map(|(_, entry)| entry.set.clone());
                sets.flatten().collect()
            }),
            bindings: self.set_bindings.read(|all| {
                let bindings = all.iter().map(|(_, entry)| entry.binding.clone());
                bindings.flatten().collect()
            }),
            scores: self.scores.read(|all| {
                let scores = all.iter().map(|(_, scores)| scores.as_ref().clone());
                scores.collect()
            }),
            decisions: self.decisions.read(|all| {
                let decisions = all.iter().map(|(_, entry)| entry.decision.clone());
                decisions.collect()
            }),
        }
    }

    /// The PlacementDecisions of a placement, in the order of their names.
    pub(crate) fn decisions_of(&self, placement: &PlacementKey) -> Vec<Arc<DecisionEntry>> {
        self.decisions.read(|all| {
            let keys = all.find(placement);
            keys.filter_map(|key| all.get(key).cloned()).collect()
        })
    }

    /// What a placement has decided; `None` if it does not exist.
    pub(crate) fn decided(&self, namespace: &str, reference: &PlacementRef) -> Option<Decisions> {
        match reference.kind {
            PlacementKind::Placement => self.decided_by_placement(namespace, reference),
            PlacementKind::PlacementRule => self.rules.read(|all| {
                let key = ObjectKey::namespaced(namespace, &reference.name);
                all.get(&key).map(|decisions| decisions.as_ref().clone())
            }),
        }
    }

    fn decided_by_placement(&self, namespace: &str, reference: &PlacementRef) -> Option<Decisions> {
        let key = PlacementKey::new(namespace, &reference.name);
        let entry = self.placements.read(|all| all.get(&key).cloned())?;
        let found = self.decisions_of(&key);
        let groups = DecisionGroups::gather(found.iter().map(|entry| {
            let decision = &entry.decision;
            (decision.group.clone(), decision.clusters.iter().cloned())
        }));
        let n_decided: usize = found
            .iter()
            .map(|entry| entry.decision.clusters.len())
            .sum();
        // A placement without a status has no scheduler, and its decisions are written by hand.
        let settled = entry.object.status.as_ref().is_none_or(|status| {
            usize::try_from(status.number_of_selected_clusters) == Ok(n_decided)
        });
        Some(Decisions {
            namespace: namespace.to_owned(),
            placement: reference.clone(),
            groups,
            settled,
        })
    }

    /// The bindings that a subject is named in.
    pub(crate) fn bindings_of(&self, index: &BindingIndex) -> Vec<Arc<Binding>> {
        self.bindings.read(|all| {
            let keys = all.find(index);
            keys.filter_map(|key| all.get(key).cloned()).collect()
        })
    }

    /// Whether a namespace belongs to a managed cluster.
    pub(crate) fn is_cluster_namespace(&self, namespace: &str) -> bool {
        let name = ClusterName::from(namespace);
        self.clusters.read(|all| all.get(&name).is_some())
    }

    /// The time at which the hub saw the last renewal of a lease.
    ///
    /// A renewal that was seen before keeps its time, however often the lease is listed again. A renewal that happened
    /// before this process started counts from its own time, so that a cluster that was silent before is not taken for
    /// available.
    pub(crate) fn lease_seen_at(
        &self,
        cluster: &ClusterName,
        renewed_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Timestamp {
        let before = self.leases.read(|all| all.get(cluster).cloned());
        match before {
            Some(before) if before.renewed_at == renewed_at => before.seen_at,
            Some(_) => now,
            None => renewed_at.unwrap_or(now).min(now),
        }
    }
}
