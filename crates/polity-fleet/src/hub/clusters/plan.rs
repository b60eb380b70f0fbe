//! What a ManagedCluster should look like, given its Lease, its namespace and the time. See docs/spec/governance.md#3-8.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::cluster::v1::{
    ClusterClaim, ClusterVersion, ManagedCluster, ManagedClusterConditionType as ConditionType,
    ManagedClusterStatus, Taint, TaintEffect,
};
use polity_core::cluster::{Availability, names};

use crate::cluster_report::ClusterReport;
use crate::hub::conditions::{ConditionUpdate, condition_status, set_condition};

/// A cluster counts as unreachable after this many lease durations without a renewal.
const MISSED_LEASES: i32 = 5;
/// The lease duration where the spec has none that makes sense.
const DEFAULT_LEASE_SECONDS: i32 = 60;
/// A cluster reports about itself, so what the hub copies is bounded.
const MAX_CLAIMS: usize = 100;
const MAX_RESOURCES: usize = 100;
const MAX_NAME: usize = 253;
const MAX_VALUE: usize = 1024;

/// What is known about one cluster.
#[derive(Debug, Clone)]
pub struct ObservedCluster<'a> {
    pub cluster: &'a ManagedCluster,
    /// `None` until an agent has registered.
    pub lease: Option<&'a ObservedLease>,
}

/// The namespace of a cluster on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceState {
    Missing,
    Active,
    Terminating,
}

/// The Lease of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedLease {
    /// When the hub saw the last renewal, by the clock of the hub: clocks of clusters may be off.
    pub seen_at: Timestamp,
    /// When the agent renewed it, by its own clock.
    pub renewed_at: Option<Timestamp>,
    pub report: Option<ClusterReport>,
}

/// What to write for one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterPlan {
    /// The ManagedCluster with the finalizer, label and taints that it should have, if they differ.
    pub object: Option<ManagedCluster>,
    /// The status that it should have, if it differs.
    pub status: Option<ManagedClusterStatus>,
    /// Whether the namespace and the rights of the agent should exist.
    pub wants_namespace: bool,
    /// When the cluster becomes unreachable unless its Lease is renewed.
    pub recheck_at: Option<Timestamp>,
}

/// Plans a cluster that is not being deleted.
pub fn plan(observed: &ObservedCluster<'_>, now: Timestamp) -> ClusterPlan {
    let current = observed.cluster.status.clone().unwrap_or_default();
    let (status, recheck_at) = wanted_status(observed, &current, now);
    let mut object = observed.cluster.clone();
    object.status = None;
    add_finalizer(&mut object);
    let labels = object.metadata.labels.get_or_insert_default();
    polity_govern::validate::default_cluster_set(labels);
    let availability = availability(&status);
    object.spec.taints = with_availability_taint(&observed.cluster.spec.taints, availability, now);
    let is_same =
        object.metadata == observed.cluster.metadata && object.spec == observed.cluster.spec;
    ClusterPlan {
        object: (!is_same).then_some(object),
        status: (status != current).then_some(status),
        wants_namespace: observed.cluster.spec.hub_accepts_client,
        recheck_at,
    }
}

fn add_finalizer(object: &mut ManagedCluster) {
    let finalizers = object.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == names::CLUSTER_FINALIZER) {
        finalizers.push(names::CLUSTER_FINALIZER.to_owned());
    }
}

fn wanted_status(
    observed: &ObservedCluster<'_>,
    current: &ManagedClusterStatus,
    now: Timestamp,
) -> (ManagedClusterStatus, Option<Timestamp>) {
    let mut status = current.clone();
    let generation = observed.cluster.metadata.generation;
    let mut set = |type_: ConditionType, update: ConditionUpdate<'_>| {
        set_condition(
            &mut status.conditions,
            type_.as_str(),
            update,
            generation,
            now,
        );
    };
    let was_accepted = condition_status(
        &current.conditions,
        ConditionType::HubAcceptedManagedCluster.as_str(),
    )
    .is_some();
    match (observed.cluster.spec.hub_accepts_client, was_accepted) {
        (true, _) => set(
            ConditionType::HubAcceptedManagedCluster,
            ConditionUpdate::is_true("HubClusterAdminAccepted", "Accepted by hub cluster admin"),
        ),
        (false, true) => set(
            ConditionType::HubAcceptedManagedCluster,
            ConditionUpdate::is_false("HubClusterAdminDenied", "Denied by hub cluster admin"),
        ),
        // The administrator has not decided about the cluster yet.
        (false, false) => {}
    }
    let Some(lease) = observed
        .lease
        .filter(|_| observed.cluster.spec.hub_accepts_client)
    else {
        return (status, None);
    };
    set(
        ConditionType::ManagedClusterJoined,
        ConditionUpdate::is_true("ManagedClusterJoined", "Managed cluster joined"),
    );
    let period = lease_duration(observed.cluster);
    let expires_at = later(lease.seen_at, period * MISSED_LEASES);
    let reachable = now < expires_at;
    if let Some(update) = availability_update(reachable, lease.report.as_ref()) {
        set(ConditionType::ManagedClusterConditionAvailable, update);
    }
    if reachable {
        set(
            ConditionType::ManagedClusterConditionClockSynced,
            clock_update(lease, period),
        );
    }
    if let Some(report) = &lease.report {
        copy_report(&mut status, report);
    }
    // Nothing becomes due for a cluster that is unreachable already: the next renewal wakes it.
    (status, reachable.then_some(expires_at))
}

/// `None` leaves the condition alone: an agent without a report writes it itself, and only the hub notices its silence.
fn availability_update(
    reachable: bool,
    report: Option<&ClusterReport>,
) -> Option<ConditionUpdate<'static>> {
    if !reachable {
        return Some(ConditionUpdate::is_unknown(
            "ManagedClusterLeaseUpdateStopped",
            "Registration agent stopped updating its lease.",
        ));
    }
    Some(match report?.is_available {
        true => ConditionUpdate::is_true("ManagedClusterAvailable", "Managed cluster is available"),
        false => ConditionUpdate::is_false(
            "ManagedClusterKubeAPIServerUnavailable",
            "The kube-apiserver is not ok",
        ),
    })
}

fn clock_update(lease: &ObservedLease, period: SignedDuration) -> ConditionUpdate<'static> {
    let is_synced = lease
        .renewed_at
        .is_none_or(|renewed_at| lease.seen_at.duration_since(renewed_at).abs() <= period);
    match is_synced {
        true => ConditionUpdate::is_true(
            "ManagedClusterClockSynced",
            "The clock of the managed cluster is synced with the hub.",
        ),
        false => ConditionUpdate::is_false(
            "ManagedClusterClockOutOfSync",
            "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
        ),
    }
}

fn copy_report(status: &mut ManagedClusterStatus, report: &ClusterReport) {
    let fits = |name: &str, value: &str| name.len() <= MAX_NAME && value.len() <= MAX_VALUE;
    let resources = |reported: &BTreeMap<String, Quantity>| -> BTreeMap<String, Quantity> {
        let readable = |quantity: &Quantity| {
            quantity
                .0
                .parse::<polity_core::quantity::Quantity>()
                .is_ok()
        };
        reported
            .iter()
            .filter(|(name, quantity)| fits(name, &quantity.0) && readable(quantity))
            .take(MAX_RESOURCES)
            .map(|(name, quantity)| (name.clone(), quantity.clone()))
            .collect()
    };
    status.version = Some(ClusterVersion {
        kubernetes: report.version.chars().take(MAX_NAME).collect(),
    });
    status.cluster_claims = report
        .claims
        .iter()
        .filter(|(name, value)| fits(name, value))
        .take(MAX_CLAIMS)
        .map(|(name, value)| ClusterClaim {
            name: name.clone(),
            value: value.clone(),
        })
        .collect();
    status.capacity = resources(&report.capacity);
    status.allocatable = resources(&report.allocatable);
}

fn lease_duration(cluster: &ManagedCluster) -> SignedDuration {
    let seconds = match cluster.spec.lease_duration_seconds {
        seconds if seconds > 0 => seconds,
        _ => DEFAULT_LEASE_SECONDS,
    };
    SignedDuration::from_secs(i64::from(seconds))
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn availability(status: &ManagedClusterStatus) -> Availability {
    let available = ConditionType::ManagedClusterConditionAvailable.as_str();
    match condition_status(&status.conditions, available) {
        Some("True") => Availability::Available,
        Some("False") => Availability::Unavailable,
        _ => Availability::Unknown,
    }
}

/// The taints of a cluster with the one that its availability asks for, which keeps its time while it stays.
fn with_availability_taint(
    taints: &[Taint],
    availability: Availability,
    now: Timestamp,
) -> Vec<Taint> {
    let wanted = availability.taint_key();
    let is_automatic =
        |taint: &Taint| [names::UNREACHABLE, names::UNAVAILABLE].contains(&taint.key.as_str());
    let is_wanted =
        |taint: &Taint| Some(taint.key.as_str()) == wanted && taint.effect == TaintEffect::NoSelect;
    let mut result: Vec<Taint> = taints
        .iter()
        .filter(|taint| !is_automatic(taint) || is_wanted(taint))
        .cloned()
        .collect();
    if let Some(key) = wanted
        && !result.iter().any(is_wanted)
    {
        result.push(Taint {
            key: key.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSelect,
            time_added: Some(Time(now)),
        });
    }
    result
}

#[cfg(test)]
mod tests;
