//! Which kinds the hub watches, and which keys a change queues.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PartialObjectMeta;
use kube::{Client, Resource};
use polity_api::apps::v1::PlacementRule;
use polity_api::cluster::v1::ManagedCluster;
use polity_api::cluster::v1alpha1::AddOnPlacementScore;
use polity_api::cluster::v1beta1::{Placement, PlacementDecision};
use polity_api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use polity_api::policy::{v1, v1beta1};
use polity_core::cluster::{AddOnScores, ClusterSet, ClusterSetBinding};
use polity_core::governance::names as governance;
use polity_core::placement::{self, PlacementKey};
use polity_core::{ClusterName, ObjectKey};
use polity_govern::objects::{
    Binding, PlacementKind, PlacementRef, Policy, PolicySet, SubjectKind,
};
use polity_govern::place::Decisions;
use polity_reconcile::{Change, Controller, Queue, SharedCache, Watch};
use polity_runtime::Clock;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::cluster_sets::{BUILT_IN, selects_by_labels};
use super::clusters::RightsCaches;
use super::clusters::plan::{NamespaceState, ObservedLease};
use super::clusters::rights::managed_selector;
use super::model::{
    BindingIndex, ClusterEntry, ClusterSetEntry, DecisionEntry, HubModel, PlacementEntry,
    PolicyEntry, PolicyIndex, PolicySetEntry, PolicySetIndex, SetBindingEntry, root_of,
};
use super::placements::PlacementJob;
use crate::{ClusterReport, names};

/// Changes of clusters within this time are one pass of the scheduler.
const GATHER_CLUSTERS: Duration = Duration::from_millis(500);
/// Changes of PlacementDecisions within this time are one plan.
const GATHER_DECISIONS: Duration = Duration::from_millis(100);
/// Reports of clusters within this time are one status of the root policy.
const GATHER_REPORTS: Duration = Duration::from_secs(1);

/// The queues of the controllers of a hub.
#[derive(Clone)]
pub(super) struct HubQueues {
    pub(super) clusters: Queue<ClusterName>,
    pub(super) cluster_sets: Queue<String>,
    pub(super) set_bindings: Queue<ObjectKey>,
    pub(super) placements: Queue<PlacementJob>,
    pub(super) policies: Queue<ObjectKey>,
    pub(super) policy_sets: Queue<ObjectKey>,
}

/// The watches of a hub.
pub(super) struct HubWatches<'a> {
    pub(super) client: &'a Client,
    pub(super) clock: Clock,
    pub(super) model: Arc<HubModel>,
    pub(super) queues: HubQueues,
}

impl HubWatches<'_> {
    /// Lets a controller run all watches.
    pub(super) fn attach(self, controller: &mut Controller<ClusterName>, rights: &RightsCaches) {
        self.watch_clusters(controller);
        self.watch_leases(controller);
        self.watch_namespaces(controller);
        self.watch_rights(controller, rights);
        self.watch_cluster_sets(controller);
        self.watch_set_bindings(controller);
        self.watch_scores(controller);
        self.watch_placements(controller);
        self.watch_decisions(controller);
        self.watch_rules(controller);
        self.watch_bindings(controller);
        self.watch_policy_sets(controller);
        self.watch_policies(controller);
    }

    fn waker(&self) -> Waker {
        Waker {
            model: Arc::clone(&self.model),
            queues: self.queues.clone(),
        }
    }

    fn watch_clusters(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &ManagedCluster| {
            let schedulable = polity_core::ManagedCluster::try_from(object).ok();
            Some(Arc::new(ClusterEntry {
                object: without_managed_fields(object),
                schedulable,
            }))
        };
        controller.keep(
            Watch::<ManagedCluster>::all(self.client),
            &self.model.clusters,
            cluster_name,
            value_of,
            move |_, change| waker.cluster_changed(&change),
        );
    }

    fn watch_leases(&self, controller: &mut Controller<ClusterName>) {
        let (model, clock) = (Arc::clone(&self.model), self.clock.clone());
        let value_of = move |lease: &Lease| {
            let cluster = ClusterName::from(lease.metadata.namespace.as_deref()?);
            let renewed_at = lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0);
            Some(ObservedLease {
                seen_at: model.lease_seen_at(&cluster, renewed_at, clock.now()),
                renewed_at,
                report: report_of(&cluster, lease),
            })
        };
        let waker = self.waker();
        controller.keep(
            Watch::<Lease>::all(self.client)
                .fields(&format!("metadata.name={}", names::CLUSTER_LEASE)),
            &self.model.leases,
            |metadata| ClusterName::from(metadata.namespace.as_deref().unwrap_or_default()),
            value_of,
            move |_, change| waker.lease_changed(&change),
        );
    }

    fn watch_namespaces(&self, controller: &mut Controller<ClusterName>) {
        let clusters = self.queues.clusters.clone();
        let value_of = |namespace: &PartialObjectMeta<Namespace>| {
            Some(match namespace.metadata.deletion_timestamp {
                Some(_) => NamespaceState::Terminating,
                None => NamespaceState::Active,
            })
        };
        controller.keep(
            Watch::<PartialObjectMeta<Namespace>>::all(self.client),
            &self.model.namespaces,
            |metadata| metadata.name.clone().unwrap_or_default(),
            value_of,
            move |_, change| clusters.add(ClusterName::from(change.key.as_str())),
        );
    }

    fn watch_rights(&self, controller: &mut Controller<ClusterName>, rights: &RightsCaches) {
        self.watch_right::<ServiceAccount>(controller, &rights.accounts);
        self.watch_right::<Role>(controller, &rights.roles);
        self.watch_right::<RoleBinding>(controller, &rights.bindings);
    }

    fn watch_right<O>(
        &self,
        controller: &mut Controller<ClusterName>,
        cache: &SharedCache<ObjectKey, Arc<O>>,
    ) where
        O: Resource<DynamicType = ()>
            + Clone
            + Debug
            + PartialEq
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let clusters = self.queues.clusters.clone();
        controller.keep(
            Watch::<O>::all(self.client).labels(&managed_selector()),
            cache,
            object_key,
            |object: &O| Some(Arc::new(without_managed_fields(object))),
            move |_, change| {
                let namespace = change.key.namespace.as_deref().unwrap_or_default();
                clusters.add(ClusterName::from(namespace));
            },
        );
    }

    fn watch_cluster_sets(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &ManagedClusterSet| {
            Some(Arc::new(ClusterSetEntry {
                object: without_managed_fields(object),
                set: ClusterSet::try_from(object).ok(),
            }))
        };
        controller.keep(
            Watch::<ManagedClusterSet>::all(self.client),
            &self.model.cluster_sets,
            |metadata| metadata.name.clone().unwrap_or_default(),
            value_of,
            move |_, change| waker.cluster_set_changed(&change),
        );
    }

    fn watch_set_bindings(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &ManagedClusterSetBinding| {
            Some(Arc::new(SetBindingEntry {
                object: without_managed_fields(object),
                binding: ClusterSetBinding::try_from(object).ok(),
            }))
        };
        controller.keep(
            Watch::<ManagedClusterSetBinding>::all(self.client),
            &self.model.set_bindings,
            object_key,
            value_of,
            move |_, change| {
                if differs(&change, |entry| &entry.binding) {
                    waker.fleet_changed();
                }
                waker.queues.set_bindings.add(change.key);
            },
        );
    }

    fn watch_scores(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        controller.keep(
            Watch::<AddOnPlacementScore>::all(self.client),
            &self.model.scores,
            object_key,
            |object: &AddOnPlacementScore| Some(Arc::new(AddOnScores::from(object))),
            move |_, change| {
                if let Some(scores) = &change.now {
                    waker.model.expressions.set_scores(scores);
                }
                waker.fleet_changed();
            },
        );
    }

    fn watch_placements(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &Placement| {
            Some(Arc::new(PlacementEntry {
                placement: placement::Placement::from(object),
                object: without_managed_fields(object),
            }))
        };
        controller.keep(
            Watch::<Placement>::all(self.client),
            &self.model.placements,
            placement_key,
            value_of,
            move |_, change| waker.placement_changed(&change),
        );
    }

    fn watch_decisions(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &PlacementDecision| {
            Some(Arc::new(DecisionEntry {
                decision: placement::PlacementDecision::try_from(object).ok()?,
                object: without_managed_fields(object),
            }))
        };
        controller.keep(
            Watch::<PlacementDecision>::all(self.client),
            &self.model.decisions,
            object_key,
            value_of,
            move |_, change| waker.decision_changed(&change),
        );
    }

    fn watch_rules(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        controller.keep(
            Watch::<PlacementRule>::all(self.client),
            &self.model.rules,
            object_key,
            |object: &PlacementRule| Some(Arc::new(Decisions::from(object))),
            move |_, change| {
                let namespace = change.key.namespace.as_deref().unwrap_or_default();
                let reference = PlacementRef {
                    name: change.key.name.clone(),
                    kind: PlacementKind::PlacementRule,
                };
                waker.wake_placement(namespace, reference);
            },
        );
    }

    fn watch_bindings(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        controller.keep(
            Watch::<v1::PlacementBinding>::all(self.client),
            &self.model.bindings,
            object_key,
            |object: &v1::PlacementBinding| Some(Arc::new(Binding::from(object))),
            move |_, change| {
                for binding in [&change.before, &change.now].into_iter().flatten() {
                    waker.wake_subjects(binding);
                }
            },
        );
    }

    fn watch_policy_sets(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &v1beta1::PolicySet| {
            Some(Arc::new(PolicySetEntry {
                set: PolicySet::from(object),
                object: without_managed_fields(object),
            }))
        };
        controller.keep(
            Watch::<v1beta1::PolicySet>::all(self.client),
            &self.model.policy_sets,
            object_key,
            value_of,
            move |_, change| waker.policy_set_changed(&change),
        );
    }

    fn watch_policies(&self, controller: &mut Controller<ClusterName>) {
        let waker = self.waker();
        let value_of = |object: &v1::Policy| {
            let policy = Policy::from(object);
            let is_replica = policy.labels.contains_key(governance::ROOT_POLICY);
            Some(Arc::new(PolicyEntry {
                is_deleting: object.metadata.deletion_timestamp.is_some(),
                object: (!is_replica).then(|| without_managed_fields(object)),
                policy,
            }))
        };
        controller.keep(
            Watch::<v1::Policy>::all(self.client),
            &self.model.policies,
            object_key,
            value_of,
            move |_, change| waker.policy_changed(&change),
        );
    }
}

/// Queues the keys that a change concerns.
struct Waker {
    model: Arc<HubModel>,
    queues: HubQueues,
}

impl Waker {
    fn fleet_changed(&self) {
        self.model.fleet_changed();
        let placements = &self.queues.placements;
        placements.add_after(PlacementJob::All, GATHER_CLUSTERS);
    }

    fn cluster_changed(&self, change: &Change<ClusterName, Arc<ClusterEntry>>) {
        self.queues.clusters.add(change.key.clone());
        // Expressions of placements can read every field. Leases carry the heartbeats, so a cluster changes rarely.
        let expressions = &self.model.expressions;
        match change.now.as_deref() {
            None => expressions.remove_cluster(&change.key),
            Some(entry) => {
                if let (Some(cluster), Ok(object)) =
                    (&entry.schedulable, serde_json::to_value(&entry.object))
                {
                    expressions.set_cluster(cluster, Cow::Owned(object));
                }
            }
        }
        self.fleet_changed();
        if differs(change, |entry| &entry.schedulable) {
            self.wake_sets_of(change);
        }
        if change.before.is_none() || change.now.is_none() {
            // The namespace became that of a cluster, or is no longer: its policies have another role.
            let namespace = PolicyIndex::Namespace(change.key.to_string());
            self.model.policies.read(|all| {
                for key in all.find(&namespace) {
                    let entry = all.get(key);
                    let root = entry.and_then(|entry| root_of(&entry.policy));
                    self.queues
                        .policies
                        .add(root.unwrap_or_else(|| key.clone()));
                }
            });
        }
    }

    /// Queues the sets that a cluster was or is a member of.
    fn wake_sets_of(&self, change: &Change<ClusterName, Arc<ClusterEntry>>) {
        let sets = &self.queues.cluster_sets;
        let entries = [&change.before, &change.now].into_iter().flatten();
        for cluster in entries.filter_map(|entry| entry.schedulable.as_ref()) {
            sets.add_after(cluster.exclusive_set().to_owned(), GATHER_CLUSTERS);
        }
        self.model.cluster_sets.read(|all| {
            let by_labels = all
                .iter()
                .filter(|(_, entry)| entry.set.as_ref().is_some_and(selects_by_labels));
            for (name, _) in by_labels {
                sets.add_after(name.clone(), GATHER_CLUSTERS);
            }
        });
    }

    /// A renewal by itself changes nothing: the cluster is looked at again before its lease expires.
    fn lease_changed(&self, change: &Change<ClusterName, ObservedLease>) {
        let is_renewal_only = match (&change.before, &change.now) {
            (Some(before), Some(now)) => before.report == now.report,
            _ => false,
        };
        let is_available = || {
            let entry = self
                .model
                .clusters
                .read(|all| all.get(&change.key).cloned());
            let cluster = entry.as_ref().and_then(|entry| entry.schedulable.as_ref());
            cluster.is_some_and(|cluster| {
                use polity_core::cluster::names::{UNAVAILABLE, UNREACHABLE};
                let mut taints = cluster.taints.iter();
                !taints.any(|taint| [UNREACHABLE, UNAVAILABLE].contains(&taint.key.as_str()))
            })
        };
        if !(is_renewal_only && is_available()) {
            self.queues.clusters.add(change.key.clone());
        }
    }

    fn cluster_set_changed(&self, change: &Change<String, Arc<ClusterSetEntry>>) {
        let name = &change.key;
        if change.now.is_some() || BUILT_IN.contains(&name.as_str()) {
            self.queues.cluster_sets.add(name.clone());
        }
        if differs(change, |entry| &entry.set) {
            self.fleet_changed();
            self.model.set_bindings.read(|all| {
                for key in all.find(name) {
                    self.queues.set_bindings.add(key.clone());
                }
            });
        }
    }

    fn placement_changed(&self, change: &Change<PlacementKey, Arc<PlacementEntry>>) {
        self.queues
            .placements
            .add(PlacementJob::One(change.key.clone()));
        let selected = |entry: &PlacementEntry| {
            let status = entry.object.status.as_ref();
            status.map(|status| status.number_of_selected_clusters)
        };
        let before = change.before.as_deref().map(selected);
        if before != change.now.as_deref().map(selected) {
            self.wake_decided(&change.key);
        }
    }

    fn decision_changed(&self, change: &Change<ObjectKey, Arc<DecisionEntry>>) {
        // A decision that was edited by hand is written again.
        for entry in [&change.before, &change.now].into_iter().flatten() {
            let placement = &entry.decision.placement;
            let job = PlacementJob::One(placement.clone());
            self.queues.placements.add_after(job, GATHER_DECISIONS);
            self.wake_decided(placement);
        }
        self.model.fleet_changed();
    }

    fn wake_decided(&self, placement: &PlacementKey) {
        let reference = PlacementRef {
            name: placement.name.clone(),
            kind: PlacementKind::Placement,
        };
        self.wake_placement(&placement.namespace, reference);
    }

    /// Queues the policies and sets that are bound to a placement.
    fn wake_placement(&self, namespace: &str, reference: PlacementRef) {
        let index = BindingIndex::Placement(namespace.to_owned(), reference);
        for binding in self.model.bindings_of(&index) {
            self.wake_subjects(&binding);
        }
    }

    fn wake_subjects(&self, binding: &Binding) {
        for subject in &binding.subjects {
            let key = ObjectKey::namespaced(&binding.namespace, &subject.name);
            match subject.kind {
                SubjectKind::Policy => self.queues.policies.add_after(key, GATHER_DECISIONS),
                SubjectKind::PolicySet => {
                    let entry = self.model.policy_sets.read(|all| all.get(&key).cloned());
                    for member in entry.iter().flat_map(|entry| &entry.set.policies) {
                        let member = ObjectKey::namespaced(&binding.namespace, member);
                        self.queues.policies.add_after(member, GATHER_DECISIONS);
                    }
                    self.queues.policy_sets.add_after(key, GATHER_DECISIONS);
                }
            }
        }
    }

    fn policy_set_changed(&self, change: &Change<ObjectKey, Arc<PolicySetEntry>>) {
        self.queues.policy_sets.add(change.key.clone());
        if !differs(change, |entry| &entry.set) {
            return;
        }
        let of = |entry: &Option<Arc<PolicySetEntry>>| entry.as_ref().map(|it| it.set.clone());
        for member in members_concerned(of(&change.before).as_ref(), of(&change.now).as_ref()) {
            let namespace = change.key.namespace.clone().unwrap_or_default();
            self.queues
                .policies
                .add(ObjectKey::namespaced(namespace, member));
        }
        let dependents = PolicyIndex::DependsOnSet(change.key.clone());
        self.model.policies.read(|all| {
            for key in all.find(&dependents) {
                self.queues.policies.add(key.clone());
            }
        });
    }

    fn policy_changed(&self, change: &Change<ObjectKey, Arc<PolicyEntry>>) {
        let mut entries = [&change.before, &change.now].into_iter().flatten();
        let root = entries.find_map(|entry| root_of(&entry.policy));
        let Some(root) = root else {
            self.queues.policies.add(change.key.clone());
            let member = PolicySetIndex::Member(change.key.clone());
            self.model.policy_sets.read(|all| {
                for key in all.find(&member) {
                    self.queues
                        .policy_sets
                        .add_after(key.clone(), GATHER_DECISIONS);
                }
            });
            return;
        };
        let policies = &self.queues.policies;
        match (&change.before, &change.now) {
            (Some(before), Some(now)) if is_report(&before.policy, &now.policy) => {
                policies.add_after(root, GATHER_REPORTS);
            }
            _ => policies.add(root),
        }
        // A policy whose label was removed is no replica any more.
        if change
            .now
            .as_ref()
            .is_some_and(|entry| root_of(&entry.policy).is_none())
        {
            policies.add(change.key.clone());
        }
    }
}

/// Whether only the status of a replica changed.
fn is_report(before: &Policy, now: &Policy) -> bool {
    before.labels == now.labels && before.annotations == now.annotations && before.spec == now.spec
}

/// The members of a set whose membership or exclusions differ.
fn members_concerned(before: Option<&PolicySet>, now: Option<&PolicySet>) -> BTreeSet<String> {
    let members = |set: Option<&PolicySet>| -> BTreeSet<String> {
        set.into_iter()
            .flat_map(|set| set.policies.clone())
            .collect()
    };
    let (old, new) = (members(before), members(now));
    let exclusions = |set: Option<&PolicySet>, policy: &str| -> Vec<_> {
        let exclusions = set.into_iter().flat_map(|set| &set.exclusions);
        let of_policy = exclusions.filter(|exclusion| exclusion.policy == policy);
        of_policy
            .map(|exclusion| exclusion.clusters.clone())
            .collect()
    };
    let is_concerned = |policy: &&String| {
        old.contains(*policy) != new.contains(*policy)
            || exclusions(before, policy) != exclusions(now, policy)
    };
    old.union(&new).filter(is_concerned).cloned().collect()
}

/// Whether one part of an entry differs before and after.
fn differs<K, V, T: PartialEq>(change: &Change<K, Arc<V>>, part: impl Fn(&V) -> &T) -> bool {
    change.before.as_deref().map(&part) != change.now.as_deref().map(&part)
}

/// The report of the agent; one that cannot be read counts as none.
fn report_of(cluster: &ClusterName, lease: &Lease) -> Option<ClusterReport> {
    let annotations = lease.metadata.annotations.as_ref()?;
    let text = annotations.get(names::CLUSTER_REPORT)?;
    match serde_json::from_str(text) {
        Ok(report) => Some(report),
        Err(error) => {
            warn!(%cluster, %error, "the report of the cluster cannot be read");
            None
        }
    }
}

/// Managed fields are half of an object, and no decision depends on them.
fn without_managed_fields<O: Resource + Clone>(object: &O) -> O {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    object
}

fn cluster_name(metadata: &ObjectMeta) -> ClusterName {
    ClusterName::from(metadata.name.as_deref().unwrap_or_default())
}

fn object_key(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

fn placement_key(metadata: &ObjectMeta) -> PlacementKey {
    PlacementKey::new(
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}
