//! StatefulSets: which Pods, claims and revisions there should be next, as a function of those there are.
//!
//! Nothing is kept between two looks. Every step may be carried out twice and may fail alone: Pods and claims
//! have names that follow from their ordinal, deletes name a uid, and whoever looks again goes on from what
//! is there. The rules are those of the controller in a real cluster: ordinals from `ordinals.start`, in order
//! or in parallel, rolling update from the highest ordinal down to the partition, not more at once than
//! `maxUnavailable`, a Pod that dies during an update comes back in the revision its ordinal has at that time.

mod pods;
mod revision;
mod status;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use revision::Revisions;

/// What there is of a StatefulSet.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The set itself.
    pub set: &'a StatefulSet,
    /// The Pods it controls.
    pub pods: &'a [&'a Pod],
    /// The revisions it controls.
    pub revisions: &'a [&'a ControllerRevision],
    /// The claims of its namespace.
    pub claims: &'a [&'a PersistentVolumeClaim],
    /// The node its Pods run on.
    pub node: &'a str,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    CreateRevision(Box<ControllerRevision>),
    /// An old template is the newest again.
    RenumberRevision {
        name: String,
        revision: i64,
    },
    DeleteRevision {
        name: String,
        uid: String,
    },
    CreateClaim(Box<PersistentVolumeClaim>),
    CreatePod(Box<Pod>),
    DeletePod {
        name: String,
        uid: String,
    },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// What the status should say about what was seen.
    pub status: StatefulSetStatus,
    /// When a Pod becomes available without anything happening.
    pub look_again_at: Option<Timestamp>,
}

/// Plans one look at a set.
pub fn plan(seen: &Seen<'_>, now: Timestamp) -> Plan {
    let revisions = Revisions::of(seen.set, seen.revisions);
    let ranked = Ranked::of(seen);
    let status = status::of(seen, &revisions, &ranked, now);
    let mut steps = revisions.steps(seen);
    // One that is being deleted loses its Pods to the garbage collector.
    if seen.set.metadata.deletion_timestamp.is_none() {
        steps.extend(pod_steps(seen, &revisions, &ranked, now));
    }
    let look_again_at = seen
        .pods
        .iter()
        .filter_map(|pod| pods::available_at(pod, min_ready(seen.set)))
        .filter(|at| *at > now)
        .min();
    Plan {
        steps,
        status,
        look_again_at,
    }
}

/// The Pods of a set by ordinal: those it wants, and those it has too many.
struct Ranked<'a> {
    wanted: BTreeMap<i32, Option<&'a Pod>>,
    /// The highest first.
    condemned: Vec<(i32, &'a Pod)>,
}

impl<'a> Ranked<'a> {
    fn of(seen: &Seen<'a>) -> Self {
        let start = start_ordinal(seen.set);
        let end = start.saturating_add(replicas(seen.set));
        let mut wanted: BTreeMap<i32, Option<&Pod>> =
            (start..end).map(|ordinal| (ordinal, None)).collect();
        let mut condemned = Vec::new();
        for pod in seen.pods {
            let Some(ordinal) = pods::ordinal(seen.set, pod) else {
                continue;
            };
            match wanted.get_mut(&ordinal) {
                Some(place) => *place = Some(pod),
                None => condemned.push((ordinal, *pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Self { wanted, condemned }
    }
}

fn pod_steps(
    seen: &Seen<'_>,
    revisions: &Revisions,
    ranked: &Ranked<'_>,
    now: Timestamp,
) -> Vec<Step> {
    let in_order = seen.set.spec.pod_management_policy.as_deref() != Some("Parallel");
    let is_available = |pod: &Pod| pods::is_available(pod, min_ready(seen.set), now);
    let mut steps = Vec::new();
    for (&ordinal, pod) in &ranked.wanted {
        match pod {
            None => steps.extend(create(seen, revisions, ranked, ordinal, now)),
            Some(pod) if pods::has_ended(pod) && !pods::is_terminating(pod) => {
                steps.push(delete(pod));
            }
            Some(pod) => {
                steps.extend(create_claims(seen, ordinal));
                if !pods::is_terminating(pod) && is_available(pod) {
                    continue;
                }
            }
        }
        if in_order {
            // Whoever comes after this one waits for it.
            return steps;
        }
    }
    if scale_down(ranked, in_order, &mut steps) == Then::Wait {
        return steps;
    }
    steps.extend(roll(seen, revisions, ranked, &is_available));
    steps
}

/// Whether the rest of a look must wait for what was just planned.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    Wait,
}

/// Takes away what is too many: in order the highest first and one after the other, else all at once.
fn scale_down(ranked: &Ranked<'_>, in_order: bool, steps: &mut Vec<Step>) -> Then {
    let at_once = if in_order { 1 } else { usize::MAX };
    let going = ranked.condemned.iter().take(at_once).map(|(_, pod)| *pod);
    let asked = going.filter(|pod| !pods::is_terminating(pod));
    steps.extend(asked.map(delete));
    match in_order && !ranked.condemned.is_empty() {
        true => Then::Wait,
        false => Then::GoOn,
    }
}

/// The rolling update: replaces Pods of another revision, from the highest ordinal down to the partition, while
/// not more than `maxUnavailable` of those it has come past are away. What is not well further down does not
/// hold it up: the update may be what mends it.
fn roll(
    seen: &Seen<'_>,
    revisions: &Revisions,
    ranked: &Ranked<'_>,
    is_available: &impl Fn(&Pod) -> bool,
) -> Vec<Step> {
    if is_on_delete(seen.set) {
        return Vec::new();
    }
    let is_well = |pod: &Pod| !pods::is_terminating(pod) && is_available(pod);
    let is_old = |pod: &Pod| {
        !pods::is_terminating(pod) && pods::revision(pod) != Some(revisions.update_name())
    };
    let mut steps = Vec::new();
    let mut left = max_unavailable(seen.set);
    for (_, pod) in ranked.wanted.range(first_updated(seen.set)..).rev() {
        match pod {
            Some(pod) if is_old(pod) => steps.push(delete(pod)),
            Some(pod) if is_well(pod) => continue,
            Some(_) | None => {}
        }
        left -= 1;
        if left == 0 {
            break;
        }
    }
    steps
}

fn create(
    seen: &Seen<'_>,
    revisions: &Revisions,
    ranked: &Ranked<'_>,
    ordinal: i32,
    now: Timestamp,
) -> Vec<Step> {
    let mut steps: Vec<Step> = create_claims(seen, ordinal).collect();
    let revision = if is_due(seen, revisions, ranked, ordinal, now) {
        revisions.update()
    } else {
        revisions.current()
    };
    steps.push(Step::CreatePod(Box::new(pods::new(
        seen, revision, ordinal,
    ))));
    steps
}

fn create_claims(seen: &Seen<'_>, ordinal: i32) -> impl Iterator<Item = Step> {
    let claims = pods::missing_claims(seen, ordinal).into_iter();
    claims.map(|claim| Step::CreateClaim(Box::new(claim)))
}

/// Whether a Pod that is made anew gets the update already: not below the partition, and not before all above
/// it run it well. So one that dies while a bad update is stuck at the top comes back as it was.
fn is_due(
    seen: &Seen<'_>,
    revisions: &Revisions,
    ranked: &Ranked<'_>,
    ordinal: i32,
    now: Timestamp,
) -> bool {
    let is_updated = |pod: &Pod| {
        !pods::is_terminating(pod)
            && pods::revision(pod) == Some(revisions.update_name())
            && pods::is_available(pod, min_ready(seen.set), now)
    };
    let mut above = ranked.wanted.range(ordinal.saturating_add(1)..);
    is_on_delete(seen.set)
        || (ordinal >= first_updated(seen.set) && above.all(|(_, pod)| pod.is_some_and(is_updated)))
}

fn delete(pod: &Pod) -> Step {
    let (name, uid) = name_and_uid(&pod.metadata);
    Step::DeletePod { name, uid }
}

fn name_and_uid(meta: &ObjectMeta) -> (String, String) {
    (
        meta.name.clone().unwrap_or_default(),
        meta.uid.clone().unwrap_or_default(),
    )
}

fn owner(set: &StatefulSet) -> OwnerReference {
    let (name, uid) = name_and_uid(&set.metadata);
    OwnerReference {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name,
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn replicas(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1).max(0)
}

fn min_ready(set: &StatefulSet) -> i32 {
    set.spec.min_ready_seconds.unwrap_or(0).max(0)
}

fn start_ordinal(set: &StatefulSet) -> i32 {
    let ordinals = set.spec.ordinals.as_ref();
    ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0)
}

fn is_on_delete(set: &StatefulSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
}

fn partition(set: &StatefulSet) -> i32 {
    let strategy = set.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    rolling
        .and_then(|rolling| rolling.partition)
        .unwrap_or(0)
        .max(0)
}

/// The lowest ordinal that is updated.
fn first_updated(set: &StatefulSet) -> i32 {
    start_ordinal(set).saturating_add(partition(set))
}

/// At least one: a set that may miss none could never be updated.
fn max_unavailable(set: &StatefulSet) -> usize {
    let strategy = set.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let most = match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
        Some(IntOrString::Int(most)) => i64::from(*most),
        Some(IntOrString::String(text)) => text
            .strip_suffix('%')
            .and_then(|percent| percent.parse::<i64>().ok())
            .map_or(1, |percent| {
                i64::from(replicas(set)).saturating_mul(percent) / 100
            }),
        None => 1,
    };
    usize::try_from(most.max(1)).unwrap_or(1)
}

#[cfg(test)]
mod tests;
