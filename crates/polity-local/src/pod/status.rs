//! What a Pod's status says: phase, conditions and the state of its container.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Exit, Machine, State, container};

/// Where every Pod listens.
pub const ADDRESS: &str = "127.0.0.1";
/// The exit code by which shells and kubelets tell of a signal, without its number.
const SIGNAL_BASE: i32 = 128;
const SIGKILL: i32 = 9;
const BACKOFF: &str = "CrashLoopBackOff";

/// What was before the present process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Past {
    pub(super) restarts: i32,
    pub(super) has_started: bool,
    started: Time,
    last: Option<ContainerStateTerminated>,
}

impl Past {
    /// The past as the API knows it. One that ran ended unseen.
    pub(super) fn of(pod: &Pod, now: Timestamp) -> Self {
        let status = pod.status.as_ref();
        let container = status
            .and_then(|status| status.container_statuses.as_ref())
            .and_then(|all| all.first());
        let state = container.and_then(|container| container.state.clone());
        let state = state.unwrap_or_default();
        let started = status.and_then(|status| status.start_time.clone());
        let phase = status.and_then(|status| status.phase.as_deref());
        let mut past = Self {
            restarts: container.map_or(0, |container| container.restart_count),
            has_started: phase == Some("Running"),
            started: started.unwrap_or_else(|| whole(now)),
            last: state.terminated.or_else(|| {
                let last = container.and_then(|container| container.last_state.clone());
                last.and_then(|last| last.terminated)
            }),
        };
        let waiting = state.waiting.and_then(|waiting| waiting.reason);
        if state.running.is_some() || waiting.as_deref() == Some(BACKOFF) {
            past.restarts = past.restarts.saturating_add(1);
        }
        if let Some(running) = state.running {
            past.last = Some(ContainerStateTerminated {
                exit_code: SIGNAL_BASE + SIGKILL,
                reason: Some("ContainerStatusUnknown".into()),
                message: Some("the process ended with the runtime that ran it".into()),
                started_at: running.started_at,
                finished_at: Some(whole(now)),
                container_id: container.and_then(|container| container.container_id.clone()),
                ..ContainerStateTerminated::default()
            });
        }
        past
    }

    pub(super) fn ended(&mut self, process: u32, since: Timestamp, exit: Exit, now: Timestamp) {
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (code, None),
            Exit::Signal(signal) => (SIGNAL_BASE.saturating_add(signal), Some(signal)),
        };
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        self.last = Some(ContainerStateTerminated {
            exit_code,
            signal,
            reason: Some(reason.into()),
            started_at: Some(whole(since)),
            finished_at: Some(whole(now)),
            container_id: Some(container_id(process)),
            ..ContainerStateTerminated::default()
        });
    }
}

/// The status of a Pod, on top of what others wrote into it.
pub(super) fn of(machine: &Machine, pod: &Pod, now: Timestamp) -> PodStatus {
    let is_ready = machine.is_ready() && pod.metadata.deletion_timestamp.is_none();
    let mut status = pod.status.clone().unwrap_or_default();
    let phase = if machine.has_started {
        "Running"
    } else {
        "Pending"
    };
    status.phase = Some(phase.into());
    status.start_time = Some(machine.past.started.clone());
    status.host_ip = Some(ADDRESS.into());
    status.host_ips = Some(vec![HostIP { ip: ADDRESS.into() }]);
    status.pod_ip = Some(ADDRESS.into());
    status.pod_ips = Some(vec![PodIP { ip: ADDRESS.into() }]);
    status.observed_generation = pod.metadata.generation;
    status.container_statuses = container_status(machine, pod).map(|status| vec![status]);
    let why = || {
        let name = container(pod).map_or("", |container| container.name.as_str());
        (
            "ContainersNotReady",
            format!("containers with unready status: [{name}]"),
        )
    };
    let conditions = status.conditions.get_or_insert_default();
    let mut set = |type_: &str, holds: bool| {
        let why = (!holds).then(why);
        set_condition(conditions, type_, holds, why, now);
    };
    set("PodScheduled", true);
    set("PodReadyToStartContainers", true);
    set("Initialized", true);
    set("ContainersReady", is_ready);
    set("Ready", is_ready);
    status
}

/// `lastTransitionTime` moves only with the status.
fn set_condition(
    conditions: &mut Vec<PodCondition>,
    type_: &str,
    holds: bool,
    why: Option<(&str, String)>,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let (reason, message) = why.unzip();
    let place = conditions.iter().position(|found| found.type_ == type_);
    let before = place.map(|place| &conditions[place]);
    let since = before
        .filter(|before| before.status == status)
        .and_then(|before| before.last_transition_time.clone());
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.map(ToOwned::to_owned),
        message,
        last_transition_time: Some(since.unwrap_or_else(|| whole(now))),
        ..PodCondition::default()
    };
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
}

fn container_status(machine: &Machine, pod: &Pod) -> Option<ContainerStatus> {
    let container = container(pod)?;
    let image = container.image.clone().unwrap_or_default();
    let (state, process, has_started) = match &machine.state {
        State::Running {
            process,
            since,
            probes,
        } => (running(*since), Some(*process), probes.has_started()),
        State::Stopping { process, since, .. } => (running(*since), Some(*process), false),
        State::Waiting { problem, .. } => {
            let (reason, message) = match problem {
                Some(problem) => (problem.reason, Some(problem.message.clone())),
                None => ("ContainerCreating", None),
            };
            (waiting(reason, message), None, false)
        }
        State::Starting => (waiting("ContainerCreating", None), None, false),
        State::Crashed { .. } => (crashed(machine), None, false),
        State::Ended | State::Removed => (terminated(machine), None, false),
    };
    Some(ContainerStatus {
        name: container.name.clone(),
        image_id: image.clone(),
        image,
        ready: machine.is_ready(),
        started: Some(has_started),
        restart_count: shown_restarts(machine),
        container_id: process.map(container_id),
        last_state: Some(ContainerState {
            terminated: machine.past.last.clone(),
            ..ContainerState::default()
        })
        .filter(|last| last.terminated.is_some()),
        state: Some(state),
        ..ContainerStatus::default()
    })
}

/// A restart counts once it happens, not while it is waited for.
fn shown_restarts(machine: &Machine) -> i32 {
    match machine.state {
        State::Crashed { .. } | State::Ended | State::Removed => {
            machine.restarts.saturating_sub(1).max(0)
        }
        State::Waiting { .. }
        | State::Starting
        | State::Running { .. }
        | State::Stopping { .. } => machine.restarts,
    }
}

fn running(since: Timestamp) -> ContainerState {
    ContainerState {
        running: Some(ContainerStateRunning {
            started_at: Some(whole(since)),
        }),
        ..ContainerState::default()
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message,
        }),
        ..ContainerState::default()
    }
}

fn crashed(machine: &Machine) -> ContainerState {
    let pause = machine.backoff.pause().map_or(0, |pause| pause.as_secs());
    let message = format!("back-off {pause}s restarting the failed container");
    waiting(BACKOFF, Some(message))
}

fn terminated(machine: &Machine) -> ContainerState {
    ContainerState {
        terminated: machine.past.last.clone(),
        ..ContainerState::default()
    }
}

fn container_id(process: u32) -> String {
    format!("process://{process}")
}

/// Times in objects have whole seconds.
fn whole(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}
