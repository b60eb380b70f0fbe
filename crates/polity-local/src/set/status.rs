//! What the status of a set says.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::revision::Revisions;
use super::{Ranked, Seen, is_on_delete, min_ready, pods, replicas};

/// The status of what was seen. Once every Pod is updated and ready, the update revision is the current one.
pub(super) fn of(
    seen: &Seen<'_>,
    revisions: &Revisions,
    ranked: &Ranked<'_>,
    now: Timestamp,
) -> StatefulSetStatus {
    let all: Vec<&Pod> = ranked
        .wanted
        .values()
        .flatten()
        .copied()
        .chain(ranked.condemned.iter().map(|(_, pod)| *pod))
        .collect();
    let count = |matches: &dyn Fn(&Pod) -> bool| {
        let n = all.iter().filter(|pod| matches(pod)).count();
        i32::try_from(n).unwrap_or(i32::MAX)
    };
    let of_revision =
        |name: &str| count(&|pod| !pods::is_terminating(pod) && pods::revision(pod) == Some(name));
    let n_ready = count(&pods::is_ready);
    let n_updated = of_revision(revisions.update_name());
    let n_replicas = count(&|_| true);
    let wanted = replicas(seen.set);
    let is_complete = [n_updated, n_ready, n_replicas]
        .iter()
        .all(|n| *n == wanted);
    let current = if !is_on_delete(seen.set) && is_complete {
        revisions.update()
    } else {
        revisions.current()
    };
    StatefulSetStatus {
        replicas: n_replicas,
        ready_replicas: Some(n_ready),
        available_replicas: Some(count(&|pod| {
            pods::is_available(pod, min_ready(seen.set), now)
        })),
        current_revision: Some(current.name.clone()),
        current_replicas: Some(of_revision(&current.name)),
        update_revision: Some(revisions.update_name().to_owned()),
        updated_replicas: Some(n_updated),
        observed_generation: seen.set.metadata.generation,
        collision_count: Some(0),
        ..StatefulSetStatus::default()
    }
}
