//! The Pods of a set: what tells one about them, and how a new one looks.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodSpec, Volume,
};

use super::revision::Revision;
use super::{Seen, owner};
use crate::container::DEFAULT_ACCOUNT;

const REVISION_LABEL: &str = "controller-revision-hash";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The ordinal in a Pod's name; `None` for a name this set would not give.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    let digits = name
        .strip_prefix(set.metadata.name.as_deref()?)?
        .strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

/// The revision a Pod was made of.
pub(super) fn revision(pod: &Pod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(REVISION_LABEL).map(String::as_str)
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it will never run again.
pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// The condition of a running Pod that is ready.
fn readiness(pod: &Pod) -> Option<&PodCondition> {
    let status = pod.status.as_ref()?;
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    readiness(pod).is_some()
}

/// When a ready Pod has been so for long enough.
pub(super) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let since = readiness(pod)?.last_transition_time.as_ref()?;
    let wait = Duration::from_secs(min_ready_seconds.max(0).unsigned_abs().into());
    since.0.checked_add(wait).ok()
}

pub(super) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    match min_ready_seconds {
        ..=0 => is_ready(pod),
        _ => available_at(pod, min_ready_seconds).is_some_and(|at| at <= now),
    }
}

/// The claims of a Pod by their templates, with the names they have for this ordinal.
fn claims_of(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let templates = set.spec.volume_claim_templates.iter().flatten();
    templates
        .map(|template| {
            let volume = template.metadata.name.clone().unwrap_or_default();
            let mut claim = template.clone();
            claim.metadata.name = Some(format!("{volume}-{set_name}-{ordinal}"));
            claim.metadata.namespace.clone_from(&set.metadata.namespace);
            let labels = claim.metadata.labels.get_or_insert_default();
            labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
            claim.status = None;
            (volume, claim)
        })
        .collect()
}

/// Those of its claims that are not there yet.
pub(super) fn missing_claims(seen: &Seen<'_>, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let is_missing = |claim: &PersistentVolumeClaim| {
        let name = &claim.metadata.name;
        !seen.claims.iter().any(|found| found.metadata.name == *name)
    };
    claims_of(seen.set, ordinal)
        .into_iter()
        .map(|(_, claim)| claim)
        .filter(is_missing)
        .collect()
}

/// The Pod of an ordinal. It has its node from the start: nothing here schedules.
pub(super) fn new(seen: &Seen<'_>, revision: &Revision, ordinal: i32) -> Pod {
    let set = seen.set;
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let name = format!("{set_name}-{ordinal}");
    let template = revision.template.metadata.clone().unwrap_or_default();
    let mut labels: BTreeMap<String, String> = template.labels.unwrap_or_default();
    labels.insert(REVISION_LABEL.into(), revision.name.clone());
    labels.insert(NAME_LABEL.into(), name.clone());
    labels.insert(INDEX_LABEL.into(), ordinal.to_string());
    let mut pod = Pod {
        spec: Some(spec(seen, revision, ordinal, &name)),
        ..Pod::default()
    };
    pod.metadata.name = Some(name);
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    pod.metadata.labels = Some(labels);
    pod.metadata.annotations = template.annotations;
    pod.metadata.finalizers = template.finalizers;
    pod.metadata.owner_references = Some(vec![owner(set)]);
    pod
}

fn spec(seen: &Seen<'_>, revision: &Revision, ordinal: i32, name: &str) -> PodSpec {
    let mut spec = revision.template.spec.clone().unwrap_or_default();
    spec.hostname = Some(name.to_owned());
    spec.subdomain = seen
        .set
        .spec
        .service_name
        .clone()
        .filter(|name| !name.is_empty());
    spec.node_name = Some(seen.node.to_owned());
    // Tokens are only given to Pods that say whose they are, and not every API server fills this in.
    let account = spec.service_account_name.get_or_insert_default();
    if account.is_empty() {
        account.push_str(DEFAULT_ACCOUNT);
    }
    let claims = claims_of(seen.set, ordinal);
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !claims.iter().any(|(name, _)| *name == volume.name));
    volumes.extend(claims.into_iter().map(|(name, claim)| Volume {
        name,
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.metadata.name.unwrap_or_default(),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }));
    spec
}
