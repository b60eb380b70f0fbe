//! Waits until the controller of a new installation is ready, or says what it is waiting for.
//!
//! [`state`] is the decision, a function of the Deployment and its Pods; [`wait`] reads both until it is made.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use polity_lifecycle::install::CONTROLLER;
use polity_runtime::Clock;

/// Between two reads of the Deployment.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Between two messages about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// What a container waits for when its image is not there and another attempt does not help at once.
const IMAGE_REASONS: [&str; 4] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// How far the controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// A node cannot get the image.
    NoImage {
        pod: String,
        reason: String,
    },
    /// Something else is not there yet.
    Waiting {
        n_ready: i32,
        n_wanted: i32,
        reason: Option<String>,
    },
}

/// Why the controller is not ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotReady {
    #[error("pod {pod} cannot pull the image {image} ({reason})")]
    NoImage {
        image: String,
        pod: String,
        reason: String,
    },
    #[error("the controller is not ready after {after:?}: {progress}")]
    Timeout { after: Duration, progress: String },
}

/// Reads until the controller is ready, its image cannot be pulled, or the time is over.
pub(super) async fn wait(
    client: &Client,
    clock: &Clock,
    (namespace, image): (&str, &str),
    timeout: Duration,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_controller = ListParams::default().labels("app.kubernetes.io/component=controller");
    let start = clock.moment();
    let mut told: Option<(polity_runtime::Moment, String)> = None;
    loop {
        let deployment = deployments.get(CONTROLLER).await?;
        let found = pods.list(&of_controller).await?;
        let progress = match state(&deployment, &found.items, image) {
            State::Ready => return Ok(()),
            State::NoImage { pod, reason } => {
                let image = image.to_owned();
                return Err(NotReady::NoImage { image, pod, reason }.into());
            }
            State::Waiting {
                n_ready,
                n_wanted,
                reason,
            } => {
                let reason = reason.map(|reason| format!("; {reason}"));
                let reason = reason.unwrap_or_default();
                format!("{n_ready} of {n_wanted} replicas are ready{reason}")
            }
        };
        let now = clock.moment();
        if now.since(start) >= timeout {
            let after = timeout;
            return Err(NotReady::Timeout { after, progress }.into());
        }
        let is_new = told
            .as_ref()
            .is_none_or(|(at, last)| *last != progress && now.since(*at) >= PROGRESS_INTERVAL);
        if is_new {
            tell(&progress);
            told = Some((now, progress));
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

/// How far the controller is. Pods of another image belong to an earlier installation.
fn state(deployment: &Deployment, pods: &[Pod], image: &str) -> State {
    let n_wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let is_observed = status.observed_generation >= deployment.metadata.generation;
    let n_updated = status.updated_replicas.unwrap_or_default();
    let n_available = status.available_replicas.unwrap_or_default();
    let n_all = status.replicas.unwrap_or_default();
    if is_observed && n_updated >= n_wanted && n_available >= n_wanted && n_all == n_updated {
        return State::Ready;
    }
    let of_image: Vec<&Pod> = pods.iter().filter(|pod| uses(pod, image)).collect();
    if let Some((pod, reason)) = of_image.iter().find_map(|pod| {
        let waiting = waiting(pod)?;
        let reason = waiting
            .0
            .filter(|reason| IMAGE_REASONS.contains(&reason.as_str()))?;
        Some((pod.name_any(), with_message(reason, waiting.1)))
    }) {
        return State::NoImage { pod, reason };
    }
    let n_ready = status.ready_replicas.unwrap_or_default();
    let reason = of_image.iter().find_map(|pod| obstacle(pod));
    let reason = reason.or_else(|| not_created(deployment));
    State::Waiting {
        n_ready,
        n_wanted,
        reason,
    }
}

fn uses(pod: &Pod, image: &str) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|one| one.image.as_deref())
        .any(|one| one == image)
}

/// The reason and the message of the first container that waits.
fn waiting(pod: &Pod) -> Option<(Option<String>, Option<String>)> {
    let containers: &[ContainerStatus] = pod.status.as_ref()?.container_statuses.as_deref()?;
    containers.iter().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        Some((waiting.reason.clone(), waiting.message.clone()))
    })
}

/// Why a Pod does not run yet: its node, or its container.
fn obstacle(pod: &Pod) -> Option<String> {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .find_map(|condition| {
            let reason = condition.reason.clone()?;
            Some(with_message(reason, condition.message.clone()))
        });
    let reason = unscheduled.or_else(|| {
        let (reason, message) = waiting(pod)?;
        Some(with_message(reason?, message))
    })?;
    Some(format!("pod {}: {reason}", pod.name_any()))
}

/// Why there are no Pods, such as a quota.
fn not_created(deployment: &Deployment) -> Option<String> {
    let is = |value: &Option<String>, wanted: &str| value.as_deref() == Some(wanted);
    let status = deployment.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let failure = conditions.find(|condition| {
        is(&condition.type_, "ReplicaFailure") && is(&condition.status, "True")
    })?;
    failure.message.clone()
}

fn with_message(reason: String, message: Option<String>) -> String {
    match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: Value) -> Deployment {
        let object = json!({
            "metadata": {"name": CONTROLLER, "generation": 2},
            "spec": {
                "replicas": 2, "selector": {},
                "template": {"spec": {"containers": [{"name": "controller", "image": "polity:1"}]}},
            },
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn pod(name: &str, image: &str, status: Value) -> Pod {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "controller", "image": image}]},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn waits(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [{
            "name": "controller", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    }

    fn waiting_for(reason: Option<&str>) -> State {
        State::Waiting {
            n_ready: 0,
            n_wanted: 2,
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn ready_when_all_replicas_of_this_generation_are_available() {
        let status = |observed: i64, updated: i32, available: i32, all: i32| {
            let status = json!({
                "observedGeneration": observed, "updatedReplicas": updated,
                "availableReplicas": available, "replicas": all,
            });
            state(&deployment(status), &[], "polity:1") == State::Ready
        };
        assert!(status(2, 2, 2, 2));
        assert!(
            !status(1, 2, 2, 2),
            "the status is of the generation before"
        );
        assert!(
            !status(2, 1, 2, 2),
            "one replica is of the generation before"
        );
        assert!(!status(2, 2, 1, 2), "one replica is not available");
        assert!(!status(2, 2, 2, 3), "a replica of before is still there");
        assert_eq!(
            state(&deployment(json!({})), &[], "polity:1"),
            waiting_for(None)
        );
    }

    #[test]
    fn an_image_that_cannot_be_pulled_ends_the_waiting() {
        for reason in IMAGE_REASONS {
            let pods = [pod("a", "polity:1", waits(reason, "no such host"))];
            let expected = State::NoImage {
                pod: "a".to_owned(),
                reason: format!("{reason}: no such host"),
            };
            assert_eq!(state(&deployment(json!({})), &pods, "polity:1"), expected);
        }
        let earlier = [pod("a", "polity:0", waits("ErrImagePull", ""))];
        let found = state(&deployment(json!({})), &earlier, "polity:1");
        assert_eq!(
            found,
            waiting_for(None),
            "pods of another image do not count"
        );
    }

    #[test]
    fn other_obstacles_are_named() {
        let crash = pod("a", "polity:1", waits("CrashLoopBackOff", "back-off 10s"));
        let unscheduled = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available",
        }]});
        let unscheduled = pod("b", "polity:1", unscheduled);
        let refused = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]});
        let cases = [
            (
                json!({}),
                vec![crash],
                "pod a: CrashLoopBackOff: back-off 10s",
            ),
            (
                json!({}),
                vec![unscheduled],
                "pod b: Unschedulable: 0/3 nodes are available",
            ),
            (refused, vec![], "exceeded quota"),
        ];
        for (status, pods, reason) in cases {
            let found = state(&deployment(status), &pods, "polity:1");
            assert_eq!(found, waiting_for(Some(reason)));
        }
    }
}
